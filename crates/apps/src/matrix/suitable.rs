//! Whether conjugate gradients may be tried on a matrix: what can be told without solving.
//!
//! The method needs a symmetric positive definite matrix. Definiteness shows only while solving
//! (`p·Ap <= 0`); everything cheaper is told here, before any memory is moved.

use super::csr::CsrMatrix;

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

/// Checks that a matrix is square, not empty, finite, symmetric within [`SYMMETRY_TOLERANCE`],
/// and has a positive diagonal entry in every row.
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::csr::Entry;

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

    #[test]
    fn rounding_noise_does_not_break_symmetry() {
        let noisy = [(0, 0, 10.0), (1, 1, 10.0), (0, 1, 1.0), (1, 0, 1.0 + 4e-13)];
        assert_eq!(check(2, 2, &noisy), Ok(()));
    }
}
