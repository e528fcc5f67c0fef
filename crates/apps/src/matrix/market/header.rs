//! The head of a Matrix Market file: its banner and its sizes, checked before anything is held.
//!
//! Format: R. F. Boisvert, R. Pozo, K. A. Remington, *The Matrix Market Exchange Formats:
//! Initial Design*, NISTIR 5935, 1996.

use std::fmt;
use std::io::BufRead;

use super::error::{MarketErrorKind, NoBanner};
use super::lines::{Lines, Words};
use super::{Fault, shown};
use crate::matrix::csr::ENTRIES_MAX;

/// How entries are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Row, column and value of each entry.
    Coordinate,
    /// Every value, column by column.
    Array,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// A real number; some files say `double`.
    Real,
    /// A whole number. Beyond 2^53 it is rounded to the nearest `f64`.
    Integer,
    /// No value is stored; every entry is 1.
    Pattern,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Field::Real => "real",
            Field::Integer => "integer",
            Field::Pattern => "pattern",
        })
    }
}

/// Which entries the stored ones imply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symmetry {
    /// None.
    General,
    /// The mirror image of each.
    Symmetric,
    /// The negated mirror image of each; the diagonal is zero and not stored.
    SkewSymmetric,
}

impl fmt::Display for Symmetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Symmetry::General => "general",
            Symmetry::Symmetric => "symmetric",
            Symmetry::SkewSymmetric => "skew-symmetric",
        })
    }
}

/// The most values of a file in array format, 2^26: they take 512 MiB before they are sorted in.
pub const ARRAY_ENTRIES_MAX: u64 = 1 << 26;

/// Up to this many rows or columns a matrix may be as empty as it likes.
pub(super) const FREE_SIDE: u32 = 1 << 24;

/// Above [`FREE_SIDE`] one row or column in this many must hold an entry, so that a file of a few
/// bytes cannot ask for gigabytes of row starts.
pub(super) const SIDE_PER_ENTRY_MAX: u64 = 16;

/// What the banner says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Banner {
    pub(super) format: Format,
    pub(super) field: Field,
    pub(super) symmetry: Symmetry,
}

/// What the size line says, or implies for the array format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) rows: u32,
    pub(super) columns: u32,
    /// Entries that the file stores.
    pub(super) entries: u64,
    /// The line they stand on.
    pub(super) line: u64,
}

/// Reads the first line; without a banner, looks further to say what the file seems to be.
pub(super) fn read_banner<R: BufRead>(lines: &mut Lines<R>) -> Result<Banner, Fault> {
    if !lines.advance()? {
        return Err(Fault::of_file(MarketErrorKind::NoBanner(NoBanner::Empty)));
    }
    let line = lines.bytes();
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let separated = line.split(u8::is_ascii_whitespace);
    let words: Vec<&[u8]> = separated.filter(|word| !word.is_empty()).take(6).collect();
    let marked = words
        .first()
        .is_some_and(|word| word.eq_ignore_ascii_case(b"%%MatrixMarket"));
    if !marked {
        let seems = match first_impression(line) {
            Some(seems) => seems,
            None => look_for_numbers(lines)?,
        };
        return Err(Fault::at(1, MarketErrorKind::NoBanner(seems)));
    }
    let &[_, object, format, field, symmetry] = words.as_slice() else {
        return Err(Fault::at(1, MarketErrorKind::BannerLength(words.len())));
    };
    parse_banner(object, format, field, symmetry).map_err(|kind| Fault::at(1, kind))
}

fn first_impression(line: &[u8]) -> Option<NoBanner> {
    if line.starts_with(&[0x1f, 0x8b]) {
        return Some(NoBanner::Gzip);
    }
    let binary = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
    line.iter().any(binary).then_some(NoBanner::Binary)
}

/// Tells from the first line that is no comment what a file without a banner may be.
fn look_for_numbers<R: BufRead>(lines: &mut Lines<R>) -> Result<NoBanner, Fault> {
    let first = lines.bytes().trim_ascii_start();
    let skip = first.is_empty() || first[0] == b'%';
    if skip && !lines.advance_to_content()? {
        return Ok(NoBanner::OtherText);
    }
    let words = lines.words();
    let whole = |word: &[u8]| text(word).is_some_and(|word| word.parse::<i64>().is_ok());
    let sizes = |words: &[&[u8]]| words.iter().all(|word| whole(word));
    Ok(match words.count() {
        4 if words.exactly::<4>().is_some_and(|w| sizes(&w)) => NoBanner::Triplet,
        3 if words.exactly::<3>().is_some_and(|w| sizes(&w)) => NoBanner::BareNumbers,
        2 if words.exactly::<2>().is_some_and(|w| sizes(&w)) => NoBanner::BareNumbers,
        _ => NoBanner::OtherText,
    })
}

fn parse_banner(
    object: &[u8],
    format: &[u8],
    field: &[u8],
    symmetry: &[u8],
) -> Result<Banner, MarketErrorKind> {
    check_object(object)?;
    let banner = Banner {
        format: parse_format(format)?,
        field: parse_field(field)?,
        symmetry: parse_symmetry(symmetry)?,
    };
    if banner.field == Field::Pattern && banner.format == Format::Array {
        return Err(MarketErrorKind::Unsupported {
            what: "a pattern in array format (it would hold nothing)",
            advice: "write 'coordinate' or another field in the banner",
        });
    }
    if banner.field == Field::Pattern && banner.symmetry == Symmetry::SkewSymmetric {
        return Err(MarketErrorKind::Unsupported {
            what: "a skew-symmetric pattern (it has no signs)",
            advice: "write 'symmetric' or 'general' in the banner",
        });
    }
    Ok(banner)
}

fn check_object(word: &[u8]) -> Result<(), MarketErrorKind> {
    match word.to_ascii_lowercase().as_slice() {
        b"matrix" => Ok(()),
        b"vector" => Err(MarketErrorKind::Unsupported {
            what: "a vector object (an extension of the format)",
            advice: "write it as a matrix of one column",
        }),
        _ => Err(unknown("object", word, "'matrix'")),
    }
}

fn parse_format(word: &[u8]) -> Result<Format, MarketErrorKind> {
    match word.to_ascii_lowercase().as_slice() {
        b"coordinate" => Ok(Format::Coordinate),
        b"array" => Ok(Format::Array),
        _ => Err(unknown("format", word, "'coordinate' or 'array'")),
    }
}

fn parse_field(word: &[u8]) -> Result<Field, MarketErrorKind> {
    match word.to_ascii_lowercase().as_slice() {
        b"real" | b"double" => Ok(Field::Real),
        b"integer" => Ok(Field::Integer),
        b"pattern" => Ok(Field::Pattern),
        b"complex" => Err(MarketErrorKind::Unsupported {
            what: "a complex matrix",
            advice: "give a real one, or write A + iB as the real matrix [A -B; B A]",
        }),
        _ => Err(unknown("field", word, "'real', 'integer' or 'pattern'")),
    }
}

fn parse_symmetry(word: &[u8]) -> Result<Symmetry, MarketErrorKind> {
    match word.to_ascii_lowercase().as_slice() {
        b"general" => Ok(Symmetry::General),
        b"symmetric" => Ok(Symmetry::Symmetric),
        b"skew-symmetric" => Ok(Symmetry::SkewSymmetric),
        b"hermitian" => Err(MarketErrorKind::Unsupported {
            what: "a Hermitian matrix",
            advice: "a real one is 'symmetric'; a complex one A + iB is the real [A -B; B A]",
        }),
        _ => {
            let allowed = "'general', 'symmetric' or 'skew-symmetric'";
            Err(unknown("symmetry", word, allowed))
        }
    }
}

fn unknown(place: &'static str, word: &[u8], allowed: &'static str) -> MarketErrorKind {
    MarketErrorKind::BannerWord {
        place,
        found: shown(word),
        allowed,
    }
}

/// Reads the size line and refuses what cannot be, before anything is allocated for it.
/// `length_bytes` is the length of the whole text, where it is known.
pub(super) fn read_sizes<R: BufRead>(
    lines: &mut Lines<R>,
    banner: Banner,
    length_bytes: Option<u64>,
) -> Result<Sizes, Fault> {
    if !lines.advance_to_content()? {
        return Err(Fault::of_file(MarketErrorKind::NoSizes));
    }
    let line = lines.number();
    let left_bytes = length_bytes.map(|length| length.saturating_sub(lines.consumed_bytes()));
    let words = lines.words();
    let sizes = match banner.format {
        Format::Coordinate => parse_coordinate_sizes(&words),
        Format::Array => parse_array_sizes(&words, banner.symmetry),
    };
    let checked = sizes.and_then(|(rows, columns, entries)| {
        let sizes = Sizes {
            rows,
            columns,
            entries,
            line,
        };
        check_sizes(sizes, banner, left_bytes).map(|()| sizes)
    });
    checked.map_err(|kind| Fault::at(line, kind))
}

fn parse_coordinate_sizes(words: &Words<'_>) -> Result<(u32, u32, u64), MarketErrorKind> {
    let Some([rows, columns, entries]) = words.exactly() else {
        return Err(MarketErrorKind::Words {
            wanted: "the numbers of rows, columns and entries",
            found: words.count(),
        });
    };
    let (rows, columns) = (
        side("number of rows", rows)?,
        side("number of columns", columns)?,
    );
    let advice = "correct the size line";
    let entries = whole("number of entries", entries, 0, ENTRIES_MAX, advice)?;
    Ok((rows, columns, entries))
}

fn parse_array_sizes(
    words: &Words<'_>,
    symmetry: Symmetry,
) -> Result<(u32, u32, u64), MarketErrorKind> {
    let Some([rows, columns]) = words.exactly() else {
        return Err(MarketErrorKind::Words {
            wanted: "the numbers of rows and columns",
            found: words.count(),
        });
    };
    let (rows, columns) = (
        side("number of rows", rows)?,
        side("number of columns", columns)?,
    );
    let all = u64::from(rows) * u64::from(columns);
    // One triangle, with or without the diagonal. That the matrix is square is checked later.
    let entries = match symmetry {
        Symmetry::General => all,
        Symmetry::Symmetric => (all + u64::from(rows)) / 2,
        Symmetry::SkewSymmetric => (all - u64::from(rows.min(columns))) / 2,
    };
    Ok((rows, columns, entries))
}

fn check_sizes(
    sizes: Sizes,
    banner: Banner,
    left_bytes: Option<u64>,
) -> Result<(), MarketErrorKind> {
    let Sizes {
        rows,
        columns,
        entries,
        ..
    } = sizes;
    if banner.symmetry != Symmetry::General && rows != columns {
        return Err(MarketErrorKind::NotSquare {
            rows,
            columns,
            symmetry: banner.symmetry,
        });
    }
    // The shortest lines are "1 1", "1 1 1" and "1", each with a line end but the last.
    let least_bytes = match (banner.format, banner.field) {
        (Format::Array, _) => 2,
        (Format::Coordinate, Field::Pattern) => 4,
        (Format::Coordinate, _) => 6,
    };
    if let Some(left_bytes) = left_bytes
        && entries > (left_bytes + 1) / least_bytes
    {
        return Err(MarketErrorKind::EntriesBeyondFile {
            entries,
            left_bytes,
        });
    }
    if banner.format == Format::Array && entries > ARRAY_ENTRIES_MAX {
        return Err(MarketErrorKind::TooManyEntries {
            entries,
            limit: ARRAY_ENTRIES_MAX,
        });
    }
    let side = rows.max(columns);
    if side > FREE_SIDE && entries < u64::from(side) / SIDE_PER_ENTRY_MAX {
        return Err(MarketErrorKind::TooEmpty {
            rows,
            columns,
            entries,
            free: FREE_SIDE,
            share: SIDE_PER_ENTRY_MAX,
        });
    }
    Ok(())
}

fn side(what: &'static str, word: &[u8]) -> Result<u32, MarketErrorKind> {
    let most = u64::from(u32::MAX);
    // No more than u32::MAX, as asked.
    whole(what, word, 0, most, "correct the size line").map(|count| count as u32)
}

/// A whole number in a range.
pub(super) fn whole(
    what: &'static str,
    word: &[u8],
    least: u64,
    most: u64,
    advice: &'static str,
) -> Result<u64, MarketErrorKind> {
    let parsed = text(word).and_then(|word| word.parse::<u64>().ok());
    match parsed {
        Some(value) if (least..=most).contains(&value) => Ok(value),
        _ => Err(MarketErrorKind::OutOfRange {
            what,
            text: shown(word),
            least,
            most,
            advice,
        }),
    }
}

/// A word as text, where it is UTF-8.
pub(super) fn text(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}
