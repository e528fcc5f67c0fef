//! The books: bytes and counts by kind of memory.

use super::source::RawBlock;
use parking_lot::Mutex;
use pinfold_model::MemoryKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes and counts of one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindStats {
    /// Live blocks.
    pub blocks: u64,
    /// Bytes that live blocks were asked for.
    pub requested_bytes: u64,
    /// Bytes that live blocks take.
    pub held_bytes: u64,
    /// Most bytes that were held at once.
    pub held_bytes_peak: u64,
    /// Blocks taken since the start.
    pub taken: u64,
}

/// The books at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStats {
    /// By kind; kinds that were never used are absent.
    pub kinds: BTreeMap<MemoryKind, KindStats>,
    /// Bytes of dropped buffers that the device may still use. They count as held.
    pub retired_bytes: u64,
    /// Requests that were not served with the kind first chosen.
    pub ladder_steps: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    books: Mutex<MemoryStats>,
}

impl Counters {
    pub(crate) fn taken(&self, block: &RawBlock) {
        let mut books = self.books.lock();
        let kind = books.kinds.entry(block.kind).or_default();
        kind.blocks += 1;
        kind.taken += 1;
        kind.requested_bytes += block.bytes;
        kind.held_bytes += block.held_bytes;
        kind.held_bytes_peak = kind.held_bytes_peak.max(kind.held_bytes);
    }

    pub(crate) fn given_back(&self, block: &RawBlock) {
        let mut books = self.books.lock();
        let kind = books.kinds.entry(block.kind).or_default();
        kind.blocks -= 1;
        kind.requested_bytes -= block.bytes;
        kind.held_bytes -= block.held_bytes;
    }

    pub(crate) fn stepped_down(&self) {
        self.books.lock().ladder_steps += 1;
    }

    pub(crate) fn snapshot(&self, retired_bytes: u64) -> MemoryStats {
        MemoryStats {
            retired_bytes,
            ..self.books.lock().clone()
        }
    }
}
