//! Rows of a table in ordinary memory: the engine's threads collect them into page-locked slots, or
//! put back what came in them.

use super::Engine;
use super::control::Control;
use super::job::Job;
use super::staged::Place;
use crate::buffer::DeviceBuffer;
use crate::element::Element;
use crate::error::{Error, Result};
use parking_lot::Mutex;
use pinfold_kernels::gather::RowNumber;

/// Parts that a table is locked in while rows are put back: many more than threads.
const PARTS: usize = 1024;

impl Engine {
    /// Copies rows of a table to the device: `to[i] = table[index[i]]`, each row of `row_len`
    /// elements. The table stays as it is: ordinary memory, of which only these rows are read.
    /// `control` watches it and may stop it.
    ///
    /// For a table that is page-locked and mapped, [`RowCarrier`](super::RowCarrier) has the device
    /// fetch the rows by itself.
    ///
    /// ```
    /// use pinfold::{DeviceChoice, Memory, transfer::{Control, Engine}};
    ///
    /// # fn main() -> Result<(), pinfold::Error> {
    /// let device = "sim".parse::<DeviceChoice>()?.open()?.device;
    /// let memory = Memory::new(&device);
    /// let engine = Engine::new(&memory, &device)?;
    /// let table: Vec<f32> = (0..1000 * 32).map(|i| (i / 32) as f32).collect();
    /// let mut rows = memory.device(2 * 32)?;
    /// engine.upload_rows(&table, 32, &[7u32, 900], &mut rows, &Control::new())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] for rows of no elements, a table that is not whole rows, and a buffer
    /// without room for exactly these rows; [`Error::NoSuchRow`]; else as
    /// [`upload_part`](Self::upload_part).
    pub fn upload_rows<T: Element, I: RowNumber>(
        &self,
        table: &[T],
        row_len: usize,
        index: &[I],
        to: &mut DeviceBuffer<T>,
        control: &Control,
    ) -> Result<()> {
        let rows = Rows::new(table.len(), row_len, index, to.len())?;
        let place = Place::new::<T>(to.block(), self.device(), 0)?;
        let table: &[u8] = bytemuck::cast_slice(table);
        let job = self.rows_job::<T>(to.len(), control);
        self.inner.lanes.upload(&job, &place, &|at, slot| {
            let mut rest = slot;
            for piece in rows.pieces::<T>(at, rest.len()) {
                let piece = piece?;
                let (here, behind) = rest.split_at_mut(piece.len);
                here.copy_from_slice(&table[piece.start..piece.start + piece.len]);
                rest = behind;
            }
            Ok(())
        })
    }

    /// Puts rows from the device back into a table in ordinary memory: `table[index[i]] =
    /// from[i]`. Where the list names a row twice, it becomes one of the two, or a mixture of both.
    ///
    /// # Errors
    /// As [`upload_rows`](Self::upload_rows). After an error, the rows in the list are not
    /// specified.
    pub fn download_rows<T: Element, I: RowNumber>(
        &self,
        from: &DeviceBuffer<T>,
        row_len: usize,
        index: &[I],
        table: &mut [T],
        control: &Control,
    ) -> Result<()> {
        let rows = Rows::new(table.len(), row_len, index, from.len())?;
        let place = Place::new::<T>(from.block(), self.device(), 0)?;
        let part_rows = rows.table_rows.div_ceil(PARTS).max(1);
        let row_bytes = std::mem::size_of::<T>() * row_len;
        let table: &mut [u8] = bytemuck::cast_slice_mut(table);
        let part_bytes = part_rows * row_bytes;
        let parts: Vec<Mutex<&mut [u8]>> = table.chunks_mut(part_bytes).map(Mutex::new).collect();
        let job = self.rows_job::<T>(from.len(), control);
        self.inner.lanes.download(&job, &place, &|at, slot| {
            let mut rest = slot;
            for piece in rows.pieces::<T>(at, rest.len()) {
                let piece = piece?;
                let (here, behind) = rest.split_at(piece.len);
                // A part is whole rows, and a piece lies in one row.
                let start = piece.start % part_bytes;
                let mut part = parts[piece.start / part_bytes].lock();
                part[start..start + piece.len].copy_from_slice(here);
                rest = behind;
            }
            Ok(())
        })
    }

    fn rows_job<T: Element>(&self, elements: usize, control: &Control) -> Job {
        let bytes = (elements * std::mem::size_of::<T>()) as u64;
        let slot_bytes = self.inner.lanes.slot_bytes();
        let (_, chunk_bytes) = self.inner.chooser.staged(bytes, slot_bytes);
        Job::new(bytes, chunk_bytes, control)
    }
}

/// Rows of a table by number.
struct Rows<'a, I> {
    row_len: usize,
    table_rows: usize,
    index: &'a [I],
}

/// Bytes of the table that lie in one row.
struct Piece {
    start: usize,
    len: usize,
}

impl<'a, I: RowNumber> Rows<'a, I> {
    fn new(table: usize, row_len: usize, index: &'a [I], there: usize) -> Result<Self> {
        let whole = |what, got: usize| {
            let want = got.checked_next_multiple_of(row_len).unwrap_or(row_len);
            crate::error::same_length(what, got, want)
        };
        if row_len == 0 {
            let (got, want) = (0, 1);
            let what = "elements of a row";
            return Err(Error::Length { what, got, want });
        }
        whole("table of whole rows", table)?;
        let wanted = index.len().saturating_mul(row_len);
        crate::error::same_length("rows on the device", there, wanted)?;
        Ok(Rows {
            row_len,
            table_rows: table / row_len,
            index,
        })
    }

    /// The bytes of the table that belong to so many bytes of the rows from an offset on, one row
    /// after the other.
    fn pieces<T: Element>(
        &self,
        at: u64,
        bytes: usize,
    ) -> impl Iterator<Item = Result<Piece>> + use<'_, 'a, I, T> {
        let row_bytes = self.row_len * std::mem::size_of::<T>();
        let (mut at, end) = (at as usize, at as usize + bytes);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (place, skip) = (at / row_bytes, at % row_bytes);
            let len = (row_bytes - skip).min(end - at);
            at += len;
            Some(self.row(place).map(|row| Piece {
                start: row * row_bytes + skip,
                len,
            }))
        })
    }

    fn row(&self, place: usize) -> Result<usize> {
        let row = self.index[place].row();
        let found = usize::try_from(row).ok().filter(|r| *r < self.table_rows);
        found.ok_or(Error::NoSuchRow {
            at: place,
            row,
            rows: self.table_rows,
        })
    }
}
