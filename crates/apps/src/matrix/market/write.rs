//! The writer: coordinate format, real values that read back bit for bit.

use std::io::{self, Write};

use crate::matrix::csr::CsrMatrix;

/// Writes a matrix in coordinate format with real values. An exactly symmetric matrix stores its
/// lower triangle, column by column; any other is `general`, row by row. Each line of `comment`
/// becomes a comment. Values are the shortest decimals that read back to the same `f64`.
///
/// # Errors
/// Those of `out`, which is flushed at the end.
pub fn write(out: &mut impl Write, matrix: &CsrMatrix, comment: &str) -> io::Result<()> {
    let symmetric = matrix.rows == matrix.columns && mirrors_are_stored(matrix);
    let symmetry = if symmetric { "symmetric" } else { "general" };
    writeln!(out, "%%MatrixMarket matrix coordinate real {symmetry}")?;
    for line in comment.lines() {
        writeln!(out, "% {line}")?;
    }
    let kept = || matrix.entries().filter(|e| !symmetric || e.row <= e.column);
    writeln!(out, "{} {} {}", matrix.rows, matrix.columns, kept().count())?;
    for entry in kept() {
        // The upper triangle by rows is the lower triangle by columns.
        let (row, column) = if symmetric {
            (entry.column + 1, entry.row + 1)
        } else {
            (entry.row + 1, entry.column + 1)
        };
        writeln!(out, "{row} {column} {:?}", entry.value)?;
    }
    out.flush()
}

/// Whether every stored entry's mirror image is stored, with the same bits: a zero stored on one
/// side only, or of another sign, would not read back as it was.
fn mirrors_are_stored(matrix: &CsrMatrix) -> bool {
    matrix.entries().all(|entry| {
        let mirrored = matrix.get(entry.column, entry.row);
        mirrored.map(f64::to_bits) == Some(entry.value.to_bits())
    })
}
