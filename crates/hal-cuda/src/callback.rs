//! Host callbacks that wait for their turn in a stream.
//!
//! The driver keeps one word for each and hands it back when the turn comes. That word is a ticket
//! number, not a pointer. A callback whose context is lost is never run by the driver, and is
//! dropped here; a turn that comes twice (other code captured the stream into a graph) finds
//! nothing the second time. With a pointer the first would leak and the second would be a use after
//! free.
//!
//! The driver's own queues bound the number of tickets: an enqueue into a full stream blocks.
//!
//! A driver call from inside a callback may wait for ever for the thread that makes it, so it is
//! refused before it reaches the driver.

use parking_lot::Mutex;
use pinfold_hal::{DeviceId, DriverError, ErrorCode, HostCallback, Result};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// True while this thread runs a callback.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Refuses a driver call from inside a callback.
///
/// # Errors
/// `NotPermitted`.
pub(crate) fn refuse_inside(call: &'static str) -> Result<()> {
    if !INSIDE.get() {
        return Ok(());
    }
    Err(DriverError::with_detail(
        ErrorCode::NotPermitted,
        call,
        "host callbacks must not call the driver",
    ))
}

/// This thread runs a callback as long as this lives.
struct Inside(bool);

impl Inside {
    fn begin() -> Self {
        Inside(INSIDE.replace(true))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// Whose callbacks: of which backend object, and on which device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) instance: u64,
    pub(crate) device: DeviceId,
}

struct Waiting {
    next_ticket: u64,
    callbacks: BTreeMap<u64, (Owner, HostCallback)>,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting {
    next_ticket: 1,
    callbacks: BTreeMap::new(),
});

/// Keeps a callback and gives the word to hand to the driver.
pub(crate) fn park(owner: Owner, callback: HostCallback) -> u64 {
    let mut waiting = WAITING.lock();
    let ticket = waiting.next_ticket;
    waiting.next_ticket += 1;
    waiting.callbacks.insert(ticket, (owner, callback));
    ticket
}

/// Takes a callback out, to run or to drop it. The lock is free again when this returns.
pub(crate) fn take(ticket: u64) -> Option<HostCallback> {
    let taken = WAITING.lock().callbacks.remove(&ticket);
    taken.map(|(_, callback)| callback)
}

/// Drops everything of one owner that has not run.
pub(crate) fn drop_all(owner: Owner) {
    let dropped: BTreeMap<_, _> = {
        let mut waiting = WAITING.lock();
        let (gone, kept) = std::mem::take(&mut waiting.callbacks)
            .into_iter()
            .partition(|(_, entry)| entry.0 == owner);
        waiting.callbacks = kept;
        gone
    };
    // Outside the lock: what a callback owns may do anything when it is dropped.
    drop(dropped);
}

/// What the driver calls in the stream's turn, on a thread of its own. Never unwinds into the
/// driver.
///
/// # Safety
/// Any word is fine: one that is not a ticket finds nothing.
pub(crate) unsafe extern "C" fn run(word: *mut c_void) {
    let Some(callback) = take(word.addr() as u64) else {
        return;
    };
    let _inside = Inside::begin();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(callback)) {
        // The panic hook has told about it on standard error. Dropping the payload could panic
        // again, here, where nothing may unwind: it is let go instead.
        std::mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn owner(instance: u64) -> Owner {
        Owner {
            instance,
            device: DeviceId(0),
        }
    }

    fn turn(ticket: u64) {
        // SAFETY: any word is fine.
        unsafe { run(std::ptr::without_provenance_mut(ticket as usize)) };
    }

    #[test]
    fn a_callback_runs_once_however_often_its_turn_comes() {
        let count = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&count);
        let ticket = park(
            owner(1000),
            Box::new(move || {
                seen.fetch_add(1, Ordering::Relaxed);
            }),
        );
        turn(ticket);
        turn(ticket);
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert_eq!(
            Arc::strong_count(&count),
            1,
            "what it owned must be dropped"
        );
    }

    #[test]
    fn a_panic_stays_inside() {
        let ticket = park(owner(1001), Box::new(|| panic!("on purpose")));
        turn(ticket);
        assert!(take(ticket).is_none());
    }

    #[test]
    fn callbacks_of_a_lost_context_are_dropped_and_others_stay() {
        let held = Arc::new(());
        let (mine, other) = (Arc::clone(&held), Arc::clone(&held));
        let lost = park(owner(1002), Box::new(move || drop(mine)));
        let kept = park(owner(1003), Box::new(move || drop(other)));
        drop_all(owner(1002));
        assert_eq!(Arc::strong_count(&held), 2);
        assert!(take(lost).is_none());
        assert!(take(kept).is_some());
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
