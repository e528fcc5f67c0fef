//! Random rows of host memory, by the size of a row and by what they are spread over: read as they
//! come, read and written in the order of address windows, and written as they come.

use super::super::shuffle::Shuffle;
use super::super::table::Figure;
use super::rig::{LIMIT, Rig, check, fill};
use crate::error::Result;
use crate::progress::Progress;
use pinfold::kernels::gather::{Gather, Order, Rows, RowsMut};
use pinfold::kernels::splitmix64;
use pinfold::{DeviceBuffer, InFlight, ZeroCopyBuffer};

/// Sizes of a row.
pub(super) const ROW_BYTES: [u32; 6] = [4, 32, 64, 128, 256, 1024];
/// Address windows of 64 MiB.
const WINDOW_LOG2: u32 = 26;
/// Rows that are looked at to see whether the right ones came.
const SAMPLE: u64 = 1000;

/// Random rows of one size over one footprint, in nanoseconds with launch and wait.
pub(super) struct RowsAt {
    pub(super) footprint_bytes: u64,
    pub(super) row_bytes: u32,
    pub(super) count: u64,
    pub(super) read_ns: Figure,
    pub(super) read_by_windows_ns: Figure,
    pub(super) written_ns: Figure,
    pub(super) written_by_windows_ns: Figure,
}

/// All that random rows tell.
pub(super) struct Measured {
    pub(super) rows: Vec<RowsAt>,
    /// Rows of one sector in device memory: bytes, and their nanoseconds.
    pub(super) device_random: (u64, Figure),
}

/// Measures random rows.
pub(super) fn measure(rig: &mut Rig, progress: &mut dyn Progress) -> Result<Measured> {
    let footprints = rig.plan.footprint_bytes.clone();
    progress.begin("random rows", footprints.len() as u64 + 1);
    let mut gather = Gather::load(&rig.pooled, &rig.stream)?;
    let mut rows = Vec::new();
    for footprint_bytes in footprints {
        let mut table = rig
            .pooled
            .zero_copy::<u32>((footprint_bytes / 4) as usize)?;
        fill(&mut table, word_of);
        let mut lent = table.lend();
        for row_bytes in ROW_BYTES {
            let at = RowsOf::new(rig, footprint_bytes, row_bytes)?;
            rows.push(at.measure(rig, &mut gather, &mut lent)?);
        }
        drop(lent.wait()?);
        rig.pooled.trim(0)?;
        progress.step();
    }
    let device_random = device_random(rig, &mut gather)?;
    progress.step();
    progress.end();
    Ok(Measured {
        rows,
        device_random,
    })
}

fn word_of(i: u64) -> u32 {
    splitmix64(i) as u32
}

/// A list of rows, each at most once, as writing needs it, and where they go.
pub(in crate::bench) struct RowsOf {
    footprint_bytes: u64,
    row_bytes: u32,
    count: usize,
    index: DeviceBuffer<u32>,
    order: DeviceBuffer<u32>,
    to: DeviceBuffer<u32>,
}

impl RowsOf {
    fn new(rig: &mut Rig, footprint_bytes: u64, row_bytes: u32) -> Result<Self> {
        let table_rows = (footprint_bytes / u64::from(row_bytes)) as usize;
        let most = rig.plan.rows_bytes_max / u64::from(row_bytes);
        let count = (rig.plan.rows_max.min(most) as usize).min(table_rows);
        let shuffle = Shuffle::new(table_rows);
        Self::with_list(rig, footprint_bytes, row_bytes, count, |k| shuffle.at(k))
    }

    /// Any list.
    pub(in crate::bench) fn with_list(
        rig: &mut Rig,
        footprint_bytes: u64,
        row_bytes: u32,
        count: usize,
        row: impl Fn(usize) -> usize,
    ) -> Result<Self> {
        let mut numbers = rig.pooled.upload::<u32>(count)?;
        numbers.write_each(|k| row(k) as u32);
        let mut index = rig.pooled.device::<u32>(count)?;
        drop(rig.stream.upload(numbers, &mut index)?.wait()?);
        Ok(RowsOf {
            footprint_bytes,
            row_bytes,
            count,
            index,
            order: rig.pooled.device(count)?,
            to: rig.pooled.device(count * (row_bytes / 4) as usize)?,
        })
    }

    fn words(&self) -> usize {
        (self.row_bytes / 4) as usize
    }

    /// Enqueues reading the rows as they come.
    pub(in crate::bench) fn read(
        &mut self,
        rig: &mut Rig,
        gather: &mut Gather,
        table: &InFlight<ZeroCopyBuffer<u32>>,
    ) -> Result<()> {
        let rows = Rows::new(table, self.words())?;
        let (stream, found) = (&rig.stream, &mut rig.found);
        Ok(gather.rows(stream, &rows, &self.index, &mut self.to, found)?)
    }

    fn read_by_windows(
        &mut self,
        rig: &mut Rig,
        gather: &mut Gather,
        table: &InFlight<ZeroCopyBuffer<u32>>,
    ) -> Result<()> {
        let rows = Rows::new(table, self.words())?;
        let (stream, found) = (&rig.stream, &mut rig.found);
        gather.order_by_window(
            stream,
            rows.windows(WINDOW_LOG2),
            &self.index,
            &mut self.order,
        )?;
        let (index, order) = (
            &self.index,
            Order::new(&self.order, rows.windows(WINDOW_LOG2)),
        );
        Ok(gather.rows_ordered(stream, &rows, index, &order, &mut self.to, found)?)
    }

    fn write(
        &mut self,
        rig: &mut Rig,
        gather: &mut Gather,
        table: &mut InFlight<ZeroCopyBuffer<u32>>,
        by_windows: bool,
    ) -> Result<()> {
        let (words, stream, found) = (self.words(), &rig.stream, &mut rig.found);
        let windows = Rows::new(&*table, words)?.windows(WINDOW_LOG2);
        let rows = RowsMut::new(table, words)?;
        let (to, index) = (&self.to, &self.index);
        if !by_windows {
            return Ok(gather.scatter(stream, to, index, rows, found)?);
        }
        gather.order_by_window(stream, windows, index, &mut self.order)?;
        let order = Order::new(&self.order, windows);
        Ok(gather.scatter_ordered(stream, to, index, &order, rows, found)?)
    }

    fn measure(
        mut self,
        rig: &mut Rig,
        gather: &mut Gather,
        table: &mut InFlight<ZeroCopyBuffer<u32>>,
    ) -> Result<RowsAt> {
        let bytes = self.count as u64 * u64::from(self.row_bytes);
        let figures = rig.rounds(&mut [0, 1, 2, 3], rig.plan.repeats(bytes), |rig, way| {
            rig.until_done(|rig| match way {
                0 => self.read(rig, gather, table),
                1 => self.read_by_windows(rig, gather, table),
                way => self.write(rig, gather, table, *way == 3),
            })
        })?;
        self.read(rig, gather, table)?;
        self.check(rig)?;
        let [read, read_by_windows, written, written_by_windows] =
            [0, 1, 2, 3].map(|way: usize| figures[way]);
        Ok(RowsAt {
            footprint_bytes: self.footprint_bytes,
            row_bytes: self.row_bytes,
            count: self.count as u64,
            read_ns: read,
            read_by_windows_ns: read_by_windows,
            written_ns: written,
            written_by_windows_ns: written_by_windows,
        })
    }

    /// Whether the rows that came are those of the list, which after all that was written back to
    /// them they can only be where every way was right.
    fn check(&self, rig: &mut Rig) -> Result<()> {
        let (words, table_rows) = (
            self.words(),
            (self.footprint_bytes / u64::from(self.row_bytes)) as usize,
        );
        let back = rig.pooled.download::<u32>(self.to.len())?;
        let back = rig.stream.download(&self.to, back)?.wait()?;
        let mut sample = (0..SAMPLE).map(|s| (splitmix64(s) % back.len() as u64) as usize);
        let shuffle = Shuffle::new(table_rows);
        check(sample.all(|i| {
            let place = shuffle.at(i / words) * words + i % words;
            back[i] == word_of(place as u64)
        }))
    }
}

/// Rows of one sector in device memory: a table of which the level-2 cache holds little.
fn device_random(rig: &mut Rig, gather: &mut Gather) -> Result<(u64, Figure)> {
    let most = if rig.plan.simulated {
        rig.plan.bytes_max()
    } else {
        1 << 30
    };
    let footprint_bytes = most.min(rig.device.info().memory_bytes / 8);
    let table_rows = (footprint_bytes / 32) as usize;
    let mut table = rig.pooled.device::<u32>(table_rows * 8)?;
    rig.stream.fill(&mut table, 0)?;
    let count = (rig.plan.rows_max as usize).min(table_rows);
    let shuffle = Shuffle::new(table_rows);
    let list = |k| shuffle.at(k);
    let mut at = RowsOf::with_list(rig, table_rows as u64 * 32, 32, count, list)?;
    let bytes = count as u64 * 32;
    let figure = rig.repeat(rig.plan.repeats(bytes), |rig| {
        rig.until_done(|rig| {
            let rows = Rows::new(&table, 8)?;
            let found = &mut rig.found;
            Ok(gather.rows(&rig.stream, &rows, &at.index, &mut at.to, found)?)
        })
    })?;
    let rows = Rows::new(&table, 8)?;
    let found = gather.rows(&rig.stream, &rows, &at.index, &mut at.to, &mut rig.cell)?;
    check(rig.cell.wait(found, LIMIT)?[0] == 0.0)?;
    Ok((bytes, figure))
}
