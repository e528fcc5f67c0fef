//! The ladder: what to try when a kind of memory cannot be had. Every step is visible.

use super::decide::Decision;
use super::source::{RawBlock, Refusal};
use super::{LadderStep, MemoryInner, Placement, Rules};
use crate::error::{Bytes, Error, HostMemoryError, Result};
use crate::graph::thread;
use pinfold_hal::ErrorCode;
use pinfold_machine::Machine;
use pinfold_model::MemoryKind;
use std::panic::Location;

/// What is tried for a kind, in order. Memory that kernels use in place has no rung below mapped:
/// they could not reach it.
fn rungs(kind: MemoryKind) -> &'static [MemoryKind] {
    use MemoryKind::{Mapped, MappedWriteCombined, PageLocked, Pageable, WriteCombined};
    match kind {
        WriteCombined => &[WriteCombined, PageLocked, Pageable],
        MappedWriteCombined => &[MappedWriteCombined, Mapped],
        Mapped => &[Mapped],
        Pageable => &[Pageable],
        _ => &[PageLocked, Pageable],
    }
}

/// Gets memory for a decision that is not at hand, stepping down where that is allowed.
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
    let (mut tried, mut of_the_pool) = (Vec::new(), false);
    for rung in rungs(kind) {
        if rules.strict && *rung != kind {
            break;
        }
        match fresh(memory, *rung, rules.near, bytes) {
            Ok(raw) => {
                if !tried.is_empty() {
                    memory.books.stepped_down();
                    let (got, tried) = (rung, &tried);
                    tracing::warn!(%site, bytes, wanted = %kind, %got, ?tried, "stepped down");
                }
                return Ok((raw, placed(*rung).with_ladder(tried)));
            }
            Err(Refusal::Driver(source)) if source.code.is_sticky() => {
                let doing = "getting host memory";
                return Err(Error::Driver { doing, source });
            }
            Err(Refusal::Capturing) => return Err(Refusal::Capturing.into()),
            Err(refusal) => {
                of_the_pool = matches!(refusal, Refusal::Pool(_));
                tried.push(step(*rung, refusal));
            }
        }
    }
    let limit = match of_the_pool {
        true => "ask for less, free some, or raise the pool's budget".to_owned(),
        false => likely_limit(bytes),
    };
    Err(Error::HostMemory(Box::new(HostMemoryError {
        bytes,
        wanted: kind,
        tried,
        strict: rules.strict,
        limit,
        site,
    })))
}

/// Memory from whatever the source has, once what the device is done with came back.
fn fresh(
    memory: &MemoryInner,
    kind: MemoryKind,
    near: u32,
    bytes: u64,
) -> Result<RawBlock, Refusal> {
    // A device that is lost is no reason to refuse memory of another one.
    let reclaim = || drop(memory.collect());
    reclaim();
    match memory.source.acquire_cached(kind, near, bytes) {
        Some(raw) => Ok(raw),
        None if thread::captures() && kind != MemoryKind::Pageable => Err(Refusal::Capturing),
        None => memory.source.acquire_host(kind, near, bytes, &reclaim),
    }
}

fn step(tried: MemoryKind, refusal: Refusal) -> LadderStep {
    let problem = match refusal {
        Refusal::Pool(text) => text,
        Refusal::Capturing => Error::from(refusal).to_string(),
        Refusal::Driver(error) if error.code == ErrorCode::OutOfMemory => {
            format!("{} cannot have that much ({})", error.call, error.code)
        }
        Refusal::Driver(error) => error.to_string(),
    };
    LadderStep { tried, problem }
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
            "{} seem to be left by {}, so the limit is the driver's own; ask for less, and \
             see `pinfold probe`",
            Bytes(headroom.bytes),
            headroom.limited_by
        )
    }
}
