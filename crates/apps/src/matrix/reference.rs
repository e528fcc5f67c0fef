//! The CPU reference: conjugate gradients with a Jacobi preconditioner, in plain `f64`.
//!
//! Written for trust, not speed: one thread, sums from left to right, so that the same matrix
//! gives the same bits everywhere. The method is the preconditioned conjugate gradients of
//! Golub and Van Loan, *Matrix Computations*, with the diagonal of A as the preconditioner.

use super::csr::CsrMatrix;
use super::suitable::{NotSuitable, check_for_cg};

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopRule {
    /// Stop with success once `‖r‖ <= relative_tolerance · ‖b‖`.
    pub relative_tolerance: f64,
    /// Stop with [`SolveError::IterationLimit`] after this many iterations.
    pub iterations_max: u32,
}

impl Default for StopRule {
    /// Tolerance 1e-8 and 20 000 iterations.
    fn default() -> Self {
        StopRule {
            relative_tolerance: 1e-8,
            iterations_max: 20_000,
        }
    }
}

/// What a solve returns.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The solution.
    pub x: Vec<f64>,
    /// Iterations taken.
    pub iterations: u32,
    /// `‖r‖ / ‖b‖` of the residual that the iteration carries along. Rounding makes it drift
    /// from the truth: [`relative_residual`] recomputes it.
    pub relative_residual: f64,
}

/// Why a solve failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SolveError {
    /// The matrix is not one for this method.
    #[error(transparent)]
    NotSuitable(#[from] NotSuitable),
    /// The right-hand side has the wrong length.
    #[error("the right-hand side has {found} values for {rows} rows; give one value a row")]
    Length {
        /// Rows of the matrix.
        rows: u32,
        /// Values given.
        found: usize,
    },
    /// The matrix is not positive definite.
    #[error(
        "p·Ap is {curvature:e} in iteration {iteration}, so the matrix is not positive definite; \
         use a solver for indefinite matrices, such as MINRES"
    )]
    Indefinite {
        /// Iteration, from 1.
        iteration: u32,
        /// `p·Ap`, zero or negative.
        curvature: f64,
    },
    /// A sum left the range of `f64`.
    #[error(
        "a sum is NaN, infinite or too small for f64 in iteration {iteration}; scale the matrix \
         and the right-hand side towards 1"
    )]
    OutOfRange {
        /// Iteration, from 1; 0 for the norm of the right-hand side.
        iteration: u32,
    },
    /// Not converged in time.
    #[error(
        "‖r‖/‖b‖ is still {relative_residual:e} after {iterations} iterations; allow more, \
         loosen the tolerance, or use a stronger preconditioner"
    )]
    IterationLimit {
        /// Iterations taken.
        iterations: u32,
        /// `‖r‖ / ‖b‖` at the end.
        relative_residual: f64,
    },
}

/// The right-hand side whose exact solution is all ones: the row sums of the matrix.
pub fn right_hand_side_of_ones(matrix: &CsrMatrix) -> Vec<f64> {
    let mut b = vec![0.0; matrix.rows as usize];
    matrix.multiply(&vec![1.0; matrix.columns as usize], &mut b);
    b
}

/// Solves `matrix · x = b` from `x = 0`.
///
/// # Errors
/// [`SolveError`]; the matrix is checked with [`check_for_cg`] first.
pub fn solve(matrix: &CsrMatrix, b: &[f64], stop: StopRule) -> Result<Solution, SolveError> {
    check_for_cg(matrix)?;
    if b.len() != matrix.rows as usize {
        return Err(SolveError::Length {
            rows: matrix.rows,
            found: b.len(),
        });
    }
    let b_norm = norm(b);
    let mut x = vec![0.0; b.len()];
    if b.iter().all(|&value| value == 0.0) {
        return Ok(Solution {
            x,
            iterations: 0,
            relative_residual: 0.0,
        });
    }
    if !b_norm.is_normal() {
        return Err(SolveError::OutOfRange { iteration: 0 });
    }
    let diagonal = matrix.diagonal();
    let mut r = b.to_vec();
    let mut z = divide(&r, &diagonal);
    let mut p = z.clone();
    let mut q = vec![0.0; b.len()];
    let mut rz = dot(&r, &z);
    let mut relative_residual = 1.0;
    for iteration in 1..=stop.iterations_max {
        matrix.multiply(&p, &mut q);
        let alpha = rz / curvature(&p, &q, iteration)?;
        add_scaled(&mut x, alpha, &p);
        add_scaled(&mut r, -alpha, &q);
        relative_residual = norm(&r) / b_norm;
        if !relative_residual.is_finite() {
            return Err(SolveError::OutOfRange { iteration });
        }
        if relative_residual <= stop.relative_tolerance {
            return Ok(Solution {
                x,
                iterations: iteration,
                relative_residual,
            });
        }
        z = divide(&r, &diagonal);
        let rz_next = dot(&r, &z);
        let beta = rz_next / rz;
        rz = rz_next;
        for (p, z) in p.iter_mut().zip(&z) {
            *p = z + beta * *p;
        }
    }
    Err(SolveError::IterationLimit {
        iterations: stop.iterations_max,
        relative_residual,
    })
}

/// `‖b − matrix · x‖ / ‖b‖`, computed afresh; `‖matrix · x‖` where `b` is zero.
///
/// # Panics
/// Where `x` is not `columns` long or `b` is not `rows` long.
pub fn relative_residual(matrix: &CsrMatrix, x: &[f64], b: &[f64]) -> f64 {
    let mut r = vec![0.0; b.len()];
    matrix.multiply(x, &mut r);
    for (r, b) in r.iter_mut().zip(b) {
        *r = b - *r;
    }
    let b_norm = norm(b);
    if b_norm == 0.0 {
        norm(&r)
    } else {
        norm(&r) / b_norm
    }
}

/// `p·Ap`, where it proves nothing against the matrix.
fn curvature(p: &[f64], q: &[f64], iteration: u32) -> Result<f64, SolveError> {
    let curvature = dot(p, q);
    if !curvature.is_finite() {
        return Err(SolveError::OutOfRange { iteration });
    }
    if curvature <= 0.0 {
        return Err(SolveError::Indefinite {
            iteration,
            curvature,
        });
    }
    Ok(curvature)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn divide(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

fn add_scaled(y: &mut [f64], scale: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += scale * x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::csr::Entry;

    fn symmetric(n: u32, lower: &[(u32, u32, f64)]) -> CsrMatrix {
        let mut entries = Vec::new();
        for &(row, column, value) in lower {
            entries.push(Entry { row, column, value });
            if row != column {
                entries.push(Entry {
                    row: column,
                    column: row,
                    value,
                });
            }
        }
        CsrMatrix::from_entries(n, n, &entries).unwrap()
    }

    #[test]
    fn a_diagonal_matrix_takes_one_iteration() {
        let m = symmetric(3, &[(0, 0, 2.0), (1, 1, 4.0), (2, 2, 8.0)]);
        let b = [2.0, 8.0, 24.0];
        let solution = solve(&m, &b, StopRule::default()).unwrap();
        assert_eq!(solution.iterations, 1);
        assert_eq!(solution.x, [1.0, 2.0, 3.0]);
        assert_eq!(relative_residual(&m, &solution.x, &b), 0.0);
        assert_eq!(relative_residual(&m, &[0.0; 3], &b), 1.0);
    }

    #[test]
    fn indefiniteness_is_found_with_its_iteration() {
        // Ones on the diagonal and one value beside them: of ones it makes 1 + 2 values.
        let error = |value| {
            let diagonal = [(0, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0)];
            let beside = [(1, 0, value), (2, 0, value), (2, 1, value)];
            let m = symmetric(3, &[diagonal, beside].concat());
            solve(&m, &[1.0; 3], StopRule::default()).unwrap_err()
        };
        for (value, curvature) in [(-0.75, -1.5), (-0.5, 0.0)] {
            assert_eq!(
                error(value),
                SolveError::Indefinite {
                    iteration: 1,
                    curvature
                }
            );
        }
    }

    #[test]
    fn limits_lengths_and_ranges_are_errors() {
        let m = symmetric(3, &[(0, 0, 2.0), (1, 1, 3.0), (2, 2, 4.0), (1, 0, 1.0)]);
        let one = StopRule {
            iterations_max: 1,
            ..StopRule::default()
        };
        let error = solve(&m, &[1.0, 5.0, -2.0], one).unwrap_err();
        assert!(
            matches!(error, SolveError::IterationLimit { iterations: 1, .. }),
            "{error}"
        );
        let stop = StopRule::default();
        assert_eq!(
            solve(&m, &[1.0], stop),
            Err(SolveError::Length { rows: 3, found: 1 })
        );
        let range = Err(SolveError::OutOfRange { iteration: 0 });
        assert_eq!(solve(&m, &[1e200, 0.0, 0.0], stop), range);
        assert_eq!(solve(&m, &[1e-200, 0.0, 0.0], stop), range);
        assert_eq!(solve(&m, &[f64::NAN, 0.0, 0.0], stop), range);
        let huge = symmetric(1, &[(0, 0, 1e-300)]);
        let error = solve(&huge, &[1e150], stop).unwrap_err();
        assert_eq!(error, SolveError::OutOfRange { iteration: 1 });
    }

    #[test]
    fn a_zero_right_hand_side_needs_no_iteration() {
        let m = symmetric(2, &[(0, 0, 2.0), (1, 1, 3.0)]);
        let solution = solve(&m, &[0.0, 0.0], StopRule::default()).unwrap();
        assert_eq!((solution.iterations, solution.x), (0, vec![0.0, 0.0]));
    }
}
