//! Rows and pieces that lie scattered, copied in one launch from or to mapped host memory: the twin
//! of `gather.cu`.
//!
//! ```text
//! gather_rows(table: u8[table_rows * row_bytes] read at random, table_rows: u64, row_bytes: u64,
//!             INDEX, ORDER, n: u64, to: u8[n * row_bytes] write, FINISH)
//!     to[i] = table[index[i]], or zeros where index[i] is no row of the table
//! scatter_rows(table: u8[table_rows * row_bytes] read-write at random, table_rows: u64,
//!              row_bytes: u64, INDEX, ORDER, n: u64, from: u8[n * row_bytes] read, FINISH)
//!     table[index[i]] = from[i], or nothing where index[i] is no row of the table
//!   both publish the number of elements that were no row, and the first such i, or n
//! copy_pieces(from: u8[] read, to: u8[] write, items: PieceWords[n] read, n: u64)
//!     copies every item                    publishes nothing
//! check_indices(INDEX, n: u64, table_rows: u64, FINISH)
//!     publishes the number of index[i] that are no row, and the first such i, or n
//! check_unique(INDEX, n: u64, table_rows: u64, taken: u32[table_rows / 32, up] read-write, FINISH)
//!     publishes the number of index[i] that are a row which another one has taken already, and
//!     the number of those that are no row; `taken` is 0 before the launch
//! window_count(INDEX, n: u64, WINDOWS, starts: u32[windows] read-write, ticket)
//!     starts[w] = number of i with index[i] in a window before w; `starts` is 0 before the launch
//! window_place(INDEX, n: u64, WINDOWS, starts: u32[windows] read-write, order: u32[n] write)
//!     order = all i of the first window, then all of the second, ...; takes what `window_count`
//!     left in `starts`, and leaves there where each window's part ends
//!
//! INDEX   is index: u32[n] or u64[n] read, number_bytes: u32 (4 or 8)
//! ORDER   is order: u32[n] read: element k handled is order[k]; or the scalar 0u64: element k
//! WINDOWS is table_rows: u64, row_bytes: u64, window_log2: u32, windows: u32
//! FINISH  is partial: u64[2 * blocks] write (f64 in check_unique),
//!            ticket: u32[1] read-write, cell: CellWords[1] read-write, sequence: u64
//! ```
//!
//! The ticket is 0 before the first launch, and the kernels leave it at 0. Nothing needs any
//! alignment.
//!
//! An order that names an element twice or not at all moves that row twice or not at all; what it
//! names beyond n counts as no row, with n for its place. Where two rows are written to one place
//! of the table, a real device leaves a mixture of the two, and a twin the last one.
//!
//! **The order of the elements of one window is not part of the contract.** Here it is the order of
//! the list; on a real device it depends on timing. What is gathered by it does not.

mod pieces;
mod window;

pub use pieces::{ITEM_BYTES, Piece, PieceWords, pieces_shape};
pub use window::{WINDOWS_MAX, Windows};

use crate::reduce::{Finish, Grid, read_prefix, write_prefix};
use bytemuck::Pod;
use pinfold_hal::{ModuleImage, Twin, TwinArg, TwinCall, TwinError};

/// Threads a block.
const THREADS: u32 = 256;

/// Two blocks for each multiprocessor of a large device (132): for looks at lists and for pieces.
const BLOCKS_MAX: u64 = 264;

/// Bytes that the threads of a launch ask for at a time: what a link of 64 GB/s delivers in 4 µs.
/// More are no faster there, and slower in the order of address windows: the grid is then spread
/// over more of the table at one time.
const FRONT_BYTES: u64 = 256 << 10;

/// Loads that a thread has in flight (`UNROLL` in `gather.cu`).
const UNROLL: u64 = 4;

/// Most bytes of one load, a power of two.
const UNIT_BYTES_MAX: u64 = 16;

/// The family's PTX and twins.
pub fn image() -> ModuleImage {
    ModuleImage {
        name: "gather".into(),
        ptx: include_str!("../../../kernels/ptx/gather.ptx").into(),
        twins: vec![
            Twin::new("gather_rows", gather_rows),
            Twin::new("scatter_rows", scatter_rows),
            Twin::new("copy_pieces", pieces::copy_pieces),
            Twin::new("check_indices", check_indices),
            Twin::new("check_unique", check_unique),
            Twin::new("window_count", window::window_count),
            Twin::new("window_place", window::window_place),
        ],
    }
}

/// The launch shape `(blocks, threads)` for moving `n` rows of `row_bytes`: quickest where all rows
/// begin at multiples of the largest power of two, up to 16, that divides `row_bytes`.
pub fn rows_shape(n: u64, row_bytes: u64) -> (u32, u32) {
    let unit_bytes = 1 << row_bytes.trailing_zeros().min(UNIT_BYTES_MAX.ilog2());
    let units = n.saturating_mul(row_bytes / unit_bytes);
    let blocks_max = FRONT_BYTES / (u64::from(THREADS) * UNROLL * unit_bytes);
    let blocks = units.div_ceil(THREADS.into()).clamp(1, blocks_max);
    (blocks as u32, THREADS)
}

/// The launch shape `(blocks, threads)` for a look at a list of `n` row numbers.
pub fn list_shape(n: u64) -> (u32, u32) {
    let blocks = n.div_ceil(u64::from(THREADS)).clamp(1, BLOCKS_MAX);
    (blocks as u32, THREADS)
}

/// Words of 32 bits that have a bit for every row of a table.
pub fn taken_words(table_rows: u64) -> u64 {
    table_rows.div_ceil(32)
}

mod sealed {
    /// Keeps the set of row numbers closed: the kernels know two sizes.
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// What an index list can hold: `u32` or `u64`.
pub trait RowNumber: Pod + Send + Sync + sealed::Sealed {
    /// Its size, as the kernels take it.
    const BYTES: u32;

    /// The row.
    fn row(self) -> u64;
}

impl RowNumber for u32 {
    const BYTES: u32 = 4;

    fn row(self) -> u64 {
        self.into()
    }
}

impl RowNumber for u64 {
    const BYTES: u32 = 8;

    fn row(self) -> u64 {
        self
    }
}

/// The rows that an index list names.
enum IndexList<'a> {
    Narrow(&'a [u32]),
    Wide(&'a [u64]),
}

impl<'a> IndexList<'a> {
    fn new(
        index: &'a TwinArg<'_>,
        number_bytes: &TwinArg<'_>,
        n: &TwinArg<'_>,
    ) -> Result<Self, TwinError> {
        let n = n.scalar::<u64>()?;
        match number_bytes.scalar::<u32>()? {
            u32::BYTES => Ok(IndexList::Narrow(read_prefix("index", index, n)?)),
            u64::BYTES => Ok(IndexList::Wide(read_prefix("index", index, n)?)),
            other => Err(TwinError(format!(
                "row numbers of {other} bytes: 4 or 8 are possible"
            ))),
        }
    }

    fn len(&self) -> usize {
        match self {
            IndexList::Narrow(list) => list.len(),
            IndexList::Wide(list) => list.len(),
        }
    }

    /// The row that an element names, where there is such an element.
    fn row(&self, element: usize) -> Option<u64> {
        match self {
            IndexList::Narrow(list) => list.get(element).copied().map(RowNumber::row),
            IndexList::Wide(list) => list.get(element).copied().map(RowNumber::row),
        }
    }

    fn rows(&self) -> impl Iterator<Item = u64> {
        (0..self.len()).filter_map(|element| self.row(element))
    }
}

/// How many there were, and the place of the first.
struct Found {
    count: u64,
    first: u64,
}

impl Found {
    fn none(n: usize) -> Self {
        Found {
            count: 0,
            first: n as u64,
        }
    }

    fn note(&mut self, place: usize) {
        self.count += 1;
        self.first = self.first.min(place as u64);
    }

    fn publish(&self, finish: Finish<'_, u64>) {
        finish.publish([self.count as f64, self.first as f64]);
    }
}

/// Sizes of a launch that moves rows.
struct RowSizes {
    table_rows: u64,
    row_bytes: usize,
    table_bytes: u64,
    packed_bytes: u64,
}

impl RowSizes {
    fn new(
        table_rows: &TwinArg<'_>,
        row_bytes: &TwinArg<'_>,
        n: &TwinArg<'_>,
    ) -> Result<Self, TwinError> {
        let (table_rows, row_bytes) = (table_rows.scalar::<u64>()?, row_bytes.scalar::<u64>()?);
        let n = n.scalar::<u64>()?;
        let all = (table_rows.checked_mul(row_bytes)).zip(n.checked_mul(row_bytes));
        match (all, usize::try_from(row_bytes)) {
            (Some((table_bytes, packed_bytes)), Ok(row_bytes)) if row_bytes > 0 => Ok(RowSizes {
                table_rows,
                row_bytes,
                table_bytes,
                packed_bytes,
            }),
            _ => Err(TwinError(format!(
                "{table_rows} rows, {n} of them moved, of {row_bytes} bytes: no memory is like that"
            ))),
        }
    }

    /// The bytes of a row, where it is one of the table.
    fn row(&self, row: u64) -> Option<std::ops::Range<usize>> {
        (row < self.table_rows).then(|| {
            let start = row as usize * self.row_bytes;
            start..start + self.row_bytes
        })
    }

    /// Calls `move_row` with the row, if there is one, and the packed place of every element in
    /// order. Returns those that are no row.
    fn walk(
        &self,
        index: &IndexList<'_>,
        order: &TwinArg<'_>,
        mut move_row: impl FnMut(Option<std::ops::Range<usize>>, std::ops::Range<usize>),
    ) -> Result<Found, TwinError> {
        let n = index.len();
        let order = match order {
            TwinArg::Scalar(_) if order.scalar::<u64>()? == 0 => None,
            _ => Some(read_prefix::<u32>("order", order, n as u64)?),
        };
        let mut outside = Found::none(n);
        for k in 0..n {
            let element = order.map_or(k, |order| order[k] as usize);
            let Some(row) = index.row(element) else {
                outside.note(n);
                continue;
            };
            let bytes = self.row(row);
            if bytes.is_none() {
                outside.note(element);
            }
            let start = element * self.row_bytes;
            move_row(bytes, start..start + self.row_bytes);
        }
        Ok(outside)
    }
}

fn gather_rows(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [
        table,
        table_rows,
        row_bytes,
        index,
        number_bytes,
        order,
        n,
        to,
        partial,
        ticket,
        cell,
        sequence,
    ] = call.args::<12>()?;
    let sizes = RowSizes::new(table_rows, row_bytes, n)?;
    let table = read_prefix::<u8>("table", table, sizes.table_bytes)?;
    let to = write_prefix::<u8>("to", to, sizes.packed_bytes)?;
    let index = IndexList::new(index, number_bytes, n)?;
    let finish = Finish::<u64>::new(grid, 2, [partial, ticket, cell, sequence])?;
    let outside = sizes.walk(&index, order, |row, packed| match row {
        Some(row) => to[packed].copy_from_slice(&table[row]),
        None => to[packed].fill(0),
    })?;
    outside.publish(finish);
    Ok(())
}

fn scatter_rows(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [
        table,
        table_rows,
        row_bytes,
        index,
        number_bytes,
        order,
        n,
        from,
        partial,
        ticket,
        cell,
        sequence,
    ] = call.args::<12>()?;
    let sizes = RowSizes::new(table_rows, row_bytes, n)?;
    let table = write_prefix::<u8>("table", table, sizes.table_bytes)?;
    let from = read_prefix::<u8>("from", from, sizes.packed_bytes)?;
    let index = IndexList::new(index, number_bytes, n)?;
    let finish = Finish::<u64>::new(grid, 2, [partial, ticket, cell, sequence])?;
    let outside = sizes.walk(&index, order, |row, packed| {
        if let Some(row) = row {
            table[row].copy_from_slice(&from[packed]);
        }
    })?;
    outside.publish(finish);
    Ok(())
}

fn check_indices(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [
        index,
        number_bytes,
        n,
        table_rows,
        partial,
        ticket,
        cell,
        sequence,
    ] = call.args::<8>()?;
    let index = IndexList::new(index, number_bytes, n)?;
    let table_rows = table_rows.scalar::<u64>()?;
    let finish = Finish::<u64>::new(grid, 2, [partial, ticket, cell, sequence])?;
    let mut outside = Found::none(index.len());
    for (i, _) in index.rows().enumerate().filter(|(_, r)| *r >= table_rows) {
        outside.note(i);
    }
    outside.publish(finish);
    Ok(())
}

fn check_unique(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [
        index,
        number_bytes,
        n,
        table_rows,
        taken,
        partial,
        ticket,
        cell,
        sequence,
    ] = call.args::<9>()?;
    let index = IndexList::new(index, number_bytes, n)?;
    let table_rows = table_rows.scalar::<u64>()?;
    let taken = write_prefix::<u32>("taken", taken, taken_words(table_rows))?;
    let finish = Finish::<u64>::new(grid, 2, [partial, ticket, cell, sequence])?;
    let (mut repeated, mut outside) = (0u64, 0u64);
    for row in index.rows() {
        if row >= table_rows {
            outside += 1;
            continue;
        }
        let (word, bit) = (&mut taken[(row / 32) as usize], 1 << (row % 32));
        repeated += u64::from(*word & bit != 0);
        *word |= bit;
    }
    finish.publish([repeated as f64, outside as f64]);
    Ok(())
}
