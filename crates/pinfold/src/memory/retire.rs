//! Blocks that nobody holds any more, but a device may still use.

use super::MemoryInner;
use super::source::RawBlock;
use crate::error::Result;
use crate::graph::thread;
use crate::stream::order::{StreamOrder, UseLog};
use crate::track::books::Entry;
use parking_lot::Mutex;
use std::panic::Location;
use std::sync::Arc;

/// How many blocks may be added, at the least, before the device is asked again: asking costs some
/// hundred nanoseconds, and what is added anew is at hand without.
const COLLECT_EVERY: usize = 256;
/// So many bytes are worth a question, however few blocks they are.
const COLLECT_EVERY_BYTES: u64 = 4 << 20;

/// A block that nobody holds, with the uses that it waits for.
pub(crate) struct RetiredBlock {
    pub(crate) raw: RawBlock,
    pub(crate) uses: UseLog,
    /// Who asked for it.
    pub(crate) site: &'static Location<'static>,
}

/// Blocks that wait for the device. They are looked at in any order: a stream that is stuck holds
/// up only its own blocks.
///
/// Adding one asks the device nothing. Every so many blocks or bytes, and whenever memory
/// is wanted that is not at hand, each stream that blocks wait for is asked once, whatever their
/// number.
#[derive(Default)]
pub(crate) struct Retired {
    waiting: Mutex<Waiting>,
    /// An empty list with room.
    spare: Mutex<Vec<RetiredBlock>>,
}

#[derive(Default)]
struct Waiting {
    blocks: Vec<RetiredBlock>,
    bytes: u64,
    added: usize,
    added_bytes: u64,
    /// How many may be added: half of what was left the last time, so that looking at many that
    /// are not done costs each of them little.
    due: usize,
}

impl Waiting {
    /// True where it is time to ask the device.
    fn add(&mut self, block: RetiredBlock) -> bool {
        let held_bytes = block.raw.held_bytes;
        self.blocks.push(block);
        self.bytes += held_bytes;
        self.added += 1;
        self.added_bytes += held_bytes;
        self.added >= self.due.max(COLLECT_EVERY) || self.added_bytes >= COLLECT_EVERY_BYTES
    }

    fn put_back(&mut self, batch: &mut Vec<RetiredBlock>) {
        self.bytes += bytes(batch);
        if self.blocks.len() < batch.len() {
            std::mem::swap(&mut self.blocks, batch);
        }
        self.blocks.append(batch);
        self.due = self.blocks.len() / 2;
    }
}

fn bytes(blocks: &[RetiredBlock]) -> u64 {
    blocks.iter().map(|block| block.raw.held_bytes).sum()
}

impl Retired {
    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.waiting.lock().bytes
    }

    fn take_all(&self) -> Vec<RetiredBlock> {
        // Two lists take turns, so that neither has to grow again and again.
        let spare = std::mem::take(&mut *self.spare.lock());
        let mut waiting = self.waiting.lock();
        (waiting.bytes, waiting.added, waiting.added_bytes) = (0, 0, 0);
        std::mem::replace(&mut waiting.blocks, spare)
    }
}

impl MemoryInner {
    /// Takes a block that a device may still use, to release it later.
    pub(super) fn retire(&self, block: RetiredBlock) {
        block.uses.unwant();
        if self.retired.waiting.lock().add(block) {
            // What fails here fails again where somebody can be told.
            let _ = self.collect_retired();
        }
    }

    /// Releases what the device has finished with.
    ///
    /// # Errors
    /// Where a device is lost, whose blocks are released too: it touches nothing any more; or where
    /// the driver cannot tell, whose blocks stay.
    pub(super) fn collect_retired(&self) -> Result<()> {
        if thread::captures() {
            // Devices cannot be asked; the next one who comes does it.
            return Ok(());
        }
        let mut batch = self.retired.take_all();
        if batch.is_empty() {
            *self.retired.spare.lock() = batch;
            return Ok(());
        }
        let outcome = ask_each_stream(&batch);
        batch.retain_mut(|block| {
            let waits = !block.uses.is_known_gone();
            if !waits {
                self.release(&mut block.raw, block.site);
            }
            waits
        });
        self.retired.waiting.lock().put_back(&mut batch);
        *self.retired.spare.lock() = batch;
        outcome
    }

    /// Waits for the device and releases everything; a lost device touches nothing any more.
    /// What cannot be waited for is leaked.
    pub(super) fn wait_for_retired(&self) {
        for mut block in self.retired.take_all() {
            match block.uses.settle() {
                Err(error) if !error.device_is_lost() => std::mem::forget(block),
                _ => self.release(&mut block.raw, block.site),
            }
        }
    }

    /// Gives a block back that no device uses any more.
    pub(super) fn release(&self, raw: &mut RawBlock, site: &'static Location<'static>) {
        self.books.given_back(&Entry {
            site,
            kind: raw.kind,
            bytes: raw.bytes,
            held_bytes: raw.held_bytes,
        });
        if !self.source.release(raw) {
            self.books.lost(raw.held_bytes);
        }
    }
}

/// Asks each stream that blocks wait for how far it is, and sees to it that later work of the
/// stream does not prolong the wait.
fn ask_each_stream(waiting: &[RetiredBlock]) -> Result<()> {
    let mut last: Vec<(&Arc<StreamOrder>, u64)> = Vec::new();
    for (order, place) in waiting.iter().flat_map(|block| block.uses.pending()) {
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
