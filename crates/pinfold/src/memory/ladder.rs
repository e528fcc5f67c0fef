//! The ladder: what to try when a kind of memory cannot be had. Every step is visible.

use super::decide::Decision;
use super::source::RawBlock;
use super::{LadderStep, MemoryInner, Placement, Rules};
use crate::error::{Bytes, Error, HostMemoryError, Result};
use crate::pool::core::POOL;
use pinfold_hal::{DriverError, ErrorCode};
use pinfold_machine::Machine;
use pinfold_model::MemoryKind;
use std::panic::Location;

/// A rung: a kind, in one piece or several.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Rung {
    kind: MemoryKind,
    in_pieces: bool,
}

const fn whole(kind: MemoryKind) -> Rung {
    Rung {
        kind,
        in_pieces: false,
    }
}

const fn pieces(kind: MemoryKind) -> Rung {
    Rung {
        kind,
        in_pieces: true,
    }
}

/// What is tried for a kind, in order. Memory that kernels use in place has no rung below mapped:
/// they could not reach it.
fn rungs(kind: MemoryKind) -> &'static [Rung] {
    use MemoryKind::{Mapped, MappedWriteCombined, PageLocked, Pageable, WriteCombined};
    const WRITE_COMBINED: &[Rung] = &[
        whole(WriteCombined),
        whole(PageLocked),
        pieces(PageLocked),
        whole(Pageable),
    ];
    const PAGE_LOCKED: &[Rung] = &[whole(PageLocked), pieces(PageLocked), whole(Pageable)];
    const MAPPED_WRITE_COMBINED: &[Rung] =
        &[whole(MappedWriteCombined), whole(Mapped), pieces(Mapped)];
    const MAPPED: &[Rung] = &[whole(Mapped), pieces(Mapped)];
    const PAGEABLE: &[Rung] = &[whole(Pageable)];
    match kind {
        WriteCombined => WRITE_COMBINED,
        MappedWriteCombined => MAPPED_WRITE_COMBINED,
        Mapped => MAPPED,
        Pageable => PAGEABLE,
        _ => PAGE_LOCKED,
    }
}

/// Gets memory for a decision, stepping down where that is allowed.
pub(super) fn acquire(
    memory: &MemoryInner,
    decision: Decision,
    bytes: u64,
    rules: Rules,
    site: &'static Location<'static>,
) -> Result<(RawBlock, Placement)> {
    let Decision { kind, reason } = decision;
    let placed = |kind| Placement::new(kind, bytes, reason.clone(), site);
    if bytes == 0 {
        return Ok((RawBlock::empty(kind), placed(kind)));
    }
    if kind != MemoryKind::Pageable {
        memory
            .devices
            .iter()
            .try_for_each(crate::device::Device::ensure_open)?;
    }
    let mut tried = Vec::new();
    let mut of_the_pool = false;
    for rung in rungs(kind) {
        if rules.strict && rung.kind != kind {
            break;
        }
        if rung.in_pieces && !memory.source.cuts_pieces() {
            continue;
        }
        let attempt = match memory.source.acquire_cached(rung.kind, bytes) {
            Some(raw) => Ok(raw),
            None => {
                memory.collect()?;
                fresh(memory, *rung, bytes)
            }
        };
        match attempt {
            Ok(raw) => {
                if !tried.is_empty() {
                    memory.counters.stepped_down();
                }
                let pieces = raw.pieces();
                return Ok((raw, placed(rung.kind).with_ladder(tried, pieces)));
            }
            Err(error) if error.code.is_sticky() => {
                return Err(Error::Driver {
                    doing: "getting host memory",
                    source: error,
                });
            }
            Err(error) => {
                of_the_pool = error.call == POOL;
                tried.push(step(*rung, &error));
            }
        }
    }
    let limit = match of_the_pool {
        true => "ask for less, free some, or raise the pool's budget".to_owned(),
        false => likely_limit(bytes),
    };
    let error = HostMemoryError {
        bytes,
        wanted: kind,
        tried,
        strict: rules.strict,
        limit,
        site,
    };
    Err(Error::HostMemory(Box::new(error)))
}

/// Memory that is not at hand: from the driver, or when some comes back.
fn fresh(memory: &MemoryInner, rung: Rung, bytes: u64) -> Result<RawBlock, DriverError> {
    if rung.in_pieces {
        return memory.source.acquire_host_in_pieces(rung.kind, bytes);
    }
    // A device that is lost meanwhile is found by the next request.
    let reclaim = || drop(memory.collect());
    memory.source.acquire_host(rung.kind, bytes, &reclaim)
}

fn step(rung: Rung, error: &DriverError) -> LadderStep {
    let problem = match error.code {
        ErrorCode::OutOfMemory if error.call == POOL => error.detail.clone(),
        ErrorCode::OutOfMemory => {
            format!("{} cannot have that much ({})", error.call, error.code)
        }
        _ => error.to_string(),
    };
    LadderStep {
        tried: rung.kind,
        in_pieces: rung.in_pieces,
        problem,
    }
}

/// Names the limit that most likely stood in the way, and the one that is often blamed wrongly.
fn likely_limit(bytes: u64) -> String {
    let headroom = Machine::read().pin_headroom();
    if bytes > headroom.bytes {
        format!(
            "the likely limit is {}: about {} can be page-locked now (RLIMIT_MEMLOCK is not the \
             limit for GPU drivers on Linux); ask for less, or free some",
            headroom.limited_by,
            Bytes(headroom.bytes)
        )
    } else {
        format!(
            "{} seem to be left by {}, so the limit is the driver's own; ask for smaller pieces, \
             and see `pinfold probe`",
            Bytes(headroom.bytes),
            headroom.limited_by
        )
    }
}
