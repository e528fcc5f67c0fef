//! Blocks that nobody holds any more, but a device may still use.

use super::source::{BlockSource, RawBlock};
use super::stats::Counters;
use crate::error::Result;
use crate::stream::order::{StreamOrder, UseLog};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How many blocks may be added, at the least, before the device is asked again.
const COLLECT_EVERY: u32 = 128;

/// So many bytes are worth a question, however few blocks they are.
const COLLECT_EVERY_BYTES: u64 = 4 << 20;

/// Blocks that wait for the device, each with the uses that it waits for. They are looked at in
/// any order: a stream that is stuck holds up only its own blocks.
///
/// Adding one asks the device nothing. Every so many blocks or bytes, and whenever memory
/// is wanted that is not at hand, each stream that blocks wait for is asked once, whatever their
/// number.
#[derive(Default)]
pub(crate) struct Retired {
    waiting: Mutex<Vec<(RawBlock, UseLog)>>,
    /// An empty list with room.
    spare: Mutex<Vec<(RawBlock, UseLog)>>,
    bytes: AtomicU64,
    added: AtomicU32,
    added_bytes: AtomicU64,
    /// How many may be added: half of what was left the last time, so that looking at many that
    /// are not done costs each of them little.
    due: AtomicU32,
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
        if uses.is_known_gone() {
            release(block, source, counters);
            return;
        }
        uses.unwant();
        let held_bytes = block.held_bytes;
        self.bytes.fetch_add(held_bytes, Ordering::Relaxed);
        self.waiting.lock().push((block, uses));
        let added = self.added.fetch_add(1, Ordering::Relaxed) + 1;
        let due = self.due.load(Ordering::Relaxed).max(COLLECT_EVERY);
        let before = self.added_bytes.fetch_add(held_bytes, Ordering::Relaxed);
        if added >= due || before + held_bytes >= COLLECT_EVERY_BYTES {
            // What fails here fails again where somebody can be told.
            let _ = self.collect(source, counters);
        }
    }

    /// Releases what the device has finished with.
    ///
    /// # Errors
    /// Where a device is lost, whose blocks are released too: it touches nothing any more; or where
    /// the driver cannot tell, whose blocks stay.
    pub(crate) fn collect(&self, source: &dyn BlockSource, counters: &Counters) -> Result<()> {
        if self.bytes() == 0 {
            return Ok(());
        }
        self.added.store(0, Ordering::Relaxed);
        self.added_bytes.store(0, Ordering::Relaxed);
        // Two lists take turns, so that neither has to grow again and again.
        let spare = std::mem::take(&mut *self.spare.lock());
        let mut batch = std::mem::replace(&mut *self.waiting.lock(), spare);
        let outcome = ask_each_stream(&batch);
        let mut at = 0;
        while at < batch.len() {
            if !batch[at].1.is_known_gone() {
                at += 1;
                continue;
            }
            let (block, uses) = batch.swap_remove(at);
            self.bytes.fetch_sub(block.held_bytes, Ordering::Relaxed);
            release(block, source, counters);
            drop(uses);
        }
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() < batch.len() {
                std::mem::swap(&mut *waiting, &mut batch);
            }
            waiting.append(&mut batch);
            let half = u32::try_from(waiting.len() / 2).unwrap_or(u32::MAX);
            self.due.store(half, Ordering::Relaxed);
        }
        *self.spare.lock() = batch;
        outcome
    }

    /// Waits for the device and releases everything; a lost device touches nothing any more.
    /// What cannot be waited for is leaked.
    pub(crate) fn wait_for_all(&self, source: &dyn BlockSource, counters: &Counters) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for (block, uses) in waiting {
            if uses.settle().is_err_and(|error| !error.device_is_lost()) {
                std::mem::forget(block);
                continue;
            }
            self.bytes.fetch_sub(block.held_bytes, Ordering::Relaxed);
            release(block, source, counters);
        }
    }
}

/// Asks each stream that blocks wait for how far it is, and sees to it that later work of the
/// stream does not prolong the wait.
fn ask_each_stream(waiting: &[(RawBlock, UseLog)]) -> Result<()> {
    let mut last: Vec<(&Arc<StreamOrder>, u64)> = Vec::new();
    for (order, place) in waiting.iter().flat_map(|(_, uses)| uses.pending()) {
        match last.iter_mut().find(|(o, _)| Arc::ptr_eq(o, order)) {
            Some((_, latest)) => *latest = place.max(*latest),
            None => last.push((order, place)),
        }
    }
    let mut outcome = Ok(());
    for (order, place) in last {
        // Every stream, also after a failure. Where no mark can be made the wait ends with later
        // work: later, never earlier.
        let asked = order.look();
        if asked.is_ok() {
            let _ = order.mark_pending(place);
        }
        outcome = outcome.and(asked);
    }
    outcome
}

fn release(block: RawBlock, source: &dyn BlockSource, counters: &Counters) {
    counters.given_back(&block);
    let held_bytes = block.held_bytes;
    if !source.release(block) {
        counters.lost(held_bytes);
    }
}
