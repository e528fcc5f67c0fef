//! What can be wrong with a Matrix Market file: where, what, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::header::{Field, Symmetry};
use super::lines::LINE_BYTES_MAX;
use crate::matrix::csr::CsrError;

/// A file that could not be read as a matrix. Shown as `FILE:LINE: what is wrong; what to do`.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {kind}", .path.display(), Line(.line))]
pub struct MarketError {
    /// The file, or the name given for the text.
    pub path: PathBuf,
    /// The line, from 1, where one is to blame.
    pub line: Option<u64>,
    /// What is wrong.
    pub kind: MarketErrorKind,
}

struct Line<'a>(&'a Option<u64>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(line) => write!(f, ":{line}"),
            None => Ok(()),
        }
    }
}

/// What is wrong with a Matrix Market file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MarketErrorKind {
    /// The file cannot be opened or read.
    #[error("the file cannot be read ({}); check its path and permissions", in_words(.0))]
    Read(io::Error),
    /// A line without an end.
    #[error(
        "the line is longer than {LINE_BYTES_MAX} bytes, so this is no Matrix Market text; give \
         a .mtx file"
    )]
    LineTooLong,
    /// The file does not begin with a banner.
    #[error("the file does not begin with '%%MatrixMarket': {0}")]
    NoBanner(NoBanner),
    /// The banner has too few or too many words.
    #[error(
        "the banner has {0} words instead of 5; write '%%MatrixMarket matrix coordinate real \
         general' or what fits the data"
    )]
    BannerLength(usize),
    /// A word of the banner is none of the format's.
    #[error("'{found}' is no {place} of the format; write {allowed}")]
    BannerWord {
        /// Which word: object, format, field or symmetry.
        place: &'static str,
        /// The word.
        found: String,
        /// What may stand there.
        allowed: &'static str,
    },
    /// The format allows it, but this reader does not take it.
    #[error("{what} cannot be read here; {advice}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// What to do instead.
        advice: &'static str,
    },
    /// The file ends before its size line.
    #[error("the file ends before the line with its sizes; add it, or fetch the file again")]
    NoSizes,
    /// A line has too few or too many words.
    #[error("the line has {found} {}, but {wanted} must stand here; correct the line",
        if *.found == 1 { "word" } else { "words" })]
    Words {
        /// What the line must hold.
        wanted: &'static str,
        /// Words found.
        found: usize,
    },
    /// A count or an index is no whole number in range.
    #[error("the {what} '{text}' is no whole number from {least} to {most}; {advice}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// The text that stands there.
        text: String,
        /// The least that may stand there.
        least: u64,
        /// The most that may stand there.
        most: u64,
        /// What to do.
        advice: &'static str,
    },
    /// A value is no number of the file's field.
    #[error("'{text}' is no {field} number; correct the value or the field in the banner")]
    Value {
        /// The text that stands there.
        text: String,
        /// The field that the banner names.
        field: Field,
    },
    /// A symmetric matrix must be square.
    #[error("a {symmetry} matrix cannot be {rows} x {columns}; correct the sizes or the banner")]
    NotSquare {
        /// Rows of the matrix.
        rows: u32,
        /// Columns of the matrix.
        columns: u32,
        /// The symmetry that the banner names.
        symmetry: Symmetry,
    },
    /// A skew-symmetric matrix has zeros on the diagonal, and the format does not store them.
    #[error("row {row} of a skew-symmetric matrix stores a diagonal entry; remove the line")]
    SkewDiagonal {
        /// Row, from 1.
        row: u32,
    },
    /// Entries on both sides of the diagonal, where one side implies the other.
    #[error(
        "the entry lies on the other side of the diagonal than that of line {first_line}, but a \
         {symmetry} file stores one triangle; if it stores both, write 'general' in the banner"
    )]
    BothTriangles {
        /// The line of the first entry off the diagonal.
        first_line: u64,
        /// The symmetry that the banner names.
        symmetry: Symmetry,
    },
    /// More entries than the rest of the file has room for.
    #[error(
        "{entries} entries cannot stand in the {left_bytes} bytes that follow; correct the \
         sizes, or fetch the file again"
    )]
    EntriesBeyondFile {
        /// Entries declared.
        entries: u64,
        /// Bytes after the size line.
        left_bytes: u64,
    },
    /// More entries than are read at all.
    #[error("{entries} entries are too many: at most {limit} are read; split the matrix")]
    TooManyEntries {
        /// Entries declared, or gathered with their mirror images.
        entries: u64,
        /// The limit.
        limit: u64,
    },
    /// Huge sides with hardly an entry would only eat memory.
    #[error(
        "{rows} x {columns} is too large for {entries} entries: above {free} rows or columns at \
         least one in {share} must hold an entry; correct the sizes or renumber the rows"
    )]
    TooEmpty {
        /// Rows declared.
        rows: u32,
        /// Columns declared.
        columns: u32,
        /// Entries declared.
        entries: u64,
        /// Up to this size nothing is asked.
        free: u32,
        /// The share of rows that must hold an entry.
        share: u64,
    },
    /// Fewer entries than declared.
    #[error(
        "the file ends after {found} of {declared} entries; fetch it again, or correct line \
         {size_line}"
    )]
    TooFew {
        /// Entries found.
        found: u64,
        /// Entries declared.
        declared: u64,
        /// The line that declares them.
        size_line: u64,
    },
    /// More entries than declared.
    #[error("text follows the last of {declared} entries; remove it, or correct line {size_line}")]
    TooMany {
        /// Entries declared.
        declared: u64,
        /// The line that declares them.
        size_line: u64,
    },
    /// The entries do not make a matrix.
    #[error(transparent)]
    Csr(#[from] CsrError),
}

/// What a file without a banner seems to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoBanner {
    /// Nothing in it.
    Empty,
    /// A gzip stream.
    Gzip,
    /// Bytes that no text holds.
    Binary,
    /// Four whole numbers as sizes: CHOLMOD's triplet form.
    Triplet,
    /// Two or three numbers as sizes: a Matrix Market file that lost its banner, or a plain list.
    BareNumbers,
    /// Some other text.
    OtherText,
}

impl fmt::Display for NoBanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoBanner::Empty => "it is empty; fetch it again",
            NoBanner::Gzip => "it is compressed; unpack it with gunzip first",
            NoBanner::Binary => "it is binary; give a .mtx text file",
            NoBanner::Triplet => {
                "it looks like CHOLMOD's triplet form (.tri); write it again with \
                 cholmod_write_sparse, or put '%%MatrixMarket matrix coordinate real symmetric' \
                 first and leave only rows, columns and entries on the size line"
            }
            NoBanner::BareNumbers => {
                "it seems to hold sizes and entries without it; put the banner first, such as \
                 '%%MatrixMarket matrix coordinate real general', or 'array' for a dense matrix"
            }
            NoBanner::OtherText => "it is some other text; give a .mtx file",
        })
    }
}

/// What the system says, without its number.
fn in_words(error: &io::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.find(" (os error ").unwrap_or(text.len()));
    text
}
