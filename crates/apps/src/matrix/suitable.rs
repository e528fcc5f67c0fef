//! Whether conjugate gradients may be tried on a matrix: what can be told without solving.
//!
//! The method needs a symmetric positive definite matrix. Whether it is definite shows only while
//! solving (`p·Ap <= 0`), and not always then; what can be told cheaper is told here, before any
//! memory is moved.

use super::csr::{CsrMatrix, Entry};

/// How far, relative to the largest magnitude, mirrored entries may differ.
pub const SYMMETRY_TOLERANCE: f64 = 1e-12;

/// Why conjugate gradients cannot solve with this matrix. Rows and columns count from 1 here, as
/// they do in files.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotSuitable {
    /// More rows than columns, or fewer.
    #[error(
        "the matrix is {rows} x {columns}, but the solver needs a square one; for least squares \
         solve with the normal matrix A'A instead"
    )]
    NotSquare {
        /// Rows of the matrix.
        rows: u32,
        /// Columns of the matrix.
        columns: u32,
    },
    /// No rows.
    #[error("the matrix has no rows, so there is nothing to solve; give one with at least one")]
    Empty,
    /// A value is NaN or infinite.
    #[error(
        "entry ({row}, {column}) is {value}{}, but the solver needs finite values; correct it \
         where the matrix is made", at_line(.line)
    )]
    NotFinite {
        /// Row, from 1.
        row: u32,
        /// Column, from 1.
        column: u32,
        /// The value.
        value: f64,
        /// The line of the file that holds it, where the matrix came from a file.
        line: Option<u64>,
    },
    /// An entry differs from its mirror image.
    #[error(
        "entry ({row}, {column}) is {value} but entry ({column}, {row}) is {mirrored}, and the \
         solver needs a symmetric matrix; use a solver for general matrices, or solve with A'A"
    )]
    NotSymmetric {
        /// Row, from 1.
        row: u32,
        /// Column, from 1.
        column: u32,
        /// The value there; 0 where none is stored.
        value: f64,
        /// The mirrored value; 0 where none is stored.
        mirrored: f64,
    },
    /// A diagonal entry is absent.
    #[error(
        "row {row} stores no diagonal entry, but a positive definite matrix has a positive one \
         in every row; a graph's adjacency matrix needs its Laplacian formed first"
    )]
    NoDiagonal {
        /// Row, from 1.
        row: u32,
    },
    /// A diagonal entry is zero or negative.
    #[error(
        "the diagonal entry of row {row} is {value}, but a positive definite matrix has a \
         positive one in every row; solve with -A if all are negative, else use another solver"
    )]
    DiagonalNotPositive {
        /// Row, from 1.
        row: u32,
        /// The value there.
        value: f64,
    },
    /// An entry is too large beside the diagonal entries of its row and its column.
    #[error(
        "entry ({row}, {column}) is {value} between the diagonal entries {row_diagonal} and \
         {column_diagonal}, but in a positive definite matrix its square is less than their \
         product; use a solver for indefinite systems, such as MINRES"
    )]
    NotDefinite {
        /// Row, from 1.
        row: u32,
        /// Column, from 1.
        column: u32,
        /// The value there.
        value: f64,
        /// The diagonal entry of the row.
        row_diagonal: f64,
        /// The diagonal entry of the row of that column's number.
        column_diagonal: f64,
    },
}

fn at_line(line: &Option<u64>) -> String {
    line.map(|line| format!(" (line {line})"))
        .unwrap_or_default()
}

/// Checks that every stored value is finite.
///
/// # Errors
/// [`NotSuitable::NotFinite`] with the first place in row order.
pub fn check_finite(matrix: &CsrMatrix) -> Result<(), NotSuitable> {
    // The flat pass is quick; the place is looked up only where it is needed.
    if matrix.value.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    match matrix.entries().find(|entry| !entry.value.is_finite()) {
        None => Ok(()),
        Some(entry) => Err(NotSuitable::NotFinite {
            row: entry.row + 1,
            column: entry.column + 1,
            value: entry.value,
            line: None,
        }),
    }
}

/// Checks that a matrix is square, not empty, finite, symmetric within [`SYMMETRY_TOLERANCE`], has
/// a positive diagonal entry in every row, and no entry `a_ij` with `a_ij² >= a_ii·a_jj`. All of
/// that is necessary for a positive definite matrix; it is not sufficient.
///
/// # Errors
/// The first of these, in this order, that fails.
pub fn check_for_cg(matrix: &CsrMatrix) -> Result<(), NotSuitable> {
    let &CsrMatrix { rows, columns, .. } = matrix;
    if rows != columns {
        return Err(NotSuitable::NotSquare { rows, columns });
    }
    if rows == 0 {
        return Err(NotSuitable::Empty);
    }
    check_finite(matrix)?;
    if let Some((row, column)) = matrix.first_asymmetry(SYMMETRY_TOLERANCE) {
        return Err(NotSuitable::NotSymmetric {
            row: row + 1,
            column: column + 1,
            value: matrix.get(row, column).unwrap_or(0.0),
            mirrored: matrix.get(column, row).unwrap_or(0.0),
        });
    }
    for row in 0..rows {
        match matrix.get(row, row) {
            None => return Err(NotSuitable::NoDiagonal { row: row + 1 }),
            Some(value) if value <= 0.0 => {
                return Err(NotSuitable::DiagonalNotPositive {
                    row: row + 1,
                    value,
                });
            }
            Some(_) => {}
        }
    }
    check_minors(matrix)
}

/// Checks the determinants of all rows and columns i, j with an entry at (i, j), of a symmetric
/// matrix with a positive diagonal.
fn check_minors(matrix: &CsrMatrix) -> Result<(), NotSuitable> {
    let diagonal = matrix.diagonal();
    // Quotients, since products leave the range of numbers sooner.
    let too_large = |entry: &Entry| {
        let (row, column) = (entry.row as usize, entry.column as usize);
        let size = entry.value.abs();
        row != column && size > 0.0 && size / diagonal[row] >= diagonal[column] / size
    };
    match matrix.entries().find(too_large) {
        None => Ok(()),
        Some(entry) => Err(NotSuitable::NotDefinite {
            row: entry.row + 1,
            column: entry.column + 1,
            value: entry.value,
            row_diagonal: diagonal[entry.row as usize],
            column_diagonal: diagonal[entry.column as usize],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: u32, columns: u32, entries: &[(u32, u32, f64)]) -> Result<(), NotSuitable> {
        let entries: Vec<Entry> = entries
            .iter()
            .map(|&(row, column, value)| Entry { row, column, value })
            .collect();
        check_for_cg(&CsrMatrix::from_entries(rows, columns, &entries).unwrap())
    }

    #[test]
    fn names_what_is_missing_in_order() {
        assert_eq!(check(2, 2, &[(0, 0, 1.0), (1, 1, 2.0)]), Ok(()));
        assert_eq!(
            check(2, 3, &[]),
            Err(NotSuitable::NotSquare {
                rows: 2,
                columns: 3
            })
        );
        assert_eq!(check(0, 0, &[]), Err(NotSuitable::Empty));
        assert_eq!(
            check(2, 2, &[(0, 0, 1.0), (1, 0, f64::INFINITY), (1, 1, 1.0)]),
            Err(NotSuitable::NotFinite {
                row: 2,
                column: 1,
                value: f64::INFINITY,
                line: None
            })
        );
        assert_eq!(
            check(2, 2, &[(0, 0, 1.0), (1, 0, 0.5), (1, 1, 1.0)]),
            Err(NotSuitable::NotSymmetric {
                row: 2,
                column: 1,
                value: 0.5,
                mirrored: 0.0
            })
        );
        assert_eq!(
            check(3, 3, &[(0, 0, 1.0), (2, 2, 1.0)]),
            Err(NotSuitable::NoDiagonal { row: 2 })
        );
        assert_eq!(
            check(2, 2, &[(0, 0, 1.0), (1, 1, -2.0)]),
            Err(NotSuitable::DiagonalNotPositive {
                row: 2,
                value: -2.0
            })
        );
        assert_eq!(
            check(2, 2, &[(0, 0, 0.0), (1, 1, 2.0)]),
            Err(NotSuitable::DiagonalNotPositive { row: 1, value: 0.0 })
        );
    }

    /// A symmetric matrix of two rows.
    fn check_pair(first: f64, second: f64, between: f64) -> Result<(), NotSuitable> {
        check(
            2,
            2,
            &[
                (0, 0, first),
                (0, 1, between),
                (1, 0, between),
                (1, 1, second),
            ],
        )
    }

    #[test]
    fn an_entry_that_no_definite_matrix_has_is_named() {
        let named = |row_diagonal, column_diagonal, value| {
            Err(NotSuitable::NotDefinite {
                row: 1,
                column: 2,
                value,
                row_diagonal,
                column_diagonal,
            })
        };
        for (first, second, between) in [
            (1.0, 1.0, 5.0),
            (1.0, 3.0, -2.0),
            // Singular: the square is the product.
            (2.0, 2.0, 2.0),
            (1.0, 1.0, -1.0),
            // The square is beyond what a number holds.
            (1e-200, 1e200, 1e200),
            (1e-300, 1e-300, 1e-200),
        ] {
            let wanted = named(first, second, between);
            assert_eq!(check_pair(first, second, between), wanted);
        }
        let text = check_pair(1.0, 1.0, 5.0).unwrap_err().to_string();
        assert!(text.starts_with("entry (1, 2) is 5 between"), "{text}");
        assert!(text.contains("positive definite"), "{text}");
    }

    #[test]
    fn an_entry_below_the_limit_passes_at_any_scale() {
        for (first, second, between) in [
            (1.0, 1.0, 0.99),
            (1.0, 9.0, -2.9),
            (1.0, 1.0, 0.0),
            (1e-200, 1e200, 0.5),
            (1e200, 1e200, 1e199),
            (1e-200, 1e-200, -1e-201),
        ] {
            assert_eq!(check_pair(first, second, between), Ok(()), "{between}");
        }
    }

    #[test]
    fn rounding_noise_does_not_break_symmetry() {
        let noisy = [(0, 0, 10.0), (1, 1, 10.0), (0, 1, 1.0), (1, 0, 1.0 + 4e-13)];
        assert_eq!(check(2, 2, &noisy), Ok(()));
    }
}
