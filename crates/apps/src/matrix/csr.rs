//! Compressed sparse rows: the one form in which matrices are held and multiplied.

use std::mem::size_of;

/// The largest number of stored entries: row starts are 32-bit.
pub const ENTRIES_MAX: u64 = u32::MAX as u64;

/// One entry of a matrix that is being gathered; indices count from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Row, from 0.
    pub row: u32,
    /// Column, from 0.
    pub column: u32,
    /// Value.
    pub value: f64,
}

/// Why entries do not make a matrix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsrError {
    /// An entry lies outside the matrix.
    #[error("entry ({row}, {column}), counted from 0, lies outside a {rows} x {columns} matrix")]
    Outside {
        /// Row of the entry, from 0.
        row: u32,
        /// Column of the entry, from 0.
        column: u32,
        /// Rows of the matrix.
        rows: u32,
        /// Columns of the matrix.
        columns: u32,
    },
    /// More entries than 32-bit row starts can count.
    #[error("{entries} entries are too many: at most {ENTRIES_MAX} fit; split the matrix")]
    TooManyEntries {
        /// Entries asked for.
        entries: u64,
    },
}

/// A sparse matrix in compressed rows.
///
/// Row `i` owns the positions `row_start[i] .. row_start[i + 1]` of `column` and `value`. Within
/// a row the columns rise strictly. A stored zero is an entry like any other. The constructors
/// keep these promises; whoever fills the fields by hand must keep them too, and the methods may
/// panic (but do nothing worse) where they are broken.
#[derive(Clone, Debug, PartialEq)]
pub struct CsrMatrix {
    /// Number of rows.
    pub rows: u32,
    /// Number of columns.
    pub columns: u32,
    /// First position of each row, and the number of entries at the end: `rows + 1` values.
    pub row_start: Vec<u32>,
    /// Column of each entry, from 0.
    pub column: Vec<u32>,
    /// Value of each entry.
    pub value: Vec<f64>,
}

impl CsrMatrix {
    /// Builds a matrix from entries in any order. Entries at the same place are summed in the
    /// order given.
    ///
    /// # Errors
    /// [`CsrError`] where an entry lies outside or there are 2^32 entries or more.
    pub fn from_entries(rows: u32, columns: u32, entries: &[Entry]) -> Result<Self, CsrError> {
        if entries.len() as u64 > ENTRIES_MAX {
            return Err(CsrError::TooManyEntries {
                entries: entries.len() as u64,
            });
        }
        let outside = |entry: &&Entry| entry.row >= rows || entry.column >= columns;
        if let Some(&Entry { row, column, .. }) = entries.iter().find(outside) {
            return Err(CsrError::Outside {
                row,
                column,
                rows,
                columns,
            });
        }
        let mut matrix = scatter_into_rows(rows, columns, entries);
        matrix.sort_and_merge();
        Ok(matrix)
    }

    /// Number of stored entries, zeros included.
    pub fn nnz(&self) -> usize {
        self.value.len()
    }

    /// Bytes of the three arrays: what a device must hold.
    pub fn bytes(&self) -> u64 {
        let starts = self.row_start.len() * size_of::<u32>();
        let entries = self.value.len() * (size_of::<u32>() + size_of::<f64>());
        (starts + entries) as u64
    }

    /// The entries in row order, columns rising.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.rows).flat_map(move |row| {
            self.positions(row).map(move |at| Entry {
                row,
                column: self.column[at],
                value: self.value[at],
            })
        })
    }

    /// The stored value at a place, counted from 0; `None` where nothing is stored.
    pub fn get(&self, row: u32, column: u32) -> Option<f64> {
        if row >= self.rows {
            return None;
        }
        let positions = self.positions(row);
        let found = self.column[positions.clone()].binary_search(&column).ok()?;
        Some(self.value[positions.start + found])
    }

    /// Writes `self · x` into `y`; sums each row from left to right.
    ///
    /// # Panics
    /// Where `x` is not `columns` long or `y` is not `rows` long.
    pub fn multiply(&self, x: &[f64], y: &mut [f64]) {
        assert_eq!(
            x.len(),
            self.columns as usize,
            "x must have one value a column"
        );
        assert_eq!(y.len(), self.rows as usize, "y must have one value a row");
        for (out, bounds) in y.iter_mut().zip(self.row_start.windows(2)) {
            let positions = bounds[0] as usize..bounds[1] as usize;
            let columns = &self.column[positions.clone()];
            let values = &self.value[positions];
            let terms = columns.iter().zip(values);
            // Not sum(), whose empty sum is -0.0.
            *out = terms.fold(0.0, |sum, (&column, &value)| {
                sum + value * x[column as usize]
            });
        }
    }

    /// The diagonal, as long as the shorter side; 0 where nothing is stored.
    pub fn diagonal(&self) -> Vec<f64> {
        (0..self.rows.min(self.columns))
            .map(|i| self.get(i, i).unwrap_or(0.0))
            .collect()
    }

    /// The largest magnitude of a stored value; 0 for a matrix without entries. NaN is ignored.
    pub fn largest_magnitude(&self) -> f64 {
        self.value.iter().fold(0.0, |most, v| v.abs().max(most))
    }

    /// Whether the matrix is square and no entry differs from its mirror image by more than
    /// `relative_tolerance` times the largest magnitude. An entry that is not stored counts as 0.
    pub fn is_symmetric(&self, relative_tolerance: f64) -> bool {
        self.rows == self.columns && self.first_asymmetry(relative_tolerance).is_none()
    }

    /// The first place, in row order and from 0, that differs from its mirror image as
    /// [`is_symmetric`](Self::is_symmetric) says. Takes time in proportion to the entries.
    ///
    /// Rows are visited from the top, so the mirrored places asked of any one row come in rising
    /// column order: one cursor a row, which only moves forward, finds them all.
    pub fn first_asymmetry(&self, relative_tolerance: f64) -> Option<(u32, u32)> {
        let tolerance = relative_tolerance * self.largest_magnitude();
        let mut cursor: Vec<u32> = self.row_start.clone();
        for entry in self.entries() {
            let Entry { row, column, value } = entry;
            let mut mirrored = 0.0;
            if column < self.rows {
                let end = self.row_start[column as usize + 1];
                let at = &mut cursor[column as usize];
                while *at < end && self.column[*at as usize] < row {
                    *at += 1;
                }
                if *at < end && self.column[*at as usize] == row {
                    mirrored = self.value[*at as usize];
                }
            }
            // Equality first: the difference of equal infinities is NaN.
            let agrees = value == mirrored || (value - mirrored).abs() <= tolerance;
            if !agrees {
                return Some((row, column));
            }
        }
        None
    }

    fn positions(&self, row: u32) -> std::ops::Range<usize> {
        let row = row as usize;
        self.row_start[row] as usize..self.row_start[row + 1] as usize
    }

    /// Sorts each row by column and sums entries at the same place, closing the gaps.
    fn sort_and_merge(&mut self) {
        let mut scratch: Vec<(u32, f64)> = Vec::new();
        let mut kept = 0_usize;
        let mut begin = 0_usize;
        for row in 0..self.rows as usize {
            let end = self.row_start[row + 1] as usize;
            let columns = &self.column[begin..end];
            scratch.clear();
            scratch.extend(
                columns
                    .iter()
                    .copied()
                    .zip(self.value[begin..end].iter().copied()),
            );
            if !columns.is_sorted() {
                // Stable, so that sums are taken in the order given.
                scratch.sort_by_key(|&(column, _)| column);
            }
            let row_begin = kept;
            for &(column, value) in &scratch {
                if kept > row_begin && self.column[kept - 1] == column {
                    self.value[kept - 1] += value;
                } else {
                    self.column[kept] = column;
                    self.value[kept] = value;
                    kept += 1;
                }
            }
            // No more than the entries given, which were counted to fit.
            self.row_start[row + 1] = kept as u32;
            begin = end;
        }
        self.column.truncate(kept);
        self.value.truncate(kept);
    }
}

/// Counting sort by row; the order within a row stays as given.
fn scatter_into_rows(rows: u32, columns: u32, entries: &[Entry]) -> CsrMatrix {
    let mut row_start = vec![0_u32; rows as usize + 1];
    for entry in entries {
        row_start[entry.row as usize + 1] += 1;
    }
    for row in 0..rows as usize {
        row_start[row + 1] += row_start[row];
    }
    let mut next = row_start.clone();
    let mut column = vec![0_u32; entries.len()];
    let mut value = vec![0.0_f64; entries.len()];
    for entry in entries {
        let at = next[entry.row as usize];
        column[at as usize] = entry.column;
        value[at as usize] = entry.value;
        next[entry.row as usize] = at + 1;
    }
    CsrMatrix {
        rows,
        columns,
        row_start,
        column,
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: u32, columns: u32, entries: &[(u32, u32, f64)]) -> CsrMatrix {
        let entries: Vec<Entry> = entries
            .iter()
            .map(|&(row, column, value)| Entry { row, column, value })
            .collect();
        CsrMatrix::from_entries(rows, columns, &entries).unwrap()
    }

    #[test]
    fn sorts_rows_sums_duplicates_and_keeps_zeros() {
        let m = matrix(
            3,
            4,
            &[
                (2, 3, 1.0),
                (0, 2, 5.0),
                (0, 1, 0.0),
                (2, 3, 2.0),
                (0, 2, -5.0),
            ],
        );
        assert_eq!(m.row_start, [0, 2, 2, 3]);
        assert_eq!(m.column, [1, 2, 3]);
        assert_eq!(m.value, [0.0, 0.0, 3.0]);
        assert_eq!(m.nnz(), 3);
        assert_eq!(m.bytes(), 4 * 4 + 3 * 12);
        assert_eq!(m.get(2, 3), Some(3.0));
        assert_eq!(m.get(1, 3), None);
        assert_eq!(m.get(9, 0), None);
    }

    #[test]
    fn refuses_entries_outside() {
        let entry = Entry {
            row: 1,
            column: 2,
            value: 1.0,
        };
        let error = CsrMatrix::from_entries(2, 2, &[entry]).unwrap_err();
        assert!(
            matches!(
                error,
                CsrError::Outside {
                    row: 1,
                    column: 2,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn multiplies_and_reads_the_diagonal_of_a_wide_matrix() {
        let m = matrix(3, 4, &[(0, 0, 2.0), (0, 3, 3.0), (1, 1, 4.0), (1, 0, -1.0)]);
        let mut y = [9.0; 3];
        m.multiply(&[1.0, 10.0, 50.0, 100.0], &mut y);
        assert_eq!(y, [302.0, 39.0, 0.0]);
        assert!(y[2].is_sign_positive());
        assert_eq!(m.diagonal(), [2.0, 4.0, 0.0]);
        assert_eq!(m.largest_magnitude(), 4.0);
    }

    #[test]
    fn symmetry_counts_missing_entries_as_zero_and_scales_the_tolerance() {
        let base = [(0, 0, 1000.0), (1, 1, 5.0), (2, 2, 7.0), (0, 2, 3.0)];
        let with = |extra: &[(u32, u32, f64)]| matrix(3, 3, &[&base[..], extra].concat());
        assert!(with(&[(2, 0, 3.0)]).is_symmetric(0.0));
        assert!(with(&[(2, 0, 3.0), (1, 2, 0.0)]).is_symmetric(0.0));
        assert_eq!(with(&[]).first_asymmetry(0.0), Some((0, 2)));
        assert_eq!(
            with(&[(2, 0, 3.0), (2, 1, 1.0)]).first_asymmetry(0.0),
            Some((2, 1))
        );
        assert_eq!(with(&[(2, 0, 3.5)]).first_asymmetry(1e-4), Some((0, 2)));
        assert!(with(&[(2, 0, 3.5)]).is_symmetric(1e-3));
        let lonely_zeros = [(2, 3, 5.0), (3, 0, 0.0), (3, 1, 0.0), (3, 2, 5.0)];
        assert!(matrix(4, 4, &lonely_zeros).is_symmetric(0.0));
        assert!(!with(&[(2, 0, f64::NAN)]).is_symmetric(1.0));
        assert!(!matrix(2, 3, &[(0, 0, 1.0)]).is_symmetric(1.0));
        assert_eq!(
            matrix(2, 3, &[(0, 2, 1.0)]).first_asymmetry(0.0),
            Some((0, 2))
        );
    }

    #[test]
    fn a_matrix_without_rows_works() {
        let m = matrix(0, 0, &[]);
        m.multiply(&[], &mut []);
        assert!(m.is_symmetric(0.0));
        assert!(m.diagonal().is_empty());
        assert_eq!(m.row_start, [0]);
    }
}
