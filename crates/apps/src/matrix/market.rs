//! Matrix Market files: a strict streaming reader, and a writer.
//!
//! The reader takes what the collections really hold — any case in the banner, CRLF, blank lines,
//! comments anywhere, leading spaces, Fortran exponents, duplicates — and refuses the rest with
//! file, line and advice. It holds one line and the entries, never the text, and believes no
//! count in the head of a file that the file is too short for.
//!
//! Decisions where the format is silent: a symmetric file may store either triangle, but one
//! only; entries at the same place are summed; zeros that are stored stay stored; NaN and
//! infinity are read and remembered with their line, because some jobs take them.

mod error;
mod header;
mod lines;
mod write;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

pub use error::{MarketError, MarketErrorKind, NoBanner};
pub use header::{ARRAY_ENTRIES_MAX, Field, Format, Symmetry};
pub use write::write;

use self::header::{Banner, Sizes, read_banner, read_sizes, text, whole};
use self::lines::{LineFault, Lines};
use super::csr::{CsrMatrix, ENTRIES_MAX, Entry};
use super::suitable::{self, NotSuitable};

/// A matrix and what its file said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Market {
    /// The matrix, with implied entries added and duplicates summed.
    pub matrix: CsrMatrix,
    /// How the file lays out entries.
    pub format: Format,
    /// What the file's values are.
    pub field: Field,
    /// Which entries the stored ones imply.
    pub symmetry: Symmetry,
    /// Entries that stand in the file.
    pub stored_entries: u64,
    /// How many of them are zero.
    pub explicit_zeros: u64,
    /// The first value that is NaN or infinite.
    pub first_non_finite: Option<NonFinite>,
}

/// A value that is NaN or infinite, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NonFinite {
    /// Line of the file, from 1.
    pub line: u64,
    /// The entry, counted from 0.
    pub entry: Entry,
}

impl Market {
    /// Entries of the matrix, implied ones included, duplicates counted once.
    pub fn expanded_entries(&self) -> u64 {
        self.matrix.nnz() as u64
    }

    /// Checks that every value of the file, and every sum of duplicates, is finite.
    ///
    /// # Errors
    /// [`NotSuitable::NotFinite`], with the line where a value of the file is to blame.
    pub fn check_finite(&self) -> Result<(), NotSuitable> {
        match self.first_non_finite {
            None => suitable::check_finite(&self.matrix),
            Some(NonFinite { line, entry }) => Err(NotSuitable::NotFinite {
                row: entry.row + 1,
                column: entry.column + 1,
                value: entry.value,
                line: Some(line),
            }),
        }
    }

    /// [`check_for_cg`](suitable::check_for_cg), naming the line of a value that is not finite.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn check_for_cg(&self) -> Result<(), NotSuitable> {
        match suitable::check_for_cg(&self.matrix) {
            Err(NotSuitable::NotFinite { .. }) => self.check_finite(),
            other => other,
        }
    }
}

/// Reads a Matrix Market file.
///
/// # Errors
/// [`MarketError`] with the file, the line where one is to blame, and what to do.
pub fn read_matrix_market(path: &Path) -> Result<Market, MarketError> {
    let read_error = |error| MarketError {
        path: path.to_owned(),
        line: None,
        kind: MarketErrorKind::Read(error),
    };
    let file = File::open(path).map_err(read_error)?;
    let metadata = file.metadata().map_err(read_error)?;
    // Pipes and devices have no length to check the head of the file against.
    let length_bytes = metadata.is_file().then_some(metadata.len());
    read(BufReader::new(file), path, length_bytes)
}

/// Reads Matrix Market text from any reader. `name` stands for the file in errors. With
/// `length_bytes`, the length of the whole text, false entry counts are refused sooner.
///
/// # Errors
/// As [`read_matrix_market`].
pub fn read(
    reader: impl BufRead,
    name: &Path,
    length_bytes: Option<u64>,
) -> Result<Market, MarketError> {
    read_text(reader, length_bytes).map_err(|fault| MarketError {
        path: name.to_owned(),
        line: fault.line,
        kind: fault.kind,
    })
}

/// An error that does not know its file yet.
struct Fault {
    line: Option<u64>,
    kind: MarketErrorKind,
}

impl Fault {
    fn at(line: u64, kind: MarketErrorKind) -> Self {
        Fault {
            line: Some(line),
            kind,
        }
    }

    fn of_file(kind: MarketErrorKind) -> Self {
        Fault { line: None, kind }
    }
}

impl From<LineFault> for Fault {
    fn from(fault: LineFault) -> Self {
        match fault {
            LineFault::Read(error) => Fault::of_file(MarketErrorKind::Read(error)),
            LineFault::TooLong { line } => Fault::at(line, MarketErrorKind::LineTooLong),
        }
    }
}

fn read_text(reader: impl BufRead, length_bytes: Option<u64>) -> Result<Market, Fault> {
    let mut lines = Lines::new(reader);
    let banner = read_banner(&mut lines)?;
    let sizes = read_sizes(&mut lines, banner, length_bytes)?;
    let mut gathered = Gathered::new(banner, sizes.entries, length_bytes.is_some());
    match banner.format {
        Format::Coordinate => read_coordinates(&mut lines, banner, sizes, &mut gathered)?,
        Format::Array => read_array(&mut lines, banner, sizes, &mut gathered)?,
    }
    if lines.advance_to_content()? {
        let kind = MarketErrorKind::TooMany {
            declared: sizes.entries,
            size_line: sizes.line,
        };
        return Err(Fault::at(lines.number(), kind));
    }
    let matrix = CsrMatrix::from_entries(sizes.rows, sizes.columns, &gathered.entries)
        .map_err(|error| Fault::of_file(error.into()))?;
    Ok(Market {
        matrix,
        format: banner.format,
        field: banner.field,
        symmetry: banner.symmetry,
        stored_entries: sizes.entries,
        explicit_zeros: gathered.explicit_zeros,
        first_non_finite: gathered.first_non_finite,
    })
}

fn read_coordinates<R: BufRead>(
    lines: &mut Lines<R>,
    banner: Banner,
    sizes: Sizes,
    gathered: &mut Gathered,
) -> Result<(), Fault> {
    for found in 0..sizes.entries {
        next_entry_line(lines, sizes, found)?;
        let line = lines.number();
        parse_coordinate(lines, banner.field, sizes)
            .and_then(|entry| gathered.add(entry, line))
            .map_err(|kind| Fault::at(line, kind))?;
    }
    Ok(())
}

fn read_array<R: BufRead>(
    lines: &mut Lines<R>,
    banner: Banner,
    sizes: Sizes,
    gathered: &mut Gathered,
) -> Result<(), Fault> {
    let mut found = 0;
    for column in 0..sizes.columns {
        let first_row = match banner.symmetry {
            Symmetry::General => 0,
            Symmetry::Symmetric => column,
            Symmetry::SkewSymmetric => column + 1,
        };
        for row in first_row..sizes.rows {
            next_entry_line(lines, sizes, found)?;
            found += 1;
            let line = lines.number();
            parse_array_value(lines, banner.field)
                .and_then(|value| gathered.add(Entry { row, column, value }, line))
                .map_err(|kind| Fault::at(line, kind))?;
        }
    }
    Ok(())
}

/// Moves to the next line with an entry, of which `found` have been read.
fn next_entry_line<R: BufRead>(
    lines: &mut Lines<R>,
    sizes: Sizes,
    found: u64,
) -> Result<(), Fault> {
    if lines.advance_to_content()? {
        return Ok(());
    }
    let kind = MarketErrorKind::TooFew {
        found,
        declared: sizes.entries,
        size_line: sizes.line,
    };
    Err(Fault::at(lines.number(), kind))
}

fn parse_coordinate<R: BufRead>(
    lines: &Lines<R>,
    field: Field,
    sizes: Sizes,
) -> Result<Entry, MarketErrorKind> {
    let words = lines.words();
    let (row, column, value) = if field == Field::Pattern {
        let Some([row, column]) = words.exactly() else {
            return Err(MarketErrorKind::Words {
                wanted: "a row and a column (a pattern has no values)",
                found: words.count(),
            });
        };
        (row, column, 1.0)
    } else {
        let Some([row, column, value]) = words.exactly() else {
            return Err(MarketErrorKind::Words {
                wanted: "a row, a column and a value",
                found: words.count(),
            });
        };
        (row, column, parse_value(value, field)?)
    };
    let advice = "indices count from 1, up to the sizes declared";
    let row = whole("row index", row, 1, u64::from(sizes.rows), advice)?;
    let column = whole("column index", column, 1, u64::from(sizes.columns), advice)?;
    // Both lie within sizes that are 32-bit.
    Ok(Entry {
        row: (row - 1) as u32,
        column: (column - 1) as u32,
        value,
    })
}

fn parse_array_value<R: BufRead>(lines: &Lines<R>, field: Field) -> Result<f64, MarketErrorKind> {
    let words = lines.words();
    let Some([value]) = words.exactly() else {
        return Err(MarketErrorKind::Words {
            wanted: "one value",
            found: words.count(),
        });
    };
    parse_value(value, field)
}

/// A value: an integer has only digits and a sign; a real number may have Fortran's `D` exponent.
fn parse_value(word: &[u8], field: Field) -> Result<f64, MarketErrorKind> {
    let digits = word
        .strip_prefix(b"-")
        .or(word.strip_prefix(b"+"))
        .unwrap_or(word);
    let malformed = field == Field::Integer && !digits.iter().all(u8::is_ascii_digit);
    let parsed = text(word).and_then(|text| {
        let plain = text.parse::<f64>();
        plain
            .or_else(|_| text.replace(['D', 'd'], "e").parse())
            .ok()
    });
    match parsed {
        Some(value) if !malformed => Ok(value),
        _ => Err(MarketErrorKind::Value {
            text: shown(word),
            field,
        }),
    }
}

/// A word as an error may show it: escaped, and cut where it is long.
fn shown(word: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 40;
    if word.len() <= SHOWN_BYTES_MAX {
        word.escape_ascii().to_string()
    } else {
        format!("{}...", word[..SHOWN_BYTES_MAX].escape_ascii())
    }
}

/// Entries on their way into a matrix, implied ones included.
struct Gathered {
    entries: Vec<Entry>,
    symmetry: Symmetry,
    explicit_zeros: u64,
    first_non_finite: Option<NonFinite>,
    /// Whether the first entry off the diagonal lies below it, and its line.
    triangle: Option<(bool, u64)>,
}

impl Gathered {
    /// Room for `stored` entries and their mirror images. Where nothing vouches for that number,
    /// room is made as the entries come.
    fn new(banner: Banner, stored: u64, vouched: bool) -> Self {
        const UNVOUCHED_MAX: u64 = 1 << 16;
        let copies = if banner.symmetry == Symmetry::General {
            1
        } else {
            2
        };
        let room = stored * copies;
        let room = if vouched {
            room
        } else {
            room.min(UNVOUCHED_MAX)
        };
        Gathered {
            entries: Vec::with_capacity(room as usize),
            symmetry: banner.symmetry,
            explicit_zeros: 0,
            first_non_finite: None,
            triangle: None,
        }
    }

    fn add(&mut self, entry: Entry, line: u64) -> Result<(), MarketErrorKind> {
        let Entry { row, column, value } = entry;
        self.explicit_zeros += u64::from(value == 0.0);
        if !value.is_finite() && self.first_non_finite.is_none() {
            self.first_non_finite = Some(NonFinite { line, entry });
        }
        self.entries.push(entry);
        let sign = match self.symmetry {
            Symmetry::General => return Ok(()),
            Symmetry::Symmetric => 1.0,
            Symmetry::SkewSymmetric => -1.0,
        };
        if row == column {
            return match self.symmetry {
                Symmetry::SkewSymmetric => Err(MarketErrorKind::SkewDiagonal { row: row + 1 }),
                _ => Ok(()),
            };
        }
        let (below, first_line) = *self.triangle.get_or_insert((row > column, line));
        if below != (row > column) {
            return Err(MarketErrorKind::BothTriangles {
                first_line,
                symmetry: self.symmetry,
            });
        }
        self.entries.push(Entry {
            row: column,
            column: row,
            value: sign * value,
        });
        if self.entries.len() as u64 > ENTRIES_MAX {
            return Err(MarketErrorKind::TooManyEntries {
                entries: self.entries.len() as u64,
                limit: ENTRIES_MAX,
            });
        }
        Ok(())
    }
}
