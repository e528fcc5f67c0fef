//! How to watch a transfer, and stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Watches one transfer at a time, and can stop it from any thread: once stopped, it stops every
/// further one too. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Control {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    stopped: AtomicBool,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that have arrived.
    pub done_bytes: u64,
    /// Bytes in all; 0 before the transfer began.
    pub total_bytes: u64,
}

impl Control {
    /// A control for one transfer.
    pub fn new() -> Self {
        Control::default()
    }

    /// Stops the transfer: chunks that are on their way arrive, no further ones are sent, and the
    /// transfer ends with [`Error::Cancelled`](crate::Error::Cancelled). One that is done is not
    /// undone.
    pub fn cancel(&self) {
        self.state.stopped.store(true, Ordering::Relaxed);
    }

    /// How far it is. It never goes back, but for the next transfer under the same control.
    pub fn progress(&self) -> Progress {
        Progress {
            done_bytes: self.state.done_bytes.load(Ordering::Relaxed),
            total_bytes: self.state.total_bytes.load(Ordering::Relaxed),
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.state.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self, total_bytes: u64) {
        self.state.done_bytes.store(0, Ordering::Relaxed);
        self.state.total_bytes.store(total_bytes, Ordering::Relaxed);
    }

    pub(super) fn done(&self, bytes: u64) {
        self.state.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
