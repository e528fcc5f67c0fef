//! The order of an index list by address windows of its table: random rows beyond some hundreds of
//! mebibytes of mapped host memory come several times faster where those of one window are asked
//! for together.

use super::{IndexList, RowNumber};
use crate::reduce::{Grid, write_prefix};
use pinfold_hal::{TwinArg, TwinCall, TwinError};

/// Most windows that a table can be divided into: their counters fit into shared memory.
pub const WINDOWS_MAX: u32 = 4096;

/// Equal parts of a table's addresses, a power of two of bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    table_rows: u64,
    row_bytes: u64,
    log2: u32,
    count: u32,
}

impl Windows {
    /// The windows of a table, of `1 << log2` bytes each, or larger ones where these would be more
    /// than [`WINDOWS_MAX`].
    pub fn new(table_rows: u64, row_bytes: u64, log2: u32) -> Self {
        let last_byte = table_rows.saturating_mul(row_bytes).saturating_sub(1);
        let fewest = u64::BITS - last_byte.leading_zeros();
        let log2 = log2.clamp(fewest.saturating_sub(WINDOWS_MAX.ilog2()), u64::BITS - 1);
        Windows {
            table_rows,
            row_bytes,
            log2,
            count: (last_byte >> log2) as u32 + 1,
        }
    }

    /// Number of rows of the table.
    pub fn table_rows(&self) -> u64 {
        self.table_rows
    }

    /// Size of a row.
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// The size of a window is two to this power, in bytes.
    pub fn log2(&self) -> u32 {
        self.log2
    }

    /// Number of windows, 1 to [`WINDOWS_MAX`].
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The window in which a row begins. What is no row of the table comes last.
    pub fn of(&self, row: u64) -> u32 {
        let last = self.count - 1;
        match (row < self.table_rows).then(|| row.checked_mul(self.row_bytes)) {
            Some(Some(start)) => ((start >> self.log2) as u32).min(last),
            _ => last,
        }
    }

    /// The order of an index list by windows: all elements of the first window, then all of the
    /// second, and so on, each time as they come in the list. `None` for a list of more elements
    /// than an order can number: 2^32 - 1.
    pub fn order<I: RowNumber>(&self, index: &[I]) -> Option<Vec<u32>> {
        u32::try_from(index.len()).ok()?;
        let rows = || index.iter().map(|number| number.row());
        let mut next = vec![0; self.count as usize];
        self.starts(rows(), &mut next);
        let mut order = vec![0; index.len()];
        self.place(rows(), &mut next, &mut order);
        Some(order)
    }

    /// How many of the rows lie in the windows before each.
    fn starts(&self, rows: impl Iterator<Item = u64>, starts: &mut [u32]) {
        for row in rows {
            starts[self.of(row) as usize] += 1;
        }
        let mut before = 0;
        for start in starts {
            let count = *start;
            *start = before;
            before += count;
        }
    }

    /// Puts every element at its window's next place.
    fn place(&self, rows: impl Iterator<Item = u64>, next: &mut [u32], order: &mut [u32]) {
        for (element, row) in (0..).zip(rows) {
            let next = &mut next[self.of(row) as usize];
            order[*next as usize] = element;
            *next += 1;
        }
    }

    fn of_call(args: [&TwinArg<'_>; 4]) -> Result<Self, TwinError> {
        let [table_rows, row_bytes, log2, count] = args;
        let (table_rows, row_bytes) = (table_rows.scalar()?, row_bytes.scalar()?);
        let (log2, count) = (log2.scalar()?, count.scalar()?);
        let windows = Windows::new(table_rows, row_bytes, log2);
        if (windows.log2, windows.count) == (log2, count) {
            return Ok(windows);
        }
        Err(TwinError(format!(
            "{table_rows} rows of {row_bytes} bytes do not lie in {count} windows of 2^{log2} bytes"
        )))
    }
}

fn check_len(index: &IndexList<'_>) -> Result<(), TwinError> {
    match u32::try_from(index.len()) {
        Ok(_) => Ok(()),
        Err(_) => Err(TwinError(
            "an order numbers fewer than 2^32 elements".into(),
        )),
    }
}

pub(super) fn window_count(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    Grid::of(call)?;
    let [
        index,
        number_bytes,
        n,
        table_rows,
        row_bytes,
        log2,
        count,
        starts,
        ticket,
    ] = call.args::<9>()?;
    let index = IndexList::new(index, number_bytes, n)?;
    check_len(&index)?;
    let windows = Windows::of_call([table_rows, row_bytes, log2, count])?;
    let starts = write_prefix::<u32>("starts", starts, windows.count.into())?;
    if write_prefix::<u32>("ticket", ticket, 1)?[0] != 0 || starts.iter().any(|s| *s != 0) {
        return Err(TwinError(
            "set the ticket and `starts` to 0 before the launch".into(),
        ));
    }
    windows.starts(index.rows(), starts);
    Ok(())
}

pub(super) fn window_place(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    Grid::of(call)?;
    let [
        index,
        number_bytes,
        n,
        table_rows,
        row_bytes,
        log2,
        count,
        starts,
        order,
    ] = call.args::<9>()?;
    let index = IndexList::new(index, number_bytes, n)?;
    check_len(&index)?;
    let windows = Windows::of_call([table_rows, row_bytes, log2, count])?;
    let starts = write_prefix::<u32>("starts", starts, windows.count.into())?;
    let order = write_prefix::<u32>("order", order, index.len() as u64)?;
    let mut expected = vec![0; starts.len()];
    windows.starts(index.rows(), &mut expected);
    if *starts != expected {
        return Err(TwinError(
            "`starts` is not what `window_count` leaves for this list".into(),
        ));
    }
    windows.place(index.rows(), starts, order);
    Ok(())
}
