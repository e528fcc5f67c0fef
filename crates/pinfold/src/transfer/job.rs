//! One transfer, cut into chunks that threads take in turn.

use super::control::Control;
use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The chunks of one transfer, and what became of it.
pub(super) struct Job {
    total_bytes: u64,
    chunk_bytes: u64,
    next: AtomicU64,
    arrived_bytes: AtomicU64,
    control: Control,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl Job {
    pub(super) fn new(total_bytes: u64, chunk_bytes: u64, control: &Control) -> Self {
        control.begin(total_bytes);
        Job {
            total_bytes,
            chunk_bytes: chunk_bytes.max(1),
            next: AtomicU64::new(0),
            arrived_bytes: AtomicU64::new(0),
            control: control.clone(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// The next chunk that nobody has taken; none where the transfer is over.
    pub(super) fn claim(&self) -> Option<Range<u64>> {
        if self.failed.load(Ordering::Relaxed) || self.control.is_cancelled() {
            return None;
        }
        let start = self.next.fetch_add(1, Ordering::Relaxed) * self.chunk_bytes;
        let end = start.saturating_add(self.chunk_bytes).min(self.total_bytes);
        (start < end).then_some(start..end)
    }

    /// How many of so many threads have a chunk to carry.
    pub(super) fn threads_at_work(&self, threads: u32) -> u32 {
        let chunks = self.total_bytes.div_ceil(self.chunk_bytes).max(1);
        u32::try_from(chunks).map_or(threads, |chunks| chunks.min(threads))
    }

    /// A chunk has arrived.
    pub(super) fn arrived(&self, bytes: u64) {
        self.arrived_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.control.done(bytes);
    }

    /// The first failure is the one that is told.
    pub(super) fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// What became of it, once all threads are done with it.
    pub(super) fn outcome(&self) -> Result<()> {
        if let Some(error) = self.failure.lock().take() {
            return Err(error);
        }
        let done_bytes = self.arrived_bytes.load(Ordering::Relaxed);
        if done_bytes < self.total_bytes {
            return Err(Error::Cancelled {
                done_bytes,
                total_bytes: self.total_bytes,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_in_one_chunk() {
        for (total, chunk) in [(0, 4), (1, 4), (4, 4), (9, 4), (7, 100)] {
            let job = Job::new(total, chunk, &Control::new());
            let mut at = 0;
            while let Some(range) = job.claim() {
                assert_eq!(range.start, at);
                assert!(range.end - range.start <= chunk);
                at = range.end;
                job.arrived(range.end - range.start);
            }
            assert_eq!(at, total);
            assert!(job.outcome().is_ok());
        }
    }

    #[test]
    fn a_stopped_job_says_how_far_it_came() {
        let control = Control::new();
        let job = Job::new(100, 10, &control);
        job.claim();
        job.arrived(10);
        control.cancel();
        assert_eq!(job.claim(), None);
        let error = job.outcome().unwrap_err();
        assert!(matches!(
            error,
            Error::Cancelled {
                done_bytes: 10,
                total_bytes: 100
            }
        ));
    }
}
