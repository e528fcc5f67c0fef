//! Memory as a table of rows of one size.

use super::{Windows, refused};
use crate::buffer::{DeviceRead, DeviceWrite};
use crate::error::{Error, Result};
use pinfold_hal::Pattern;

/// Number and size of a table's rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) rows: u64,
    pub(super) row_bytes: u32,
    row_elements: usize,
}

impl Sizes {
    fn of<D: DeviceRead>(table: &D, row_elements: usize) -> Result<Self> {
        let held = table.elements();
        let row_bytes = row_elements.checked_mul(size_of::<D::Item>());
        let row_bytes = row_bytes.and_then(|bytes| u32::try_from(bytes).ok());
        match row_bytes.filter(|bytes| *bytes > 0) {
            Some(row_bytes) if held.is_multiple_of(row_elements) => Ok(Sizes {
                rows: (held / row_elements) as u64,
                row_bytes,
                row_elements,
            }),
            Some(_) => refused(format!(
                "a table of {held} elements has no whole number of rows of {row_elements}; give a \
                 slice of it that has"
            )),
            None => refused(format!(
                "rows of {row_elements} elements of {} bytes; rows have 1 byte to 4 GiB",
                size_of::<D::Item>()
            )),
        }
    }

    /// Checks the memory that `n` rows lie in one behind the other.
    pub(super) fn check_packed(&self, what: &'static str, packed: usize, n: usize) -> Result<()> {
        match n.checked_mul(self.row_elements) {
            Some(want) if want == packed => Ok(()),
            want => Err(Error::Length {
                what,
                got: packed,
                want: want.unwrap_or(usize::MAX),
            }),
        }
    }

    /// A walk over `n` rows of a table, in an order where there is one.
    pub(super) fn walk<O>(&self, n: usize, order: Option<&Order<'_, O>>) -> Pattern {
        match order {
            Some(order) => Pattern::Windowed {
                row_bytes: self.row_bytes,
                count: n as u64,
                window_bytes: 1 << order.windows.log2(),
            },
            None => self.at_random(n),
        }
    }

    /// A walk over `n` rows without order.
    pub(super) fn at_random(&self, n: usize) -> Pattern {
        Pattern::Random {
            row_bytes: self.row_bytes,
            count: n as u64,
        }
    }
}

/// The order of an index list: a list that names every element once.
#[derive(Debug)]
pub struct Order<'a, O> {
    pub(super) list: &'a O,
    windows: Windows,
}

impl<'a, O: DeviceRead<Item = u32>> Order<'a, O> {
    /// An order by these windows; by others it is as right, and slower.
    pub fn new(list: &'a O, windows: Windows) -> Self {
        Order { list, windows }
    }
}

/// Memory that is read as a table of rows, one behind the other.
#[derive(Debug)]
pub struct Rows<'a, D> {
    pub(super) memory: &'a D,
    pub(super) sizes: Sizes,
}

impl<'a, D: DeviceRead> Rows<'a, D> {
    /// All of `memory` as rows of `row_elements` elements.
    ///
    /// # Errors
    /// [`Error::Launch`] where that is no whole number of rows, and for rows of no bytes or of more
    /// than `u32::MAX`.
    pub fn new(memory: &'a D, row_elements: usize) -> Result<Self> {
        let sizes = Sizes::of(memory, row_elements)?;
        Ok(Rows { memory, sizes })
    }

    /// Number of rows.
    pub fn count(&self) -> u64 {
        self.sizes.rows
    }

    /// The table's windows of `1 << log2` bytes, or larger ones where these would be too many; the
    /// first begins with the table.
    pub fn windows(&self, log2: u32) -> Windows {
        Windows::new(self.sizes.rows, self.sizes.row_bytes.into(), log2)
    }
}

/// Memory that is written as a table of rows, one behind the other.
#[derive(Debug)]
pub struct RowsMut<'a, W> {
    pub(super) memory: &'a mut W,
    pub(super) sizes: Sizes,
}

impl<'a, W: DeviceWrite> RowsMut<'a, W> {
    /// All of `memory` as rows of `row_elements` elements.
    ///
    /// # Errors
    /// As [`Rows::new`].
    pub fn new(memory: &'a mut W, row_elements: usize) -> Result<Self> {
        let sizes = Sizes::of(memory, row_elements)?;
        Ok(RowsMut { memory, sizes })
    }

    /// As [`Rows::windows`].
    pub fn windows(&self, log2: u32) -> Windows {
        Windows::new(self.sizes.rows, self.sizes.row_bytes.into(), log2)
    }
}
