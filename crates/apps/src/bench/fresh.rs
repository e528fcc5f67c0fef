//! Data that is fresh in host memory: written by ordinary stores, which leave it in the core's
//! caches, and by streaming stores, as upload buffers write; then copied to the device, or read by
//! a kernel in place.

use super::table::{Figure, Table, TableRow, TablesReport};
use crate::error::Result;
use crate::progress::Progress;
use crate::report::{DeviceLabel, Fact};
use pinfold::buffer::DeviceRead;
use pinfold::kernels::read::Reader;
use pinfold::{Bytes, Device, DeviceBuffer, ExchangeBuffer, Memory, ScalarCell, Stream};
use pinfold::{UploadBuffer, ZeroCopyBuffer};
use std::time::{Duration, Instant};

const SIZES: [usize; 9] = [
    16 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    16 << 20,
];
const REPEATS: usize = 101;
/// No kernel here takes nearly as long.
const LIMIT: Duration = Duration::from_secs(60);

/// Times of one way: what the host took to write, and what it then took until the kernel had read.
#[derive(Default)]
struct Times {
    write_ns: Vec<f64>,
    read_ns: Vec<f64>,
    both_ns: Vec<f64>,
}

const WAYS: [&str; 4] = [
    "stored, copied",
    "streamed, copied",
    "stored, read in place",
    "streamed, read in place",
];

const TITLES: [&str; 3] = [
    "The host writes page-locked memory",
    "Then the device has read it",
    "Both",
];

struct Bench {
    device: Device,
    memory: Memory,
    stream: Stream,
    reader: Reader,
    cell: ScalarCell,
}

/// The buffers of one size.
struct Buffers {
    data: Vec<f32>,
    there: DeviceBuffer<f32>,
    stored: Option<ExchangeBuffer<f32>>,
    streamed: Option<UploadBuffer<f32>>,
    stored_in_place: Option<ZeroCopyBuffer<f32>>,
    streamed_in_place: Option<UploadBuffer<f32>>,
}

/// Measures fresh data.
///
/// # Errors
/// Where memory cannot be had, or the device fails.
pub fn run(device: &Device, progress: &mut dyn Progress) -> Result<TablesReport> {
    let memory = Memory::new(device);
    let stream = device.stream()?;
    let mut bench = Bench {
        device: device.clone(),
        reader: Reader::load(&memory, &stream)?,
        cell: memory.scalar_cell()?,
        memory,
        stream,
    };
    progress.begin("fresh data", SIZES.len() as u64);
    let mut tables = TITLES.map(|title| Table::new(title, "size", "ns", &WAYS));
    for bytes in SIZES {
        bench.size(bytes, &mut tables)?;
        progress.step();
    }
    progress.end();
    let findings = findings(&tables[2], device.is_simulated());
    Ok(TablesReport {
        bench: "fresh".to_owned(),
        device: DeviceLabel::of(device),
        machine: vec![Fact::new(
            "the host's writes",
            "real time, also where the device is simulated",
        )],
        tables: tables.to_vec(),
        charts: Vec::new(),
        findings,
    })
}

/// From which size on streaming stores pay, writing included.
fn findings(in_all: &Table, simulated: bool) -> Vec<Fact> {
    let word = if simulated { " (simulated)" } else { "" };
    let mut findings = Vec::new();
    for (stored, streamed) in [(0, 1), (2, 3)] {
        let pays = |row: &&TableRow| {
            let ns = |way: usize| row.figures.get(way).copied().flatten().map(|f| f.value);
            ns(streamed).zip(ns(stored)).is_some_and(|(a, b)| a <= b)
        };
        let largest = in_all.rows.iter().rev();
        let from = largest.take_while(pays).last();
        let text = match from {
            Some(row) => format!("from {} on{word}", row.name),
            None => format!("at none of these sizes{word}"),
        };
        let what = format!("{} is faster in all", WAYS[streamed]);
        findings.push(Fact::new(&what, text));
    }
    findings
}

impl Bench {
    fn size(&mut self, bytes: usize, tables: &mut [Table; 3]) -> Result<()> {
        let n = bytes / 4;
        let mut buffers = Buffers {
            data: (0..n).map(|i| (i % 251) as f32).collect(),
            there: self.memory.device(n)?,
            stored: Some(self.memory.exchange(n)?),
            streamed: Some(self.memory.upload(n)?),
            stored_in_place: Some(self.memory.zero_copy(n)?),
            streamed_in_place: Some(self.memory.upload_in_place(n)?),
        };
        let mut times: [Times; WAYS.len()] = Default::default();
        let repeats = if self.device.is_simulated() {
            1
        } else {
            REPEATS
        };
        for round in 0..=repeats {
            for (way, times) in times.iter_mut().enumerate() {
                let (write_ns, read_ns) = self.once(way, &mut buffers)?;
                if round > 0 {
                    times.write_ns.push(write_ns);
                    times.read_ns.push(read_ns);
                    times.both_ns.push(write_ns + read_ns);
                }
            }
        }
        let parts: [fn(&Times) -> &Vec<f64>; 3] = [
            |times| &times.write_ns,
            |times| &times.read_ns,
            |times| &times.both_ns,
        ];
        for (table, part) in tables.iter_mut().zip(parts) {
            let figure = |times: &Times| Some(Figure::of(part(times).clone()));
            table.row(Bytes(bytes as u64), times.iter().map(figure).collect());
        }
        Ok(())
    }

    /// Writes, and has the device read: nanoseconds of both.
    fn once(&mut self, way: usize, buffers: &mut Buffers) -> Result<(f64, f64)> {
        let Buffers { data, there, .. } = buffers;
        let mut clock = Clock {
            begin: Instant::now(),
            write_ns: 0.0,
            start_ns: 0,
        };
        match way {
            0 => {
                if let Some(mut buffer) = buffers.stored.take() {
                    buffer.as_mut_slice().copy_from_slice(data);
                    clock.written(&self.device);
                    let flight = self.stream.upload(buffer, there)?;
                    self.read(&*there)?;
                    buffers.stored = Some(flight.wait()?);
                }
            }
            1 => {
                if let Some(mut buffer) = buffers.streamed.take() {
                    buffer.write(0, data)?;
                    clock.written(&self.device);
                    let flight = self.stream.upload(buffer, there)?;
                    self.read(&*there)?;
                    buffers.streamed = Some(flight.wait()?);
                }
            }
            2 => {
                if let Some(mut buffer) = buffers.stored_in_place.take() {
                    buffer.as_mut_slice().copy_from_slice(data);
                    clock.written(&self.device);
                    let lent = buffer.lend();
                    self.read(&lent)?;
                    buffers.stored_in_place = Some(lent.wait()?);
                }
            }
            _ => {
                if let Some(mut buffer) = buffers.streamed_in_place.take() {
                    buffer.write(0, data)?;
                    clock.written(&self.device);
                    let lent = buffer.lend();
                    self.read(&lent)?;
                    buffers.streamed_in_place = Some(lent.wait()?);
                }
            }
        }
        let read_ns = (self.device.now_ns() - clock.start_ns) as f64;
        Ok((clock.write_ns, read_ns))
    }

    /// Has a kernel read all of it, and waits until the host knows.
    fn read(&mut self, memory: &impl DeviceRead<Item = f32>) -> Result<()> {
        let read = (self.reader).run(&self.stream, memory, &mut self.cell)?;
        self.cell.wait(read, LIMIT)?;
        Ok(())
    }
}

/// What the host took, on its own clock, and when the device's part began, on the device's.
struct Clock {
    begin: Instant,
    write_ns: f64,
    start_ns: u64,
}

impl Clock {
    fn written(&mut self, device: &Device) {
        self.write_ns = self.begin.elapsed().as_nanos() as f64;
        self.start_ns = device.now_ns();
    }
}
