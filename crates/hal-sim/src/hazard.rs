//! Broken rules, noted; and the guard that knows when the program is inside a host callback.

use parking_lot::Mutex;
use pinfold_hal::Hazard;
use std::cell::Cell;

/// Most hazards kept; the first ones tell the most.
const HAZARDS_MAX: usize = 4096;

/// The hazards of one simulation. Has a lock of its own, so that a call from inside a callback,
/// during which the world is locked, can be noted too.
#[derive(Debug, Default)]
pub(crate) struct HazardLog {
    hazards: Mutex<Vec<Hazard>>,
}

impl HazardLog {
    pub(crate) fn note(&self, call: &str, what: impl Into<String>) {
        let mut hazards = self.hazards.lock();
        if hazards.len() < HAZARDS_MAX {
            hazards.push(Hazard {
                call: call.into(),
                what: what.into(),
            });
        }
    }

    pub(crate) fn all(&self) -> Vec<Hazard> {
        self.hazards.lock().clone()
    }
}

thread_local! {
    /// The virtual time of the callback that this thread runs.
    static CALLBACK_PS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The virtual time at which this thread runs a callback; `None` outside of callbacks.
pub(crate) fn callback_ps() -> Option<u64> {
    CALLBACK_PS.get()
}

/// Runs the program's code as a callback: driver calls from it are refused.
pub(crate) fn as_callback<R>(clock_ps: u64, body: impl FnOnce() -> R) -> R {
    struct Restore(Option<u64>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CALLBACK_PS.set(self.0);
        }
    }
    let _restore = Restore(CALLBACK_PS.replace(Some(clock_ps)));
    body()
}
