//! Ordinary memory carried through page-locked slots by 1 to n threads.

use super::super::table::Figure;
use super::copies::DIRECTIONS;
use super::rig::{Rig, check, check_host, fill, word_of};
use crate::error::Result;
use crate::progress::Progress;
use pinfold::transfer::{Engine, EngineOptions, Way};
use pinfold_model::Direction;

/// Bytes of a slot, and of a chunk where there is enough to carry.
pub(super) const SLOT_BYTES: u64 = 2 << 20;
/// A transfer so small that waking the threads and the first chunk are most of its time.
const SMALL_BYTES: u64 = 512 << 10;

/// One way of staging.
pub(super) struct Staged {
    pub(super) direction: Direction,
    pub(super) threads: u32,
    pub(super) bytes: u64,
    /// Bytes that went at a time.
    pub(super) chunk_bytes: u64,
    pub(super) ns: Figure,
}

/// Measures staging: all numbers of threads with much to carry, and all of them with little.
pub(super) fn measure(rig: &mut Rig, progress: &mut dyn Progress) -> Result<Vec<Staged>> {
    let mut staged = Vec::new();
    progress.begin("staging", 2);
    for bytes in [SMALL_BYTES, rig.plan.stage_bytes] {
        let words = (bytes / 8) as usize;
        let mut data = vec![0; words];
        fill(&mut data, word_of);
        let mut there = rig.pooled.device::<u64>(words)?;
        let mut turns = Vec::new();
        for threads in rig.plan.threads.clone() {
            let mut options = EngineOptions::default();
            (options.threads, options.slot_bytes) = (Some(threads), SLOT_BYTES);
            options.way = Some(Way::Staged);
            let engine = Engine::with_options(&rig.pooled, &rig.device, &options)?;
            turns.extend(DIRECTIONS.map(|direction| (engine.clone(), direction, 0)));
        }
        let repeats = rig.plan.repeats(bytes);
        let figures = rig.rounds(&mut turns, repeats, |rig, (engine, direction, chunk)| {
            let start_ns = rig.now_ns();
            let moved = match direction {
                Direction::ToDevice => engine.upload(&data, &mut there)?,
                Direction::ToHost => engine.download(&there, &mut data)?,
            };
            let ns = (rig.now_ns() - start_ns) as f64;
            check(moved.bytes == bytes)?;
            if let pinfold::transfer::Path::Staged { chunk_bytes, .. } = moved.path {
                *chunk = chunk_bytes;
            }
            Ok(ns)
        })?;
        rig.check_device(&there)?;
        check_host(&data)?;
        for ((engine, direction, chunk_bytes), ns) in turns.into_iter().zip(figures) {
            staged.push(Staged {
                direction,
                threads: engine.threads(),
                bytes,
                chunk_bytes,
                ns,
            });
        }
        progress.step();
    }
    progress.end();
    Ok(staged)
}
