//! Blocks that nobody holds any more, but a device may still use.

use super::source::{BlockSource, RawBlock};
use super::stats::Counters;
use crate::error::Result;
use crate::stream::order::UseLog;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks that wait for the device, each with the uses that it waits for. They are looked at in
/// any order: a stream that is stuck holds up only its own blocks.
#[derive(Default)]
pub(crate) struct Retired {
    waiting: Mutex<Vec<(RawBlock, UseLog)>>,
    bytes: AtomicU64,
}

impl Retired {
    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Gives a block back, at once where no device uses it.
    pub(crate) fn retire(
        &self,
        block: RawBlock,
        uses: UseLog,
        source: &dyn BlockSource,
        counters: &Counters,
    ) {
        if uses.is_empty() || matches!(uses.is_done(), Ok(true)) {
            release(block, source, counters);
            return;
        }
        // Without marks the wait would only end with later work of the streams. Where none can be
        // made it ends so: later, never earlier.
        let _ = uses.mark();
        self.bytes.fetch_add(block.held_bytes, Ordering::Relaxed);
        self.waiting.lock().push((block, uses));
    }

    /// Releases what the device has finished with.
    pub(crate) fn collect(&self, source: &dyn BlockSource, counters: &Counters) -> Result<()> {
        if self.bytes() == 0 {
            return Ok(());
        }
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let mut kept = Vec::new();
        let mut outcome = Ok(());
        for (block, uses) in waiting {
            match uses.is_done() {
                Ok(true) => {
                    self.bytes.fetch_sub(block.held_bytes, Ordering::Relaxed);
                    release(block, source, counters);
                }
                Ok(false) => kept.push((block, uses)),
                Err(error) => {
                    kept.push((block, uses));
                    outcome = Err(error);
                }
            }
        }
        self.waiting.lock().append(&mut kept);
        outcome
    }

    /// Waits for the device and releases everything; a lost device touches nothing any more.
    /// What cannot be waited for is leaked.
    pub(crate) fn wait_for_all(&self, source: &dyn BlockSource, counters: &Counters) {
        for (block, uses) in std::mem::take(&mut *self.waiting.lock()) {
            if uses.settle().is_err_and(|error| !error.device_is_lost()) {
                std::mem::forget(block);
                continue;
            }
            self.bytes.fetch_sub(block.held_bytes, Ordering::Relaxed);
            release(block, source, counters);
        }
    }
}

fn release(block: RawBlock, source: &dyn BlockSource, counters: &Counters) {
    counters.given_back(&block);
    source.release(block);
}
