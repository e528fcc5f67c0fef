//! The pool's books. Each thread counts for itself; a sum over all of them is exact whenever the
//! pool is at rest.

use super::numa::NumaBinding;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pool at one moment. All but the counts and the node are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolStats {
    /// Blocks in use.
    pub blocks: u64,
    /// What blocks in use were asked for with.
    pub requested_bytes: u64,
    /// What blocks in use take.
    pub held_bytes: u64,
    /// What is page-locked and not in use.
    pub cached_bytes: u64,
    /// What is page-locked.
    pub pinned_bytes: u64,
    /// The most that was page-locked at a time.
    pub pinned_bytes_peak: u64,
    /// What the driver did not let go of: page-locked for ever.
    pub quarantined_bytes: u64,
    /// Blocks taken since the start.
    pub taken: u64,
    /// Segments.
    pub segments: u64,
    /// Runs of free pages.
    pub holes: u64,
    /// The NUMA node that its memory is to lie on, where there is one.
    pub numa_node: Option<u32>,
    /// What came of binding it there.
    pub numa_binding: NumaBinding,
    /// What lies on another node than it should, by a sample of the pages of each segment at the
    /// time when it was made. Nothing on a host with one node.
    pub misplaced_bytes: u64,
}

/// What was taken and given back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flows {
    pub(super) blocks: u64,
    pub(super) requested_bytes: u64,
    pub(super) held_bytes: u64,
}

/// One thread's counts. Only that thread writes them; no two threads' share a cache line, nor the
/// pair of lines that processors fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LocalCounters {
    taken: Counts,
    given: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    blocks: AtomicU64,
    requested_bytes: AtomicU64,
    held_bytes: AtomicU64,
}

impl Counts {
    /// For the one thread that writes.
    #[inline]
    fn add_own(&self, requested_bytes: u64, held_bytes: u64) {
        let add = |to: &AtomicU64, n| to.store(to.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.blocks, 1);
        add(&self.requested_bytes, requested_bytes);
        add(&self.held_bytes, held_bytes);
    }

    /// For any thread.
    fn add(&self, flows: Flows) {
        self.blocks.fetch_add(flows.blocks, Ordering::Relaxed);
        self.requested_bytes
            .fetch_add(flows.requested_bytes, Ordering::Relaxed);
        self.held_bytes
            .fetch_add(flows.held_bytes, Ordering::Relaxed);
    }

    fn flows(&self) -> Flows {
        Flows {
            blocks: self.blocks.load(Ordering::Relaxed),
            requested_bytes: self.requested_bytes.load(Ordering::Relaxed),
            held_bytes: self.held_bytes.load(Ordering::Relaxed),
        }
    }
}

impl LocalCounters {
    #[inline]
    pub(super) fn took(&self, requested_bytes: u64, held_bytes: u64) {
        self.taken.add_own(requested_bytes, held_bytes);
    }

    #[inline]
    pub(super) fn gave(&self, requested_bytes: u64, held_bytes: u64) {
        self.given.add_own(requested_bytes, held_bytes);
    }
}

/// All threads' counts.
#[derive(Default)]
pub(super) struct Counters {
    threads: Mutex<Vec<Arc<LocalCounters>>>,
    /// Of threads that ended, and of threads that are ending.
    others: LocalCounters,
}

impl Counters {
    pub(super) fn join(&self) -> Arc<LocalCounters> {
        let counters = Arc::<LocalCounters>::default();
        self.threads.lock().push(counters.clone());
        counters
    }

    /// A thread ends.
    pub(super) fn fold(&self, ended: &Arc<LocalCounters>) {
        let mut threads = self.threads.lock();
        self.others.taken.add(ended.taken.flows());
        self.others.given.add(ended.given.flows());
        threads.retain(|thread| !Arc::ptr_eq(thread, ended));
    }

    /// For a thread without counters of its own.
    pub(super) fn took(&self, flows: Flows) {
        self.others.taken.add(flows);
    }

    /// As [`took`](Self::took).
    pub(super) fn gave(&self, flows: Flows) {
        self.others.given.add(flows);
    }

    /// What is in use, and the number of blocks ever taken.
    pub(super) fn in_use(&self) -> (Flows, u64) {
        let threads = self.threads.lock();
        let all = || threads.iter().map(|t| &**t).chain([&self.others]);
        let sum = |flows: &dyn Fn(&LocalCounters) -> Flows| {
            all().map(flows).fold(Flows::default(), |a, b| Flows {
                blocks: a.blocks + b.blocks,
                requested_bytes: a.requested_bytes + b.requested_bytes,
                held_bytes: a.held_bytes + b.held_bytes,
            })
        };
        // Given first: what is taken meanwhile can only make the difference larger.
        let given = sum(&|c| c.given.flows());
        let taken = sum(&|c| c.taken.flows());
        let in_use = Flows {
            blocks: taken.blocks.saturating_sub(given.blocks),
            requested_bytes: taken.requested_bytes.saturating_sub(given.requested_bytes),
            held_bytes: taken.held_bytes.saturating_sub(given.held_bytes),
        };
        (in_use, taken.blocks)
    }
}
