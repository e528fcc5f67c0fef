//! What is still in use when a program ends.

use super::report::MemoryReport;
use crate::memory::MemoryInner;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// All memory managers of the process that may still have blocks.
static MANAGERS: Mutex<Vec<Weak<MemoryInner>>> = Mutex::new(Vec::new());

/// A memory manager begins.
pub(crate) fn enter(manager: &Arc<MemoryInner>) {
    let mut all = MANAGERS.lock();
    all.retain(|known| known.strong_count() > 0);
    all.push(Arc::downgrade(manager));
}

/// The reports of all memory managers in this process that have live blocks: of those that ended
/// with none, nothing is left to tell.
pub fn live_memory() -> Vec<MemoryReport> {
    let all: Vec<_> = MANAGERS.lock().iter().filter_map(Weak::upgrade).collect();
    let reports = all.iter().map(|manager| manager.report());
    reports.filter(|report| report.live_blocks() > 0).collect()
}

/// Writes what is still in use to standard error when it goes out of scope: keep one in `main`.
///
/// Buffers that outlive it are named by the line of code that asked for them; with
/// [`Tracking::Blocks`](super::Tracking) also one by one, with size and age.
///
/// ```
/// let _leaks = pinfold::track::LeakReport::new();
/// // ... the program; nothing is printed where every buffer was dropped
/// ```
#[derive(Debug, Default)]
#[must_use = "it reports when it goes out of scope"]
pub struct LeakReport(());

impl LeakReport {
    /// A report for when this goes out of scope.
    pub fn new() -> Self {
        LeakReport(())
    }
}

impl Drop for LeakReport {
    fn drop(&mut self) {
        for report in live_memory() {
            eprint!("pinfold: still in use at the end: {report}");
        }
    }
}
