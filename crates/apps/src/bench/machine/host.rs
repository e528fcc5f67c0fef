//! How fast one host thread writes and reads memory, by kind. A real device only: what a simulated
//! one runs in is ordinary memory of this machine, whatever its kind.
//!
//! Write-combined memory is written and never read: reading it is what no buffer of it offers.

use super::super::table::Figure;
use super::rig::{Rig, check};
use crate::error::Result;
use crate::progress::Progress;
use pinfold::{ExchangeBuffer, MemoryKind, UploadBuffer};
use std::hint::black_box;
use std::time::Instant;

const KINDS: [MemoryKind; 3] = [
    MemoryKind::Pageable,
    MemoryKind::PageLocked,
    MemoryKind::WriteCombined,
];
/// Beyond what any cache holds, in words.
const WORDS: usize = (256 << 20) / 8;

/// Bytes a second of one thread.
pub(super) struct HostRate {
    pub(super) kind: MemoryKind,
    pub(super) write_bytes_per_s: Figure,
    pub(super) read_bytes_per_s: Option<Figure>,
}

enum Buffer {
    Plain(ExchangeBuffer<u64>),
    Combined(UploadBuffer<u64>),
}

/// Measures what one host thread does.
pub(super) fn measure(rig: &mut Rig, progress: &mut dyn Progress) -> Result<Vec<HostRate>> {
    if rig.plan.simulated {
        return Ok(Vec::new());
    }
    progress.begin("host", KINDS.len() as u64);
    let repeats = rig.plan.repeats(WORDS as u64 * 8);
    let mut buffers = Vec::new();
    for kind in KINDS {
        let memory = rig.plain.of_kind(kind);
        let buffer = match kind.is_write_combined() {
            true => Buffer::Combined(memory.upload(WORDS)?),
            false => Buffer::Plain(memory.exchange(WORDS)?),
        };
        buffers.push((buffer, Vec::new()));
        progress.step();
    }
    let write = rig.rounds(&mut buffers, repeats, |_, (buffer, reads)| {
        let start = Instant::now();
        let plain = match buffer {
            Buffer::Plain(plain) => {
                plain.as_mut_slice().fill(1);
                &*plain
            }
            Buffer::Combined(combined) => {
                combined.write_each(|_| 1);
                return Ok(start.elapsed().as_nanos() as f64);
            }
        };
        let ns = start.elapsed().as_nanos() as f64;
        let start = Instant::now();
        let sum: u64 = black_box(plain.as_slice()).iter().sum();
        reads.push(start.elapsed().as_nanos() as f64);
        check(sum == WORDS as u64)?;
        Ok(ns)
    })?;
    let rate = |ns: Figure| ns.rate(WORDS as f64 * 8.0).times(1e9);
    let mut rates = Vec::new();
    for ((kind, write), (_, reads)) in KINDS.into_iter().zip(write).zip(buffers) {
        // The first round warms up.
        let reads = reads.get(1..).filter(|reads| !reads.is_empty());
        rates.push(HostRate {
            kind,
            write_bytes_per_s: rate(write),
            read_bytes_per_s: reads.map(|ns| rate(Figure::of(ns.to_vec()))),
        });
    }
    progress.end();
    Ok(rates)
}
