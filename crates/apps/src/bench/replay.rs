//! A recorded trace of allocation, replayed in order: over the pool, and over the driver's own
//! allocation, in turn.

use super::{BenchReport, BenchRow};
use crate::error::{JobError, Result};
use crate::progress::Progress;
use crate::report::Fact;
use pinfold::track::{TraceEvent, read_trace};
use pinfold::{Bytes, Device, Memory, MemoryKind};
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

/// How often the whole trace is replayed over the pool.
const REPEATS: usize = 3;
/// Events that are replayed over the driver, which takes half a millisecond for each.
const DRIVER_EVENTS_MAX: usize = 2000;

/// A block of the trace while it is live; it is only dropped.
type Held = Box<dyn std::any::Any>;

/// Replays a trace.
///
/// # Errors
/// A file that is no trace, and what memory and device say.
pub fn run(device: &Device, path: &Path, progress: &mut dyn Progress) -> Result<BenchReport> {
    let mut report = BenchReport::new("replay", device);
    let events = read_trace(path)?;
    if events.is_empty() {
        return Err(JobError::Empty {
            what: format!("the trace {}", path.display()),
        });
    }
    progress.begin("replaying", REPEATS as u64 + 1);
    let (mut takes, mut gives) = (Vec::new(), Vec::new());
    let mut peak_bytes = 0;
    for _ in 0..REPEATS {
        let memory = Memory::new(device);
        let times = replay(&memory, &events)?;
        takes.push(times.take_ns);
        gives.push(times.give_ns);
        let pools = memory.pool_stats();
        let pinned = |pools: [pinfold::pool::PoolStats; 2]| {
            pools.iter().map(|pool| pool.pinned_bytes_peak).sum()
        };
        peak_bytes = pools.map_or(0, pinned);
        progress.step();
    }
    let few = &events[..events.len().min(DRIVER_EVENTS_MAX)];
    let (mut driver_takes, mut driver_gives) = (Vec::new(), Vec::new());
    if let Some(memory) = Memory::unpooled(std::slice::from_ref(device)) {
        let times = replay(&memory, few)?;
        driver_takes.push(times.take_ns);
        driver_gives.push(times.give_ns);
    }
    progress.step();
    progress.end();
    let simulated = device.is_simulated();
    let rows = [
        ("take, pool", takes),
        ("take, driver", driver_takes),
        ("give, pool", gives),
        ("give, driver", driver_gives),
    ];
    for (name, times) in rows {
        let row = BenchRow::new("replay, mean", name, "ns", times, simulated);
        report.rows.push(row);
    }
    report.ratio("a take, driver against pool", "take, driver", "take, pool");
    let requested = requested_peak_bytes(&events);
    for (name, value) in [
        ("events", events.len().to_string()),
        ("asked for at most", Bytes(requested).to_string()),
        ("page-locked at most", Bytes(peak_bytes).to_string()),
    ] {
        report.findings.push(Fact::new(name, value));
    }
    Ok(report)
}

/// Nanoseconds of an event of each kind, on average: the host's own, and on a simulated device also
/// what the driver would have taken.
struct Times {
    take_ns: f64,
    give_ns: f64,
}

fn replay(memory: &Memory, events: &[TraceEvent]) -> Result<Times> {
    let device = &memory.devices()[0];
    let virtual_ns = || match device.is_simulated() {
        true => device.now_ns(),
        false => 0,
    };
    let mut live: HashMap<u64, Held> = HashMap::new();
    let (mut take_ns, mut give_ns, mut takes, mut gives) = (0.0, 0.0, 0u32, 0u32);
    for event in events {
        match event {
            TraceEvent::Take {
                block, bytes, kind, ..
            } => {
                let (begin_ns, begin) = (virtual_ns(), Instant::now());
                let held = take(memory, *kind, *bytes)?;
                take_ns += begin.elapsed().as_nanos() as f64;
                take_ns += (virtual_ns() - begin_ns) as f64;
                takes += 1;
                live.insert(*block, held);
            }
            TraceEvent::Give { block, .. } => {
                let held = live.remove(block);
                let (begin_ns, begin) = (virtual_ns(), Instant::now());
                drop(held);
                give_ns += begin.elapsed().as_nanos() as f64;
                give_ns += (virtual_ns() - begin_ns) as f64;
                gives += 1;
            }
        }
    }
    Ok(Times {
        take_ns: take_ns / f64::from(takes.max(1)),
        give_ns: give_ns / f64::from(gives.max(1)),
    })
}

/// A block of the kind. Memory that the program had registered itself is page-locked memory here.
fn take(memory: &Memory, kind: MemoryKind, bytes: u64) -> Result<Held> {
    let n = usize::try_from(bytes).unwrap_or(usize::MAX);
    let of_kind = memory.of_kind(kind);
    Ok(match kind {
        MemoryKind::Device => Box::new(memory.device::<u8>(n)?),
        MemoryKind::WriteCombined => Box::new(of_kind.upload::<u8>(n)?),
        MemoryKind::MappedWriteCombined => Box::new(of_kind.upload_in_place::<u8>(n)?),
        MemoryKind::Mapped => Box::new(of_kind.zero_copy::<u8>(n)?),
        MemoryKind::Registered => Box::new(memory.exchange::<u8>(n)?),
        _ => Box::new(of_kind.exchange::<u8>(n)?),
    })
}

/// The most that the trace asks for at once, of memory that pools serve.
fn requested_peak_bytes(events: &[TraceEvent]) -> u64 {
    let (mut now, mut peak) = (0, 0);
    let mut live = HashMap::new();
    for event in events {
        match event {
            TraceEvent::Take {
                block, bytes, kind, ..
            } if !matches!(kind, MemoryKind::Device | MemoryKind::Pageable) => {
                live.insert(*block, *bytes);
                now += bytes;
                peak = now.max(peak);
            }
            TraceEvent::Take { .. } => {}
            TraceEvent::Give { block, .. } => now -= live.remove(block).unwrap_or(0),
        }
    }
    peak
}
