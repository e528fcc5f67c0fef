//! Measuring held-out points, each family on memory of its own. A point is measured several times
//! in a row, as the profile's were: what a transfer costs behind a very different one is another
//! question.

use super::points::{Draw, Point, way};
use crate::bench::machine::copies::{Buffers, KINDS};
use crate::bench::machine::rig::{Rig, SEED, fill, word_of};
use crate::bench::machine::rows::RowsOf;
use crate::bench::table::Figure;
use crate::error::Result;
use pinfold::buffer::HandOver;
use pinfold::kernels::gather::Gather;
use pinfold::kernels::splitmix64;
use pinfold::transfer::{Engine, EngineOptions, Way};
use pinfold::{Bytes, MemoryKind};
use pinfold_model::{Access, Direction, Profile};

/// A point's prediction and its time.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) predicted_ns: f64,
    pub(super) measured: Figure,
}

/// Ways to the same end, and the one that the model takes.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) ways: Vec<Outcome>,
}

impl Choice {
    /// How much longer the way that the model takes lasted than the best: 0 where it is the best.
    pub(super) fn excess(&self) -> f64 {
        let chosen = self.ways.iter();
        let chosen = chosen.min_by(|a, b| a.predicted_ns.total_cmp(&b.predicted_ns));
        let best = self
            .ways
            .iter()
            .map(|w| w.measured.value)
            .fold(f64::INFINITY, f64::min);
        chosen.map_or(0.0, |way| way.measured.value / best - 1.0)
    }
}

/// Measures points by one closure.
fn outcomes(
    rig: &mut Rig,
    profile: &Profile,
    points: &mut [Point],
    mut run: impl FnMut(&mut Rig, &mut Point) -> Result<f64>,
) -> Result<Vec<Outcome>> {
    let repeats = if rig.plan.simulated { 1 } else { REPEATS };
    let outcome = |point: &mut Point| {
        let figure = rig.repeat(repeats, |rig| run(rig, point))?;
        Ok(Outcome {
            name: point.name(),
            predicted_ns: point.predicted_ns(profile),
            measured: figure,
        })
    };
    points.iter_mut().map(outcome).collect()
}

/// Repetitions of every point.
const REPEATS: usize = 15;

/// Copies of page-locked memory.
pub(super) fn copies(
    rig: &mut Rig,
    profile: &Profile,
    draw: &mut Draw,
    count: usize,
) -> Result<Vec<Outcome>> {
    let most = 2 * rig.plan.bytes_max();
    let mut buffers = Buffers::new(rig, most)?;
    let mut points: Vec<Point> = (0..count).map(|_| draw.copy(most)).collect();
    outcomes(rig, profile, &mut points, |rig, point| match point {
        Point::Copy {
            direction,
            kind,
            bytes,
        } => {
            let number = KINDS.iter().position(|k| k == kind).unwrap_or(0);
            rig.until_done(|rig| buffers.copy(rig, *direction, number, *bytes))
        }
        _ => Ok(f64::NAN),
    })
}

/// Ordinary memory, by the driver and by threads: points of both, and a choice for each size.
pub(super) fn ordinary(
    rig: &mut Rig,
    profile: &Profile,
    draw: &mut Draw,
    count: usize,
) -> Result<(Vec<Outcome>, Vec<Outcome>, Vec<Choice>)> {
    let most = 2 * rig.plan.bytes_max();
    let words = (most / 8) as usize;
    let mut data = vec![0u64; words];
    fill(&mut data, word_of);
    let mut there = rig.pooled.device::<u64>(words)?;
    let mut engines = Vec::new();
    for way in [Way::Driver, Way::Staged] {
        let mut options = EngineOptions::default();
        (options.way, options.profile) = (Some(way), Some(profile.clone()));
        engines.push(Engine::with_options(&rig.pooled, &rig.device, &options)?);
    }
    struct Turn {
        direction: Direction,
        words: usize,
        way: usize,
        predicted_ns: f64,
    }
    let mut turns = Vec::new();
    for _ in 0..count {
        let (direction, bytes) = (draw.direction(), draw.bytes(512, most));
        turns.extend([0, 1].map(|way| Turn {
            direction,
            words: (bytes / 8) as usize,
            way,
            predicted_ns: f64::NAN,
        }));
    }
    let repeats = if rig.plan.simulated { 1 } else { REPEATS };
    let mut once = |rig: &mut Rig, turn: &mut Turn| {
        let start_ns = rig.now_ns();
        let control = pinfold::transfer::Control::new();
        let (engine, host) = (&engines[turn.way], &mut data[..turn.words]);
        let moved = match turn.direction {
            Direction::ToDevice => engine.upload_part(host, &mut there, 0, &control)?,
            Direction::ToHost => engine.download_part(&there, 0, host, &control)?,
        };
        let ns = (rig.now_ns() - start_ns) as f64;
        turn.predicted_ns = match turn.way {
            0 => moved.reason.driver_ns,
            _ => moved.reason.staged_ns,
        };
        Ok(ns)
    };
    let (mut driver, mut staged, mut choices) = (Vec::new(), Vec::new(), Vec::new());
    for pair in turns.chunks_mut(2) {
        // The two ways of one size take turns.
        let figures = rig.rounds(pair, repeats, &mut once)?;
        let outcome = |at: usize, by: &str| Outcome {
            name: format!(
                "{} {} by {by}",
                Bytes(pair[at].words as u64 * 8),
                way(pair[at].direction)
            ),
            predicted_ns: pair[at].predicted_ns,
            measured: figures[at],
        };
        let ways = vec![outcome(0, "the driver"), outcome(1, "threads")];
        driver.push(ways[0].clone());
        staged.push(ways[1].clone());
        choices.push(Choice { ways });
    }
    Ok((driver, staged, choices))
}

/// Kernels in place and in order.
pub(super) fn in_order(
    rig: &mut Rig,
    profile: &Profile,
    draw: &mut Draw,
    count: usize,
) -> Result<Vec<Outcome>> {
    let most = 2 * rig.plan.in_place_bytes.last().copied().unwrap_or(1 << 20);
    let mut points: Vec<Point> = (0..count).map(|_| draw.in_order(most)).collect();
    outcomes(rig, profile, &mut points, |rig, point| {
        let Point::InOrder { access, bytes } = point else {
            return Ok(f64::NAN);
        };
        let memory = rig.pooled.zero_copy::<u64>((*bytes / 8) as usize)?;
        let mut lent = memory.lend();
        rig.patterns.fill(&rig.stream, &mut lent, SEED)?;
        rig.stream.synchronize()?;
        rig.until_done(|rig| match access {
            Access::Read => Ok(rig
                .patterns
                .check(&rig.stream, &lent, SEED, &mut rig.found)?),
            Access::Write => Ok(rig.patterns.fill(&rig.stream, &mut lent, SEED)?),
        })
    })
}

/// Kernels that read with a stride.
pub(super) fn strided(
    rig: &mut Rig,
    profile: &Profile,
    draw: &mut Draw,
    count: usize,
) -> Result<Vec<Outcome>> {
    let bytes = rig.plan.bytes_max().min(256 << 20);
    let mut memory = rig.pooled.zero_copy::<u64>((bytes / 8) as usize)?;
    fill(&mut memory, word_of);
    let lent = memory.lend();
    let mut points: Vec<Point> = (0..count).map(|_| draw.strided(bytes)).collect();
    outcomes(rig, profile, &mut points, |rig, point| {
        let Point::Strided { stride_bytes, .. } = point else {
            return Ok(f64::NAN);
        };
        rig.until_done(|rig| {
            let found = &mut rig.found;
            Ok((rig.patterns).check_strided(&rig.stream, &lent, *stride_bytes, SEED, found)?)
        })
    })
}

/// Random rows over a few footprints.
pub(super) fn rows(
    rig: &mut Rig,
    profile: &Profile,
    draw: &mut Draw,
    count: usize,
) -> Result<Vec<Outcome>> {
    let footprints = &rig.plan.footprint_bytes;
    let least = footprints.first().copied().unwrap_or(1 << 20) / 2;
    let most = footprints.last().copied().unwrap_or(1 << 20);
    let mut gather = Gather::load(&rig.pooled, &rig.stream)?;
    let mut all = Vec::new();
    let places = FOOTPRINTS.min(count.max(1));
    for place in 0..places {
        let footprint = draw.footprint(least, most);
        let memory = rig.pooled.zero_copy::<u32>((footprint / 4) as usize)?;
        let lent = memory.lend();
        let here = count / places + usize::from(place < count % places);
        let bytes_max = rig.plan.rows_bytes_max;
        let mut points: Vec<Point> = (0..here).map(|_| draw.rows(footprint, bytes_max)).collect();
        all.extend(outcomes(rig, profile, &mut points, |rig, point| {
            let Point::Rows {
                row_bytes, count, ..
            } = point
            else {
                return Ok(f64::NAN);
            };
            let rows = footprint / u64::from(*row_bytes);
            let list = |k: usize| (splitmix64(k as u64) % rows) as usize;
            let mut at = RowsOf::with_list(rig, footprint, *row_bytes, *count as usize, list)?;
            rig.until_done(|rig| at.read(rig, &mut gather, &lent))
        })?);
        drop(lent.wait()?);
        rig.pooled.trim(0)?;
    }
    Ok(all)
}

/// Footprints that rows are spread over: each takes time to make.
const FOOTPRINTS: usize = 6;

/// Data that a kernel reads once: copied first, or read where it lies. The points in place are left
/// to [`in_order`]; those of copies are a family.
pub(super) fn read_once(
    rig: &mut Rig,
    profile: &Profile,
    draw: &mut Draw,
    count: usize,
) -> Result<(Vec<Outcome>, Vec<Choice>)> {
    let most = rig.plan.bytes_max();
    let sizes: Vec<u64> = (0..count).map(|_| draw.bytes(4 << 10, most)).collect();
    let mut points: Vec<Point> = (sizes.into_iter())
        .flat_map(|bytes| {
            let access = Access::Read;
            [
                Point::CopiedThenRead { bytes },
                Point::InOrder { access, bytes },
            ]
        })
        .collect();
    let measured = outcomes(rig, profile, &mut points, |rig, point| {
        let (bytes, copied) = match point {
            Point::CopiedThenRead { bytes } => (*bytes, true),
            Point::InOrder { bytes, .. } => (*bytes, false),
            _ => return Ok(f64::NAN),
        };
        let words = (bytes / 8) as usize;
        let mut there = rig.pooled.device::<u64>(words)?;
        let memory = rig
            .pooled
            .of_kind(MemoryKind::Mapped)
            .zero_copy::<u64>(words)?;
        let mut lent = memory.hand_over();
        rig.patterns.fill(&rig.stream, &mut lent, SEED)?;
        rig.stream.synchronize()?;
        rig.until_done(|rig| {
            let (stream, found) = (&rig.stream, &mut rig.found);
            match copied {
                true => {
                    drop(stream.upload(lent, &mut there)?);
                    Ok(rig.patterns.check(stream, &there, SEED, found)?)
                }
                false => Ok(rig.patterns.check(stream, &lent, SEED, found)?),
            }
        })
    })?;
    let choices = measured.chunks(2).map(|ways| Choice {
        ways: ways.to_vec(),
    });
    let copied = measured.iter().step_by(2).cloned().collect();
    Ok((copied, choices.collect()))
}
