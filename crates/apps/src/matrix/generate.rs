//! Makes a matrix to solve with: heat conduction in a plate with a conducting insert.
//!
//! The same bits come out on every machine: only `+ - * /` are used, which IEEE 754 rounds
//! exactly, and no function whose last digit depends on a library.

use std::io::{self, Write};

use super::csr::{CsrMatrix, ENTRIES_MAX};
use super::market;

/// A plate of `across` by `down` square cells whose edge is held at temperature 0.
///
/// Five-point finite volumes: cell `i` has row `Σ w_ij` on the diagonal and `-w_ij` towards each
/// neighbour, where `w_ij` is the harmonic mean of the two cells' conductivities, or twice the
/// cell's own at the edge, which is half a cell away. That is symmetric positive definite.
/// Conductivity is 1 far from the insert, off the middle of the plate, and `contrast` in its
/// centre, so that the Jacobi preconditioner has something to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plate {
    /// Cells in a row of the plate.
    pub across: u32,
    /// Rows of cells.
    pub down: u32,
    /// Conductivity in the centre of the insert; finite and positive.
    pub contrast: f64,
}

/// Why a plate cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlateError {
    /// No cells, or too many.
    #[error("a plate of {across} x {down} cells cannot be made; ask for 1 to {CELLS_MAX} cells")]
    Cells {
        /// Cells in a row of the plate.
        across: u32,
        /// Rows of cells.
        down: u32,
    },
    /// The contrast is not a conductivity.
    #[error("a contrast of {0} is no conductivity; give a finite number from 1e-6 to 1e6")]
    Contrast(f64),
}

/// The most cells of a plate: five entries a cell must be countable in 32 bits.
pub const CELLS_MAX: u64 = ENTRIES_MAX / 5;

impl Plate {
    /// The plate that is shipped as `data/plate.mtx`.
    pub const SHIPPED: Plate = Plate {
        across: 40,
        down: 30,
        contrast: 1000.0,
    };

    /// The plate's matrix, one row a cell, cells numbered along the rows of the plate.
    ///
    /// # Errors
    /// [`PlateError`] for a size or a contrast out of range.
    pub fn matrix(&self) -> Result<CsrMatrix, PlateError> {
        self.check()?;
        let cells = self.across * self.down;
        let mut matrix = CsrMatrix {
            rows: cells,
            columns: cells,
            row_start: Vec::with_capacity(cells as usize + 1),
            column: Vec::with_capacity(cells as usize * 5),
            value: Vec::with_capacity(cells as usize * 5),
        };
        matrix.row_start.push(0);
        for j in 0..self.down {
            for i in 0..self.across {
                self.push_row(&mut matrix, i, j);
            }
        }
        Ok(matrix)
    }

    /// Writes the plate's matrix in Matrix Market format, with a comment that says what it is.
    ///
    /// # Errors
    /// Those of `out`; a size or contrast out of range is [`io::ErrorKind::InvalidInput`].
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let matrix = self.matrix().map_err(invalid)?;
        let comment = format!(
            "Made by the pinfold project, under its licence.\n\
             Heat conduction in a plate of {} x {} cells whose edge is held at 0: five-point\n\
             finite volumes, conductivity 1 rising to {} in an insert off the middle.\n\
             Written by pinfold-apps, matrix::generate::Plate; to write it again:\n\
             cargo test -p pinfold-apps --test matrix_files rewrite -- --ignored",
            self.across, self.down, self.contrast
        );
        market::write(out, &matrix, &comment)
    }

    fn check(&self) -> Result<(), PlateError> {
        let &Plate {
            across,
            down,
            contrast,
        } = self;
        let cells = u64::from(across) * u64::from(down);
        if cells == 0 || cells > CELLS_MAX {
            return Err(PlateError::Cells { across, down });
        }
        if !(1e-6..=1e6).contains(&contrast) {
            return Err(PlateError::Contrast(contrast));
        }
        Ok(())
    }

    /// Appends the row of cell (`i`, `j`), columns rising: above, left, itself, right, below.
    fn push_row(&self, matrix: &mut CsrMatrix, i: u32, j: u32) {
        let own = self.conductivity(i, j);
        let towards = |inside: bool, i: u32, j: u32| {
            if inside {
                let other = self.conductivity(i, j);
                // Symmetric to the last bit: + and * commute.
                2.0 * (own * other) / (own + other)
            } else {
                2.0 * own
            }
        };
        let cell = j * self.across + i;
        let (has_above, has_left) = (j > 0, i > 0);
        let (has_right, has_below) = (i + 1 < self.across, j + 1 < self.down);
        let above = towards(has_above, i, j.wrapping_sub(1));
        let left = towards(has_left, i.wrapping_sub(1), j);
        let right = towards(has_right, i + 1, j);
        let below = towards(has_below, i, j + 1);
        let mut push = |present: bool, column: u32, value: f64| {
            if present {
                matrix.column.push(column);
                matrix.value.push(value);
            }
        };
        push(has_above, cell.wrapping_sub(self.across), -above);
        push(has_left, cell.wrapping_sub(1), -left);
        push(true, cell, (above + below) + (left + right));
        push(has_right, cell.wrapping_add(1), -right);
        push(has_below, cell.wrapping_add(self.across), -below);
        // Five entries a cell were checked to fit.
        matrix.row_start.push(matrix.value.len() as u32);
    }

    /// Conductivity of cell (`i`, `j`): 1 + (contrast − 1) / (1 + (d / 0.15)^4), where d is the
    /// distance from the insert's centre in widths (heights) of the plate.
    fn conductivity(&self, i: u32, j: u32) -> f64 {
        let x = (f64::from(i) + 0.5) / f64::from(self.across) - 0.4;
        let y = (f64::from(j) + 0.5) / f64::from(self.down) - 0.55;
        let square = (x * x + y * y) / (0.15 * 0.15);
        1.0 + (self.contrast - 1.0) / (1.0 + square * square)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::suitable::check_for_cg;

    #[test]
    fn a_single_cell_sees_four_edges() {
        let plate = Plate {
            across: 1,
            down: 1,
            contrast: 1.0,
        };
        let matrix = plate.matrix().unwrap();
        assert_eq!((matrix.row_start, matrix.value), (vec![0, 1], vec![8.0]));
    }

    #[test]
    fn an_even_plate_is_the_five_point_laplacian() {
        let plate = Plate {
            across: 3,
            down: 3,
            contrast: 1.0,
        };
        let matrix = plate.matrix().unwrap();
        assert_eq!(matrix.get(4, 4), Some(4.0));
        let neighbours: Vec<_> = matrix
            .entries()
            .filter(|e| e.row == 4)
            .map(|e| e.column)
            .collect();
        assert_eq!(neighbours, [1, 3, 4, 5, 7]);
        assert_eq!(matrix.get(0, 0), Some(6.0));
        assert_eq!(
            matrix.get(2, 3),
            None,
            "the end of a row is no neighbour of the next"
        );
    }

    #[test]
    fn plates_are_exactly_symmetric_and_suitable() {
        for (across, down) in [(1, 7), (7, 1), (5, 4), (40, 30)] {
            let plate = Plate {
                across,
                down,
                contrast: 1000.0,
            };
            let matrix = plate.matrix().unwrap();
            assert!(matrix.is_symmetric(0.0));
            assert_eq!(check_for_cg(&matrix), Ok(()));
            let sorted = |w: &[u32]| matrix.column[w[0] as usize..w[1] as usize].is_sorted();
            assert!(matrix.row_start.windows(2).all(sorted));
        }
    }

    #[test]
    fn absurd_plates_are_refused() {
        let plate = |across, down, contrast| Plate {
            across,
            down,
            contrast,
        };
        let cells = plate(0, 5, 2.0).matrix().unwrap_err();
        assert_eq!(cells, PlateError::Cells { across: 0, down: 5 });
        assert!(plate(u32::MAX, u32::MAX, 2.0).matrix().is_err());
        assert_eq!(
            plate(2, 2, -1.0).matrix().unwrap_err(),
            PlateError::Contrast(-1.0)
        );
        assert!(plate(2, 2, f64::NAN).matrix().is_err());
        let written = plate(0, 0, 1.0).write(&mut Vec::new()).unwrap_err();
        assert_eq!(written.kind(), io::ErrorKind::InvalidInput);
    }
}
