//! What a warm pool costs: taking and giving back, on one thread and on many, with work in flight,
//! and with holes. The pool's own cost is real on a simulated device too.

use super::{BenchReport, BenchRow, from_the_driver};
use crate::error::Result;
use crate::progress::Progress;
use crate::report::Fact;
use pinfold::pool::{Pool, PoolOptions};
use pinfold::{Bytes, Device, Memory};
use pinfold_pool::{PAGE_BYTES, Pages};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

/// Sizes of a warm pair.
const SIZES: [u64; 6] = [64, 4 << 10, 64 << 10, 1 << 20, 2 << 20, 64 << 20];
/// Pairs between two looks at the clock.
const PAIRS: u32 = 20_000;
/// Measurements, of which the median is taken.
const REPEATS: usize = 31;
/// Size for threads.
const THREAD_BYTES: u64 = 4 << 10;
/// Pairs of a thread.
const THREAD_PAIRS: u32 = 4_000_000;
/// Steps of a thread's own work, which take about as long.
const THREAD_STEPS: u32 = 6_000_000;
const THREAD_REPEATS: usize = 7;
/// Holes between given-out pages.
const HOLES: u32 = 65_000;
/// Buffers that are dropped in flight, one behind the other.
const FLIGHTS: u32 = 256;

/// Names that ratios are taken of.
const OWN_WORK: &str = "work of its own, ";
const DROPPED_IN_FLIGHT: &str = "dropped in flight + the next made, 4.0 KiB";
const DROPPED: &str = "dropped + the next made, 4.0 KiB";
const PAIR: &str = "take + give back, 4.0 KiB";
const DRIVER: &str = "driver's allocate + free, 4.0 KiB";
const EMPTY: &str = "pages, no holes";
const FULL_OF_HOLES: &str = "pages, 65000 holes";

/// Measures a pool on the device.
///
/// # Errors
/// Where memory cannot be had, or the device fails.
pub fn run(device: &Device, progress: &mut dyn Progress) -> Result<BenchReport> {
    let mut report = BenchReport::new("pool", device);
    let options = PoolOptions::default();
    let Some(pool) = Pool::new(std::slice::from_ref(device), &options) else {
        return Ok(report);
    };
    progress.begin("pool", 6);
    pool.reserve(128 << 20)?;
    pairs(&pool, device, &mut report)?;
    progress.step();
    typed(device, &mut report)?;
    progress.step();
    threads(&pool, &mut report)?;
    progress.step();
    across(&pool, &mut report)?;
    progress.step();
    in_flight(device, &mut report)?;
    progress.step();
    holes(&mut report);
    progress.step();
    progress.end();
    report.ratio("a pair against the driver's", DRIVER, PAIR);
    report.ratio("pages with 65000 holes against none", FULL_OF_HOLES, EMPTY);
    let most = most_threads();
    report.ratio(&format!("{most} against 1"), &most, &threads_name(1));
    let own = [&most, &threads_name(1)].map(|name| format!("{OWN_WORK}{name}"));
    let what = format!("{most} against 1, each with work of its own");
    report.ratio(&what, &own[0], &own[1]);
    Ok(report)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn thread_counts() -> impl Iterator<Item = usize> {
    [1, 2, 4, 8]
        .into_iter()
        .filter(|n| *n <= processors().max(2))
}

fn threads_name(count: usize) -> String {
    format!("{count} thread{}", if count == 1 { "" } else { "s" })
}

fn most_threads() -> String {
    threads_name(thread_counts().last().unwrap_or(1))
}

fn ns_each(start: Instant, count: u32) -> f64 {
    start.elapsed().as_nanos() as f64 / f64::from(count)
}

/// Warm pairs by size, in turn with the driver's own.
fn pairs(pool: &Pool, device: &Device, report: &mut BenchReport) -> Result<()> {
    let plain = from_the_driver(device);
    let mut times = vec![Vec::new(); SIZES.len()];
    let mut drivers = Vec::new();
    for _ in 0..REPEATS {
        for (bytes, times) in SIZES.into_iter().zip(&mut times) {
            drop(pool.take(bytes)?);
            let start = Instant::now();
            for _ in 0..PAIRS {
                drop(black_box(pool.take(black_box(bytes))?));
            }
            times.push(ns_each(start, PAIRS));
        }
        let start = device.now_ns();
        drop(plain.exchange::<u8>(4 << 10)?);
        drivers.push((device.now_ns() - start) as f64);
    }
    for (bytes, times) in SIZES.into_iter().zip(times) {
        let name = format!("take + give back, {}", Bytes(bytes));
        report
            .rows
            .push(BenchRow::new("warm", name, "ns", times, false));
    }
    let simulated = device.is_simulated();
    report
        .rows
        .push(BenchRow::new("warm", DRIVER, "ns", drivers, simulated));
    Ok(())
}

/// The same by way of typed buffers, with their reasons and their order of uses.
fn typed(device: &Device, report: &mut BenchReport) -> Result<()> {
    const TYPED_PAIRS: u32 = 2_000;
    let options = PoolOptions::default();
    let Some(memory) = Memory::pooled(std::slice::from_ref(device), &options) else {
        return Ok(());
    };
    drop(memory.upload::<u8>(4 << 10)?);
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let start = Instant::now();
        for _ in 0..TYPED_PAIRS {
            drop(black_box(memory.upload::<u8>(4 << 10)?));
        }
        times.push(ns_each(start, TYPED_PAIRS));
    }
    let name = "typed buffer made + dropped, 4.0 KiB";
    report
        .rows
        .push(BenchRow::new("warm", name, "ns", times, false));
    Ok(())
}

/// Pairs a second of several threads, each by itself, while all of them are at it. In turn with
/// work that has nothing to do with memory managers: how well threads run side by side on this
/// machine at all, whose processors may be halves of one core.
fn threads(pool: &Pool, report: &mut BenchReport) -> Result<()> {
    let pair = || {
        let block = pool.take(black_box(THREAD_BYTES))?;
        drop(black_box(block));
        Ok(())
    };
    let mut rates: Vec<(usize, [Vec<f64>; 2])> =
        thread_counts().map(|n| (n, Default::default())).collect();
    for _ in 0..THREAD_REPEATS {
        for (count, [pairs, own]) in &mut rates {
            pairs.push(side_by_side(*count, THREAD_PAIRS, &pair)?);
            own.push(side_by_side(*count, THREAD_STEPS, &work_of_its_own())?);
        }
    }
    for (count, [pairs, own]) in rates {
        let name = threads_name(count);
        let control = format!("{OWN_WORK}{name}");
        for (group, name, rates) in [("pairs a second", name, pairs), ("control", control, own)] {
            report
                .rows
                .push(BenchRow::new(group, name, "M/s", rates, false));
        }
    }
    Ok(())
}

/// Some arithmetic in registers and one store to the thread's own stack.
fn work_of_its_own() -> impl Fn() -> Result<()> + Sync {
    || {
        let mut x = black_box(0x9E37_79B9_u64);
        for _ in 0..4 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        black_box(x);
        Ok(())
    }
}

/// Does something so many times on each of several threads at once: millions a second in all. Long
/// enough that the system has put the threads on processors of their own.
fn side_by_side(count: usize, times: u32, work: &(impl Fn() -> Result<()> + Sync)) -> Result<f64> {
    let barrier = Barrier::new(count);
    let each = || -> Result<(Instant, Instant)> {
        let warm = work();
        // Also after a failure: the others wait here.
        barrier.wait();
        warm?;
        let start = Instant::now();
        (0..times).try_for_each(|_| work())?;
        Ok((start, Instant::now()))
    };
    let spans: Result<Vec<_>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(each)).collect();
        threads.into_iter().filter_map(|t| t.join().ok()).collect()
    });
    let span = (spans?.into_iter()).reduce(|(a, b), (start, end)| (a.min(start), b.max(end)));
    let seconds = span.map_or(f64::INFINITY, |(start, end)| (end - start).as_secs_f64());
    Ok(f64::from(times) * count as f64 / seconds / 1e6)
}

/// Blocks that one thread takes and another one gives back.
fn across(pool: &Pool, report: &mut BenchReport) -> Result<()> {
    const BATCH: usize = 256;
    const BATCHES: u32 = 400;
    let mut times = Vec::new();
    for _ in 0..THREAD_REPEATS {
        let start = Instant::now();
        let outcome: Result<()> = std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel::<Vec<_>>(4);
            scope.spawn(move || receiver.into_iter().for_each(drop));
            for _ in 0..BATCHES {
                let batch: Result<Vec<_>, _> = (0..BATCH).map(|_| pool.take(4 << 10)).collect();
                // The other end only goes away with a panic, which the scope tells of.
                let _ = sender.send(batch?);
            }
            Ok(())
        });
        outcome?;
        times.push(ns_each(start, BATCHES * BATCH as u32));
    }
    let name = "taken here, given back elsewhere, in batches";
    report
        .rows
        .push(BenchRow::new("warm", name, "ns", times, false));
    Ok(())
}

/// Dropping buffers that the device still uses, and making as many anew; neither the copies between
/// nor looking at the clock is counted. In turn the same with buffers that no device uses.
fn in_flight(device: &Device, report: &mut BenchReport) -> Result<()> {
    let options = PoolOptions::default();
    let Some(memory) = Memory::pooled(std::slice::from_ref(device), &options) else {
        return Ok(());
    };
    let stream = device.stream()?;
    let mut target = memory.device::<u8>(4 << 10)?;
    let (mut pending, mut idle) = (Vec::new(), Vec::new());
    let make = || memory.upload::<u8>(4 << 10);
    for round in 0..=REPEATS {
        let mut buffers: Vec<_> = (0..FLIGHTS).map(|_| make()).collect::<Result<_, _>>()?;
        let mut again = Vec::with_capacity(FLIGHTS as usize);
        let start = Instant::now();
        for buffer in buffers.drain(..) {
            drop(black_box(buffer));
            again.push(make()?);
        }
        let idle_ns = ns_each(start, FLIGHTS);
        let mut flights = Vec::with_capacity(FLIGHTS as usize);
        for buffer in again.drain(..) {
            flights.push(stream.upload(buffer, &mut target)?);
        }
        let start = Instant::now();
        for flight in flights.drain(..) {
            drop(black_box(flight));
            again.push(make()?);
        }
        let pending_ns = ns_each(start, FLIGHTS);
        stream.synchronize()?;
        // The first round fills the pool.
        if round > 0 {
            idle.push(idle_ns);
            pending.push(pending_ns);
        }
    }
    for (name, times) in [(DROPPED_IN_FLIGHT, pending), (DROPPED, idle)] {
        report
            .rows
            .push(BenchRow::new("in flight", name, "ns", times, false));
    }
    let values = [DROPPED_IN_FLIGHT, DROPPED].map(|name| report.value(name).unwrap_or(0.0));
    let text = format!("{:.0} ns", values[0] - values[1]);
    report
        .findings
        .push(Fact::new("what being in flight adds", text));
    Ok(())
}

/// Taking and giving back pages: numbers only, so that holes cost no memory.
fn holes(report: &mut BenchReport) {
    let mut pages = [Pages::default(), Pages::default()];
    for pages in &mut pages {
        pages.add_segment(1 << 40, 4 * HOLES);
    }
    let [_, full] = &mut pages;
    let taken: Vec<_> = (0..2 * HOLES).filter_map(|_| full.take(1)).collect();
    for addr in taken.iter().step_by(2) {
        // They were given out in the line above.
        let _ = full.give_back(*addr);
    }
    let holes = full.holes();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..REPEATS {
        for (pages, times) in pages.iter_mut().zip(&mut times) {
            let start = Instant::now();
            for n in 0..PAIRS {
                let taken = pages.take(black_box(256 + n % 64));
                let _ = taken.map(|addr| pages.give_back(addr));
            }
            times.push(ns_each(start, PAIRS));
        }
    }
    let [empty, full] = times;
    for (name, times) in [(EMPTY, empty), (FULL_OF_HOLES, full)] {
        report
            .rows
            .push(BenchRow::new("holes", name, "ns", times, false));
    }
    let bytes = Bytes(u64::from(HOLES) * PAGE_BYTES);
    let text = format!("{holes} of one page, {bytes} in all");
    report.findings.push(Fact::new("holes", text));
}
