//! Scattered blocks and random rows of host memory: kernels that fetch them in place, with the list
//! as it comes and in the order of address windows, against a loop of copies.

use super::machine::rig::fill;
use super::shuffle::Shuffle;
use super::table::{Figure, Table, TablesReport};
use crate::error::{JobError, Result};
use crate::progress::Progress;
use pinfold::buffer::HandOver;
use pinfold::kernels::gather::{Gather, Order, Piece, PieceList, Rows, RowsMut};
use pinfold::kernels::splitmix64;
use pinfold::transfer::{Control, Engine};
use pinfold::{Bytes, Device, Memory, ScalarCell, Stream};
use std::time::Duration;

/// Blocks of a scattered copy, and their sizes.
const BLOCKS: usize = 4096;
const BLOCK_BYTES: [usize; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];
/// Rows, by size, and the footprints that they lie in.
const ROW_BYTES: [usize; 4] = [32, 128, 256, 1024];
const FOOTPRINTS: [usize; 4] = [256 << 20, 1 << 30, 4 << 30, 8 << 30];
/// Rows that are fetched, at most this many bytes of them.
const ROWS_MAX: usize = 4 << 20;
const FETCHED_BYTES_MAX: usize = 512 << 20;
/// Tables up to this size are there in ordinary memory too.
const ORDINARY_BYTES_MAX: usize = 1 << 30;
/// Address windows of 64 MiB.
const WINDOW_LOG2: u32 = 26;
/// A simulated device holds all of it in ordinary memory.
const SIMULATED_BYTES_MAX: usize = 256 << 20;
/// Nothing here takes nearly as long.
const LIMIT: Duration = Duration::from_secs(60);

struct Bench<'r> {
    memory: Memory,
    stream: Stream,
    gather: Gather,
    cell: ScalarCell,
    repeats: usize,
    engine: Engine,
    report: &'r mut TablesReport,
    blocks: Table,
    rows: Table,
}

const BLOCK_WAYS: [&str; 3] = ["a loop of copies", "one launch", "back in one launch"];
const ROW_WAYS: [&str; 4] = [
    "as they come",
    "by windows",
    "back by windows",
    "ordinary memory",
];

/// Measures scattered blocks and rows.
///
/// # Errors
/// Where memory cannot be had, the device fails, or wrong bytes arrive.
pub fn run(device: &Device, progress: &mut dyn Progress) -> Result<TablesReport> {
    let mut report = TablesReport::new("gather", device);
    let memory = Memory::new(device);
    let stream = device.stream()?;
    let room = pinfold_machine::Machine::read().pin_headroom().bytes as usize / 2;
    let largest = match device.is_simulated() {
        true => SIMULATED_BYTES_MAX.min(room),
        false => room,
    };
    let footprints = FOOTPRINTS.into_iter().filter(|bytes| *bytes <= largest);
    let footprints: Vec<usize> = footprints.collect();
    progress.begin("gathering", (BLOCK_BYTES.len() + footprints.len()) as u64);
    let mut bench = Bench {
        gather: Gather::load(&memory, &stream)?,
        cell: memory.scalar_cell()?,
        engine: Engine::new(&memory, device)?,
        memory,
        stream,
        repeats: if device.is_simulated() { 1 } else { 7 },
        report: &mut report,
        blocks: Table::new("4096 blocks of mapped memory", "size", "GB/s", &BLOCK_WAYS),
        rows: Table::new(
            "Random rows of a table in host memory",
            "rows",
            "GB/s",
            &ROW_WAYS,
        ),
    };
    for bytes in BLOCK_BYTES {
        bench.blocks(bytes)?;
        progress.step();
    }
    for bytes in footprints {
        bench.rows(bytes)?;
        progress.step();
    }
    progress.end();
    let tables = [bench.blocks, bench.rows];
    report.tables.extend(tables);
    Ok(report)
}

impl Bench<'_> {
    fn now_ns(&self) -> u64 {
        self.stream.device().now_ns()
    }

    /// Blocks that lie apart in host memory, to one place on the device and back again.
    fn blocks(&mut self, bytes: usize) -> Result<()> {
        const GAP: usize = 3;
        let (total, spread) = (BLOCKS * bytes, GAP * BLOCKS * bytes);
        let mut source = self.memory.upload_in_place::<u8>(spread)?;
        source.write_each(|i| (i ^ i >> 9 ^ i >> 18) as u8);
        let mut source = Some(source);
        let mut back = Some(self.memory.zero_copy::<u8>(spread)?);
        let mut there = self.memory.device::<u8>(total)?;
        // Shuffled, so that no two neighbours are copied one behind the other.
        let place = |k: usize| GAP * bytes * ((k * 2909) % BLOCKS);
        let piece = |from: usize, to: usize| Piece {
            from: from as u64,
            to: to as u64,
            bytes: bytes as u64,
        };
        let up: Vec<_> = (0..BLOCKS).map(|k| piece(place(k), k * bytes)).collect();
        let down: Vec<_> = (0..BLOCKS).map(|k| piece(k * bytes, place(k))).collect();
        let up = PieceList::new(&self.memory, &up)?;
        let down = PieceList::new(&self.memory, &down)?;
        let mut rates: [Vec<f64>; 3] = Default::default();
        for round in 0..=self.repeats {
            let mut ns = [0; 3];
            if let Some(lent) = source.take() {
                let mut lent = lent.hand_over();
                let start = self.now_ns();
                for k in 0..BLOCKS {
                    let block = place(k)..place(k) + bytes;
                    lent = (self.stream).upload_part(lent, block, &mut there, k * bytes)?;
                }
                self.stream.synchronize()?;
                ns[0] = self.now_ns() - start;
                self.stream.fill(&mut there, 0)?;
                self.stream.synchronize()?;
                let start = self.now_ns();
                self.gather.pieces(&self.stream, &up, &lent, &mut there)?;
                self.stream.synchronize()?;
                ns[1] = self.now_ns() - start;
                source = Some(lent.wait()?);
            }
            if let Some(to) = back.take() {
                let mut lent = to.lend();
                let start = self.now_ns();
                self.gather.pieces(&self.stream, &down, &there, &mut lent)?;
                self.stream.synchronize()?;
                ns[2] = self.now_ns() - start;
                back = Some(lent.wait()?);
            }
            if round > 0 {
                for (rates, ns) in rates.iter_mut().zip(ns) {
                    rates.push(total as f64 / ns as f64);
                }
            }
        }
        let is_right = |back: &[u8]| {
            let mut blocks = (0..BLOCKS).flat_map(|k| place(k)..place(k) + bytes);
            blocks.all(|i| back[i] == (i ^ i >> 9 ^ i >> 18) as u8)
        };
        check(back.as_deref().is_some_and(is_right))?;
        let size = Bytes(bytes as u64).to_string();
        let figures = rates.map(|rates| Some(Figure::of(rates)));
        self.blocks.row(&size, figures.to_vec());
        let what = format!("4096 blocks of {size}, one launch against the loop");
        let (over, under) = (BLOCK_WAYS[1], BLOCK_WAYS[0]);
        (self.report).ratio(&what, &self.blocks, &size, over, under);
        Ok(())
    }

    /// Random rows of a table in host memory, as they come and by windows; and back.
    fn rows(&mut self, footprint: usize) -> Result<()> {
        let mut table = self.memory.zero_copy::<u32>(footprint / 4)?;
        fill(&mut table, word_of);
        let mut table = Some(table);
        let mut ordinary = Vec::new();
        if footprint <= ORDINARY_BYTES_MAX {
            ordinary.resize(footprint / 4, 0);
            fill(&mut ordinary, word_of);
        }
        for row_bytes in ROW_BYTES {
            if let Some(lent) = table.take() {
                table = Some(self.rows_of(lent, &mut ordinary, footprint, row_bytes)?);
            }
        }
        Ok(())
    }

    fn rows_of(
        &mut self,
        table: pinfold::ZeroCopyBuffer<u32>,
        ordinary: &mut [u32],
        footprint: usize,
        row_bytes: usize,
    ) -> Result<pinfold::ZeroCopyBuffer<u32>> {
        let (words, table_rows) = (row_bytes / 4, footprint / row_bytes);
        let n = ROWS_MAX.min(FETCHED_BYTES_MAX / row_bytes).min(table_rows);
        // Each row at most once, as a scatter needs it.
        let shuffle = Shuffle::new(table_rows);
        let row = |k: usize| shuffle.at(k);
        let mut numbers = self.memory.upload::<u32>(n)?;
        numbers.write_each(|k| row(k) as u32);
        let mut index = self.memory.device::<u32>(n)?;
        drop(self.stream.upload(numbers, &mut index)?);
        let mut order = self.memory.device::<u32>(n)?;
        let mut to = self.memory.device::<u32>(n * words)?;
        let mut lent = table.lend();
        let numbers: Vec<u32> = (0..n).map(|k| row(k) as u32).collect();
        let mut rates: [Vec<f64>; ROW_WAYS.len()] = Default::default();
        for round in 0..=self.repeats {
            let (stream, gather) = (&self.stream, &mut self.gather);
            stream.synchronize()?;
            let mut times = [stream.device().now_ns(); 5];
            let rows = Rows::new(&lent, words)?;
            let windows = rows.windows(WINDOW_LOG2);
            let found = gather.rows(stream, &rows, &index, &mut to, &mut self.cell)?;
            let bad = self.cell.wait(found, LIMIT)?[0];
            stream.synchronize()?;
            times[1] = stream.device().now_ns();
            gather.order_by_window(stream, windows, &index, &mut order)?;
            let cell = &mut self.cell;
            let by_windows = Order::new(&order, windows);
            let found = gather.rows_ordered(stream, &rows, &index, &by_windows, &mut to, cell)?;
            let bad = bad + self.cell.wait(found, LIMIT)?[0];
            stream.synchronize()?;
            times[2] = stream.device().now_ns();
            let rows = RowsMut::new(&mut lent, words)?;
            gather.order_by_window(stream, windows, &index, &mut order)?;
            let cell = &mut self.cell;
            let by_windows = Order::new(&order, windows);
            let found = gather.scatter_ordered(stream, &to, &index, &by_windows, rows, cell)?;
            let bad = bad + self.cell.wait(found, LIMIT)?[0];
            stream.synchronize()?;
            times[3] = stream.device().now_ns();
            check(bad == 0.0)?;
            if !ordinary.is_empty() {
                let control = Control::new();
                (self.engine).upload_rows(ordinary, words, &numbers, &mut to, &control)?;
                times[4] = stream.device().now_ns();
            }
            if round > 0 {
                for (rates, t) in rates.iter_mut().zip(times.windows(2)) {
                    let ns = t[1].saturating_sub(t[0]);
                    if ns > 0 {
                        rates.push((n * row_bytes) as f64 / ns as f64);
                    }
                }
            }
        }
        let back = self.memory.download::<u32>(n * words)?;
        let back = self.stream.download(&to, back)?.wait()?;
        // A sample tells: every row is as likely to be wrong.
        let mut sample = (0..1000u64).map(|s| (splitmix64(s) % (n * words) as u64) as usize);
        check(sample.all(|i| back[i] == word_of((row(i / words) * words + i % words) as u64)))?;
        let size = format!("{row_bytes} B over {}", Bytes(footprint as u64));
        let figures = rates.map(|rates| (!rates.is_empty()).then(|| Figure::of(rates)));
        self.rows.row(&size, figures.to_vec());
        let what = format!("rows of {size}, by windows against as they come");
        let (over, under) = (ROW_WAYS[1], ROW_WAYS[0]);
        (self.report).ratio(&what, &self.rows, &size, over, under);
        Ok(lent.wait()?)
    }
}

fn word_of(i: u64) -> u32 {
    (i as u32).wrapping_mul(0x85EB_CA6B) ^ (i >> 15) as u32
}

/// # Errors
/// Where what arrived is not what was sent.
fn check(is_right: bool) -> Result<()> {
    match is_right {
        true => Ok(()),
        false => Err(JobError::WrongResult {
            strategy: "bench gather".to_owned(),
            error: f64::INFINITY,
            allowed: 0.0,
        }),
    }
}
