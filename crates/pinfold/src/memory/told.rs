//! What a memory manager tells of itself: its books, a report, and traces.

use super::{Memory, MemoryInner};
use crate::pool::PoolStats;
use crate::track::trace::Recorder;
use crate::track::{MemoryReport, MemoryStats, Tracking};
use std::sync::Arc;

impl Memory {
    /// The books of the pools of cached and of write-combined memory on the first device's NUMA
    /// node, or on that of the device that it is [`near`](Self::near); `None` without pools.
    pub fn pool_stats(&self) -> Option<[PoolStats; 2]> {
        self.inner.source.pool_stats(self.rules.near)
    }

    /// Bytes and counts by kind, exact at this moment.
    pub fn stats(&self) -> MemoryStats {
        self.inner.stats()
    }

    /// All that is known of this memory: by kind, by call site, and block by block where blocks
    /// are [tracked](Self::set_tracking).
    pub fn report(&self) -> MemoryReport {
        self.inner.report()
    }

    /// How much is remembered of each block from now on; call sites always are.
    pub fn set_tracking(&self, tracking: Tracking) {
        self.inner.live.set(tracking);
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.inner.live.is_recorded()
    }

    /// False where a recording is on already.
    pub(crate) fn start_recording(&self, recorder: Arc<Recorder>) -> bool {
        self.inner.live.record(recorder)
    }

    pub(crate) fn stop_recording(&self, recorder: &Arc<Recorder>) {
        self.inner.live.stop_recording(recorder);
    }
}

impl MemoryInner {
    fn stats(&self) -> MemoryStats {
        MemoryStats {
            unpinned_bytes: self.pins.unpinned_bytes(),
            ..self.books.stats(self.retired.bytes())
        }
    }

    fn report(&self) -> MemoryReport {
        MemoryReport {
            stats: self.stats(),
            pools: (0..)
                .map_while(|near| self.source.pool_stats(near))
                .flatten()
                .collect(),
            ..self.known.report()
        }
    }
}
