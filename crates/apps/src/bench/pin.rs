//! What fresh page-locked memory costs: pinfold's way against the driver's, cold, in turn; and
//! whether copies from it are as fast.

use super::{BenchReport, BenchRow, from_the_driver};
use crate::error::{JobError, Result};
use crate::progress::Progress;
use crate::report::Fact;
use pinfold::pool::{Pool, PoolOptions};
use pinfold::{Bytes, Device, Memory};
use std::time::Instant;

/// Sizes; those for which the machine has no room are left out.
const SIZES: [u64; 5] = [4 << 20, 64 << 20, 256 << 20, 1 << 30, 8 << 30];
/// Room that is left over.
const SPARE_PART: u64 = 4;

/// Measures fresh page-locked memory.
///
/// # Errors
/// Where memory cannot be had, or the device fails.
pub fn run(device: &Device, progress: &mut dyn Progress) -> Result<BenchReport> {
    let mut report = BenchReport::new("pin", device);
    let headroom = pinfold_machine::Machine::read().pin_headroom();
    let room = headroom.bytes / SPARE_PART * (SPARE_PART - 1);
    let sizes: Vec<u64> = SIZES.into_iter().filter(|bytes| *bytes <= room).collect();
    if sizes.is_empty() {
        return Err(JobError::TooLarge {
            what: "a few mebibytes of page-locked memory".to_owned(),
            need_bytes: SIZES[0],
            left_bytes: headroom.bytes,
            limited_by: headroom.reason,
        });
    }
    progress.begin("pinning", sizes.len() as u64 + 1);
    for bytes in sizes {
        compare(device, bytes, &mut report)?;
        progress.step();
    }
    copies(device, room, &mut report)?;
    progress.step();
    progress.end();
    Ok(report)
}

/// Seconds of something on a clock that counts both what the host did and, on a simulated device,
/// what the driver would have done.
fn timed<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let (start_ns, start) = (device.now_ns(), Instant::now());
    let value = work()?;
    let wall = start.elapsed().as_secs_f64();
    let virtual_seconds = match device.is_simulated() {
        true => (device.now_ns() - start_ns) as f64 * 1e-9,
        false => 0.0,
    };
    Ok((wall + virtual_seconds, value))
}

fn compare(device: &Device, bytes: u64, report: &mut BenchReport) -> Result<()> {
    let repeats = if bytes >= 1 << 30 { 5 } else { 11 };
    let plain = from_the_driver(device);
    let (mut ours, mut drivers) = (Vec::new(), Vec::new());
    let gib = bytes as f64 / (1u64 << 30) as f64;
    for _ in 0..repeats {
        let options = PoolOptions::default();
        let Some(pool) = Pool::new(std::slice::from_ref(device), &options) else {
            break;
        };
        let (seconds, ()) = timed(device, || Ok(pool.reserve(bytes)?))?;
        ours.push(gib / seconds);
        pool.trim(0);
        let (seconds, buffer) = timed(device, || Ok(plain.exchange::<u8>(bytes as usize)?))?;
        drivers.push(gib / seconds);
        drop(buffer);
    }
    let simulated = device.is_simulated();
    let names = [
        format!("pool, {}", Bytes(bytes)),
        format!("driver's allocation, {}", Bytes(bytes)),
    ];
    for (name, rates) in names.iter().zip([ours, drivers]) {
        let row = BenchRow::new("cold", name, "GiB/s", rates, simulated);
        report.rows.push(row);
    }
    let what = format!("{} against the driver's allocation", Bytes(bytes));
    report.ratio(&what, &names[0], &names[1]);
    Ok(())
}

/// Copies of a block that lies across many registrations, against one of the driver's.
fn copies(device: &Device, room: u64, report: &mut BenchReport) -> Result<()> {
    let bytes = (512 << 20).min(room / 4) as usize;
    let options = PoolOptions::default();
    let Some(pooled) = Memory::pooled(std::slice::from_ref(device), &options) else {
        return Ok(());
    };
    let plain = from_the_driver(device);
    let stream = device.stream()?;
    let mut there = plain.device::<u8>(bytes)?;
    let mut slots = [
        (Some(pooled.upload::<u8>(bytes)?), Vec::new()),
        (Some(plain.upload::<u8>(bytes)?), Vec::new()),
    ];
    for round in 0..=7 {
        for (slot, rates) in &mut slots {
            let Some(buffer) = slot.take() else { continue };
            let start_ns = device.now_ns();
            let buffer = stream.upload(buffer, &mut there)?.wait()?;
            let ns = (device.now_ns() - start_ns) as f64;
            *slot = Some(buffer);
            if round > 0 {
                rates.push(bytes as f64 / ns);
            }
        }
    }
    let names = ["from the pool", "from the driver's allocation"];
    let simulated = device.is_simulated();
    for (name, (_, rates)) in names.iter().zip(slots) {
        let row = BenchRow::new("upload", *name, "GB/s", rates, simulated);
        report.rows.push(row);
    }
    let text = format!("{} at a time", Bytes(bytes as u64));
    report.findings.push(Fact::new("uploads", text));
    Ok(())
}
