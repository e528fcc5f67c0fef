//! What is still in use when a program ends.

use super::books::Books;
use super::live::Live;
use super::report::MemoryReport;
use crate::device::Device;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// What is known of all memory managers of the process that may still have blocks.
static MANAGERS: Mutex<Vec<Weak<Known>>> = Mutex::new(Vec::new());

/// What is known of one memory manager: its books, but neither its memory nor its devices, so that
/// whoever looks never holds those up.
pub(crate) struct Known {
    devices: Vec<String>,
    simulated: bool,
    books: Arc<Books>,
    live: Arc<Live>,
}

impl Known {
    /// A memory manager begins.
    pub(crate) fn enter(devices: &[Device], books: &Arc<Books>, live: &Arc<Live>) -> Arc<Self> {
        let name = |d: &Device| d.info().name.clone();
        let known = Arc::new(Known {
            devices: devices.iter().map(name).collect(),
            simulated: devices.iter().any(Device::is_simulated),
            books: books.clone(),
            live: live.clone(),
        });
        let mut all = MANAGERS.lock();
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&known));
        known
    }

    /// What the books say; nothing of pools.
    pub(crate) fn report(&self) -> MemoryReport {
        let (blocks, blocks_not_listed) = self.live.blocks();
        MemoryReport {
            devices: self.devices.clone(),
            simulated: self.simulated,
            stats: self.books.stats(0),
            sites: self.books.sites(),
            blocks,
            blocks_not_listed,
            pools: Vec::new(),
        }
    }
}

/// The reports of all memory managers in this process that have live blocks, without those of their
/// pools: of managers that ended with no block, nothing is left to tell.
pub fn live_memory() -> Vec<MemoryReport> {
    let all: Vec<_> = MANAGERS.lock().iter().filter_map(Weak::upgrade).collect();
    let reports = all.iter().map(|known| known.report());
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
