//! Ordinary memory to the device and back: the driver's own copy, the engine, and page-locked
//! memory as the ceiling, in turn; and how the engine's threads and slots tell.

use super::table::{Figure, Table, TablesReport};
use crate::error::{JobError, Result};
use crate::progress::Progress;
use crate::report::Fact;
use pinfold::transfer::{Engine, EngineOptions, Way};
use pinfold::{Bytes, Device, DeviceBuffer, DownloadBuffer, Memory, UploadBuffer};

/// Sizes that all ways are compared at; those for which the machine has no room are left out.
const SIZES: [usize; 6] = [64 << 10, 256 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30];
/// A simulated device is a few times slower than a real one, in real time.
const SIMULATED_BYTES_MAX: usize = 64 << 20;
/// Threads and slots are told apart at this size.
const SCALE_BYTES: usize = 512 << 20;
/// From this size on, an engine's first transfer is told apart.
const FIRST_BYTES: usize = 256 << 20;
const FIRST_REPEATS: usize = 3;
const THREADS: [u32; 5] = [1, 2, 4, 8, 12];
const SLOTS: [(u64, u32); 5] = [
    (512 << 10, 4),
    (1 << 20, 3),
    (2 << 20, 2),
    (2 << 20, 3),
    (4 << 20, 3),
];

/// What is compared at one size.
struct Ways {
    device: Device,
    memory: Memory,
    engine: Engine,
    driver: Engine,
    stream: pinfold::Stream,
}

/// Buffers of one size.
struct Buffers {
    ordinary: Vec<u8>,
    back: [Vec<u8>; 2],
    there: DeviceBuffer<u8>,
    locked: Option<UploadBuffer<u8>>,
    locked_back: Option<DownloadBuffer<u8>>,
}

/// Measures the engine.
///
/// # Errors
/// Where memory cannot be had, the device fails, or wrong bytes arrive.
pub fn run(device: &Device, progress: &mut dyn Progress) -> Result<TablesReport> {
    let mut report = TablesReport::new("stage", device);
    let memory = Memory::new(device);
    let mut by_driver = EngineOptions::default();
    by_driver.way = Some(Way::Driver);
    let ways = Ways {
        engine: Engine::new(&memory, device)?,
        driver: Engine::with_options(&memory, device, &by_driver)?,
        stream: device.stream()?,
        device: device.clone(),
        memory,
    };
    let room = pinfold_machine::Machine::read().pin_headroom().bytes as usize / 8;
    let largest = match device.is_simulated() {
        true => SIMULATED_BYTES_MAX.min(room),
        false => room,
    };
    let sizes: Vec<usize> = SIZES.into_iter().filter(|n| *n <= largest).collect();
    progress.begin("staging", sizes.len() as u64 + 2);
    let mut tables = TITLES.map(|title| Table::new(title, "size", "GB/s", &WAYS));
    tables[0].columns.push(FIRST.to_owned());
    for bytes in sizes {
        ways.compare(bytes, &mut tables, &mut report)?;
        progress.step();
    }
    report.tables.extend(tables);
    let scale = SCALE_BYTES.min(largest);
    let threads = THREADS.map(|n| {
        let name = if n == 1 {
            "1 thread".to_owned()
        } else {
            format!("{n} threads")
        };
        (name, Some(n), 2 << 20, 3)
    });
    report
        .tables
        .push(scaling(&ways, scale, "threads", threads)?);
    progress.step();
    let slots = SLOTS.map(|(bytes, slots)| {
        let name = format!("{slots} slots of {}", Bytes(bytes));
        (name, None, bytes, slots)
    });
    report.tables.push(scaling(&ways, scale, "slots", slots)?);
    progress.step();
    progress.end();
    let threads = ways.engine.threads();
    report.findings.push(Fact::new("engine's threads", threads));
    Ok(report)
}

/// The ways, in each direction.
const WAYS: [&str; 3] = ["driver", "engine", "page-locked"];
const TITLES: [&str; 2] = [
    "Ordinary memory to the device",
    "The device to ordinary memory",
];
/// A column more, to the device.
const FIRST: &str = "engine's first";

impl Ways {
    fn compare(
        &self,
        bytes: usize,
        tables: &mut [Table; 2],
        report: &mut TablesReport,
    ) -> Result<()> {
        let mut buffers = self.buffers(bytes)?;
        let repeats = match (self.device.is_simulated(), bytes) {
            (true, _) => 1,
            (_, ..=0x10_0000) => 61,
            (_, ..=0x100_0000) => 31,
            _ => 7,
        };
        let mut rates: [Vec<f64>; 2 * WAYS.len()] = Default::default();
        let first = match bytes >= FIRST_BYTES {
            true => Some(self.first(&buffers.ordinary, &mut buffers.there)?),
            false => None,
        };
        for round in 0..=repeats {
            for (way, rates) in rates.iter_mut().enumerate() {
                let start_ns = self.device.now_ns();
                self.once(way, &mut buffers)?;
                let ns = (self.device.now_ns() - start_ns) as f64;
                if round > 0 {
                    rates.push(bytes as f64 / ns);
                }
            }
        }
        self.check(&buffers)?;
        let size = Bytes(bytes as u64).to_string();
        let figures: Vec<_> = rates.into_iter().map(|r| Some(Figure::of(r))).collect();
        let (up, down) = figures.split_at(WAYS.len());
        tables[0].row(&size, up.iter().copied().chain([first]).collect());
        tables[1].row(&size, down.to_vec());
        for (table, what) in tables
            .iter()
            .zip(["engine against driver", "and to the host"])
        {
            report.ratio(&format!("{what}, {size}"), table, &size, WAYS[1], WAYS[0]);
        }
        Ok(())
    }

    /// The first transfer of an engine that has neither threads nor slots yet.
    fn first(&self, from: &[u8], there: &mut DeviceBuffer<u8>) -> Result<Figure> {
        let mut rates = Vec::new();
        for _ in 0..FIRST_REPEATS {
            let memory = Memory::new(&self.device);
            let start_ns = self.device.now_ns();
            Engine::new(&memory, &self.device)?.upload(from, there)?;
            rates.push(from.len() as f64 / (self.device.now_ns() - start_ns) as f64);
        }
        Ok(Figure::of(rates))
    }

    fn buffers(&self, bytes: usize) -> Result<Buffers> {
        let ordinary = numbers(bytes);
        let mut locked = self.memory.upload(bytes)?;
        locked.write(0, &ordinary)?;
        Ok(Buffers {
            there: self.memory.device(bytes)?,
            back: [vec![0; bytes], vec![0; bytes]],
            locked: Some(locked),
            locked_back: Some(self.memory.download(bytes)?),
            ordinary,
        })
    }

    /// One transfer, waited for.
    fn once(&self, way: usize, buffers: &mut Buffers) -> Result<()> {
        let there = &mut buffers.there;
        let up = |buffer: &mut Option<UploadBuffer<u8>>, there: &mut _| -> Result<()> {
            if let Some(from) = buffer.take() {
                *buffer = Some(self.stream.upload(from, there)?.wait()?);
            }
            Ok(())
        };
        let down = |buffer: &mut Option<DownloadBuffer<u8>>, there: &_| -> Result<()> {
            if let Some(to) = buffer.take() {
                *buffer = Some(self.stream.download(there, to)?.wait()?);
            }
            Ok(())
        };
        match way {
            0 => Ok(self.driver.upload(&buffers.ordinary, there).map(drop)?),
            1 => Ok(self.engine.upload(&buffers.ordinary, there).map(drop)?),
            2 => up(&mut buffers.locked, there),
            3 => Ok(self
                .driver
                .download(there, &mut buffers.back[0])
                .map(drop)?),
            4 => Ok(self
                .engine
                .download(there, &mut buffers.back[1])
                .map(drop)?),
            _ => down(&mut buffers.locked_back, there),
        }
    }

    /// What came back by every way is what was sent.
    fn check(&self, buffers: &Buffers) -> Result<()> {
        let sent = &buffers.ordinary;
        let locked = buffers.locked_back.as_ref();
        let all_right =
            buffers.back.iter().all(|b| b == sent) && locked.is_some_and(|b| **b == **sent);
        match all_right {
            true => Ok(()),
            false => Err(wrong()),
        }
    }
}

fn wrong() -> JobError {
    JobError::WrongResult {
        strategy: "bench stage".to_owned(),
        error: f64::INFINITY,
        allowed: 0.0,
    }
}

/// Engines of different shapes, in turn.
fn scaling<const N: usize>(
    ways: &Ways,
    bytes: usize,
    group: &str,
    shapes: [(String, Option<u32>, u64, u32); N],
) -> Result<Table> {
    let mut data = numbers(bytes);
    let mut there = ways.memory.device(bytes)?;
    let mut engines = Vec::new();
    for (name, threads, slot_bytes, slots) in shapes {
        let mut options = EngineOptions::default();
        (options.threads, options.slot_bytes, options.slots) = (threads, slot_bytes, slots);
        let engine = Engine::with_options(&ways.memory, &ways.device, &options)?;
        engines.push((name, engine, [Vec::new(), Vec::new()]));
    }
    let repeats = if ways.device.is_simulated() { 1 } else { 5 };
    for round in 0..=repeats {
        for (_, engine, rates) in &mut engines {
            let start_ns = ways.device.now_ns();
            engine.upload(&data, &mut there)?;
            let middle_ns = ways.device.now_ns();
            engine.download(&there, &mut data)?;
            let end_ns = ways.device.now_ns();
            if round > 0 {
                rates[0].push(bytes as f64 / (middle_ns - start_ns) as f64);
                rates[1].push(bytes as f64 / (end_ns - middle_ns) as f64);
            }
        }
    }
    if data != numbers(bytes) {
        return Err(wrong());
    }
    let title = format!("The engine by {group}, {} at a time", Bytes(bytes as u64));
    let columns = ["to the device", "to the host"];
    let mut table = Table::new(&title, group, "GB/s", &columns);
    for (name, _, rates) in engines {
        table.row(name, rates.map(|r| Some(Figure::of(r))).to_vec());
    }
    Ok(table)
}

/// Bytes in which a chunk in the wrong place shows.
fn numbers(bytes: usize) -> Vec<u8> {
    (0..bytes as u64)
        .map(|i| (i ^ i >> 8 ^ i >> 17 ^ i >> 25) as u8)
        .collect()
}
