//! The books: bytes and counts by kind of memory.

use super::source::RawBlock;
use pinfold_model::MemoryKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// The books at one moment; exact whenever no other thread takes or gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStats {
    /// By kind; kinds that were never used are absent.
    pub kinds: BTreeMap<MemoryKind, KindStats>,
    /// Bytes of dropped buffers that the device may still use. They count as held.
    pub retired_bytes: u64,
    /// Bytes of dropped buffers that driver or system did not let go of: nobody has them any more.
    pub lost_bytes: u64,
    /// Requests that were not served with the kind first chosen.
    pub ladder_steps: u64,
}

/// Kinds that blocks can be of.
const KINDS: [MemoryKind; 7] = [
    MemoryKind::Pageable,
    MemoryKind::PageLocked,
    MemoryKind::WriteCombined,
    MemoryKind::Mapped,
    MemoryKind::MappedWriteCombined,
    MemoryKind::Registered,
    MemoryKind::Device,
];

/// The books while they are kept: numbers that threads change side by side.
#[derive(Default)]
pub(crate) struct Counters {
    kinds: [KindCounters; KINDS.len()],
    ladder_steps: AtomicU64,
    lost_bytes: AtomicU64,
}

#[derive(Default)]
struct KindCounters {
    taken: AtomicU64,
    given: AtomicU64,
    requested_bytes: AtomicU64,
    held_bytes: AtomicU64,
    held_bytes_peak: AtomicU64,
}

impl Counters {
    fn of(&self, kind: MemoryKind) -> Option<&KindCounters> {
        let at = KINDS.iter().position(|known| *known == kind)?;
        self.kinds.get(at)
    }

    pub(crate) fn taken(&self, block: &RawBlock) {
        let Some(kind) = self.of(block.kind) else {
            return;
        };
        kind.taken.fetch_add(1, Ordering::Relaxed);
        kind.requested_bytes
            .fetch_add(block.bytes, Ordering::Relaxed);
        let before = kind
            .held_bytes
            .fetch_add(block.held_bytes, Ordering::Relaxed);
        let held = before + block.held_bytes;
        if held > kind.held_bytes_peak.load(Ordering::Relaxed) {
            kind.held_bytes_peak.fetch_max(held, Ordering::Relaxed);
        }
    }

    pub(crate) fn given_back(&self, block: &RawBlock) {
        let Some(kind) = self.of(block.kind) else {
            return;
        };
        kind.given.fetch_add(1, Ordering::Relaxed);
        kind.requested_bytes
            .fetch_sub(block.bytes, Ordering::Relaxed);
        kind.held_bytes
            .fetch_sub(block.held_bytes, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self, held_bytes: u64) {
        self.lost_bytes.fetch_add(held_bytes, Ordering::Relaxed);
    }

    pub(crate) fn stepped_down(&self) {
        self.ladder_steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self, retired_bytes: u64) -> MemoryStats {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let books = |kind: &KindCounters| {
            let given = read(&kind.given);
            let taken = read(&kind.taken);
            KindStats {
                blocks: taken.saturating_sub(given),
                requested_bytes: read(&kind.requested_bytes),
                held_bytes: read(&kind.held_bytes),
                held_bytes_peak: read(&kind.held_bytes_peak),
                taken,
            }
        };
        let used = KINDS.into_iter().zip(self.kinds.iter().map(books));
        MemoryStats {
            kinds: used.filter(|(_, books)| books.taken > 0).collect(),
            retired_bytes,
            lost_bytes: read(&self.lost_bytes),
            ladder_steps: read(&self.ladder_steps),
        }
    }
}
