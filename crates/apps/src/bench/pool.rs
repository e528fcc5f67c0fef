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
const THREAD_REPEATS: usize = 7;
/// Holes between given-out pages.
const HOLES: u32 = 65_000;
/// Buffers that are dropped in flight.
const FLIGHTS: u32 = 2_000;

/// Names that ratios are taken of.
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
    if let (Some(one), Some(most)) = (report.value("1 thread"), report.value(&most_threads())) {
        let text = format!("{:.1}×", most / one);
        report
            .findings
            .push(Fact::new(&format!("{} against 1", most_threads()), text));
    }
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

/// Pairs a second of several threads, each by itself, while all of them are at it. Long enough that
/// the system has put the threads on processors of their own.
fn threads(pool: &Pool, report: &mut BenchReport) -> Result<()> {
    let mut rates: Vec<(usize, Vec<f64>)> = thread_counts().map(|n| (n, Vec::new())).collect();
    for _ in 0..THREAD_REPEATS {
        for (count, rates) in &mut rates {
            let spans = side_by_side(pool, *count)?;
            let (from, to) = spans
                .into_iter()
                .reduce(|(from, to), (start, end)| (from.min(start), to.max(end)))
                .unwrap_or_else(|| (Instant::now(), Instant::now()));
            let pairs = f64::from(THREAD_PAIRS) * *count as f64;
            rates.push(pairs / (to - from).as_secs_f64() / 1e6);
        }
    }
    for (count, rates) in rates {
        let name = threads_name(count);
        report
            .rows
            .push(BenchRow::new("pairs a second", name, "M/s", rates, false));
    }
    Ok(())
}

/// Runs pairs on so many threads at once: when each began and ended.
fn side_by_side(pool: &Pool, count: usize) -> Result<Vec<(Instant, Instant)>> {
    let barrier = Barrier::new(count);
    let work = || -> Result<(Instant, Instant)> {
        let warm = pool.take(THREAD_BYTES).map(drop);
        // Also after a failure: the others wait here.
        barrier.wait();
        warm?;
        let start = Instant::now();
        for _ in 0..THREAD_PAIRS {
            drop(black_box(pool.take(black_box(THREAD_BYTES))?));
        }
        Ok((start, Instant::now()))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|t| t.join().ok()).collect()
    })
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

/// Dropping a buffer that the device still uses, and making the next one; neither the copy between
/// nor looking at the clock is counted.
fn in_flight(device: &Device, report: &mut BenchReport) -> Result<()> {
    let options = PoolOptions::default();
    let Some(memory) = Memory::pooled(std::slice::from_ref(device), &options) else {
        return Ok(());
    };
    let stream = device.stream()?;
    let mut target = memory.device::<u8>(4 << 10)?;
    let mut times = Vec::new();
    for round in 0..=REPEATS {
        let start = Instant::now();
        for _ in 0..FLIGHTS {
            black_box(Instant::now());
        }
        let clock_ns = ns_each(start, FLIGHTS);
        let mut spent_ns = 0.0;
        let mut next = Some(memory.upload::<u8>(4 << 10)?);
        for _ in 0..FLIGHTS {
            let Some(buffer) = next.take() else { break };
            let flight = stream.upload(buffer, &mut target)?;
            let start = Instant::now();
            drop(flight);
            next = Some(memory.upload::<u8>(4 << 10)?);
            spent_ns += start.elapsed().as_nanos() as f64;
        }
        stream.synchronize()?;
        // The first round fills the pool.
        if round > 0 {
            times.push(spent_ns / f64::from(FLIGHTS) - clock_ns);
        }
    }
    let name = "dropped in flight + the next made, 4.0 KiB";
    report
        .rows
        .push(BenchRow::new("in flight", name, "ns", times, false));
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
