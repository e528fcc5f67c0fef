//! Matrix Market text made up for each rule of the reader, and properties that always hold.

#![allow(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too"
)]

use std::path::Path;

use pinfold_apps::matrix::market::{self, Field, Market, NoBanner};
use pinfold_apps::matrix::{
    CsrMatrix, Entry, MarketError, MarketErrorKind as Kind, NotSuitable, read_matrix_market,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn parse(text: &str) -> Result<Market, MarketError> {
    let bytes = text.as_bytes();
    market::read(bytes, Path::new("text.mtx"), Some(bytes.len() as u64))
}

/// A coordinate file with the sizes and entries given.
fn coordinate(kind: &str, rest: &str) -> Result<Market, MarketError> {
    parse(&format!("%%MatrixMarket matrix coordinate {kind}\n{rest}"))
}

fn line_and_kind(read: Result<Market, MarketError>) -> (Option<u64>, Kind) {
    let error = read.unwrap_err();
    (error.line, error.kind)
}

// ---- Made up: what is accepted ----

#[test]
fn values_in_every_usual_spelling_are_read() {
    let text = "8 1 8\n1 1 1.5D+2\n2 1 -2d0\n3 1 .5\n4 1 +3.\n5 1 1E-3\n6 1 -inf\n7 1 0\n8 1 -0.0";
    let market = coordinate("Real GENERAL", text).unwrap();
    let expected = [150.0, -2.0, 0.5, 3.0, 1e-3, f64::NEG_INFINITY, 0.0, 0.0];
    assert_eq!(market.matrix.value, expected);
    assert_eq!(market.explicit_zeros, 2);
    assert_eq!(market.first_non_finite.unwrap().line, 8);
    assert_eq!(
        coordinate("double general", "1 1 1\n1 1 7\n")
            .unwrap()
            .field,
        Field::Real
    );
}

#[test]
fn comments_and_blank_lines_may_stand_anywhere_in_any_encoding() {
    let text = b"\xef\xbb\xbf  %%matrixmarket\tmatrix coordinate real general\r\n% caf\xe9\r\n\r\n\
                 2 2 2\r\n% c\r\n 1 1 1 \r\n\t2 2 2\r\n\r\n% end\r\n";
    let market = market::read(&text[..], Path::new("t"), None).unwrap();
    assert_eq!(market.matrix.value, [1.0, 2.0]);
}

#[test]
fn the_shortest_possible_files_fit_their_own_counts() {
    let pattern = coordinate("pattern general", "1 2 2\n1 1\n1 2").unwrap();
    assert_eq!(pattern.matrix.value, [1.0, 1.0]);
    let real = coordinate("real general", "1 2 2\n1 1 3\n1 2 4").unwrap();
    assert_eq!(real.matrix.value, [3.0, 4.0]);
    let array = parse("%%MatrixMarket matrix array real general\n2 1\n5\n6").unwrap();
    assert_eq!(array.matrix.value, [5.0, 6.0]);
    assert_eq!(
        coordinate("real general", "1 1 0")
            .unwrap()
            .expanded_entries(),
        0
    );
}

#[test]
fn symmetric_files_may_store_either_triangle_but_only_one() {
    let lower = coordinate("real symmetric", "3 3 3\n1 1 4\n3 1 7\n3 2 1\n").unwrap();
    let upper = coordinate("real symmetric", "3 3 3\n1 1 4\n1 3 7\n2 3 1\n").unwrap();
    assert_eq!(lower.matrix, upper.matrix);
    assert_eq!((lower.stored_entries, lower.expanded_entries()), (3, 5));
    let both = coordinate("real symmetric", "3 3 4\n1 1 4\n3 1 7\n2 2 1\n1 3 7\n");
    let (line, kind) = line_and_kind(both);
    assert!(
        matches!(kind, Kind::BothTriangles { first_line: 4, .. }),
        "{kind}"
    );
    assert_eq!(line, Some(6));
}

#[test]
fn skew_symmetric_files_negate_their_mirror_image() {
    let market = coordinate("integer skew-symmetric", "2 2 1\n2 1 5\n").unwrap();
    assert_eq!(
        (market.matrix.get(1, 0), market.matrix.get(0, 1)),
        (Some(5.0), Some(-5.0))
    );
    let array = parse("%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n").unwrap();
    assert_eq!(array.matrix.get(0, 2), Some(-2.0));
    assert_eq!(array.expanded_entries(), 6);
    let (line, kind) = line_and_kind(coordinate("real skew-symmetric", "2 2 1\n2 2 5\n"));
    assert!(matches!(kind, Kind::SkewDiagonal { row: 2 }), "{kind}");
    assert_eq!(line, Some(3));
}

#[test]
fn duplicates_that_overflow_are_found_without_a_line() {
    let market = coordinate("real general", "1 1 2\n1 1 1e308\n1 1 1e308\n").unwrap();
    assert_eq!(market.first_non_finite, None);
    let refused = market.check_for_cg().unwrap_err();
    assert!(
        matches!(refused, NotSuitable::NotFinite { line: None, .. }),
        "{refused}"
    );
}

// ---- Made up: what is refused ----

#[test]
fn files_without_a_banner_are_recognised() {
    let gzip = market::read(&b"\x1f\x8b\x08\x00\n"[..], Path::new("m.mtx.gz"), None);
    let kinds = [
        (parse(""), NoBanner::Empty),
        (gzip, NoBanner::Gzip),
        (parse("\0\u{1}ELF\n"), NoBanner::Binary),
        (parse("% title\n 4 4 2 -1\n"), NoBanner::Triplet),
        (parse("3 3 1\n1 1 1\n"), NoBanner::BareNumbers),
        (parse("3 3\n1\n"), NoBanner::BareNumbers),
        (parse("% only a comment\n"), NoBanner::OtherText),
        (parse("row,column,value\n"), NoBanner::OtherText),
    ];
    for (read, expected) in kinds {
        let error = read.unwrap_err();
        assert!(
            matches!(error.kind, Kind::NoBanner(seems) if seems == expected),
            "{expected:?}: {error}"
        );
    }
}

#[test]
fn banners_are_checked_word_by_word() {
    let banner = |words: &str| line_and_kind(parse(&format!("%%MatrixMarket {words}\n1 1 0\n"))).1;
    assert!(matches!(
        banner("matrix coordinate real"),
        Kind::BannerLength(4)
    ));
    assert!(matches!(
        banner("matrix coordinate real general x"),
        Kind::BannerLength(6)
    ));
    for (words, place) in [
        ("tensor coordinate real general", "object"),
        ("matrix dense real general", "format"),
        ("matrix coordinate float general", "field"),
        ("matrix coordinate real symetric", "symmetry"),
    ] {
        let kind = banner(words);
        assert!(
            matches!(kind, Kind::BannerWord { place: p, .. } if p == place),
            "{kind}"
        );
    }
    for words in [
        "vector coordinate real general",
        "matrix coordinate complex general",
        "matrix coordinate real hermitian",
        "matrix array pattern general",
        "matrix coordinate pattern skew-symmetric",
    ] {
        assert!(matches!(banner(words), Kind::Unsupported { .. }), "{words}");
    }
}

#[test]
fn sizes_are_refused_before_anything_is_held() {
    let general = |rest: &str| line_and_kind(coordinate("real general", rest)).1;
    assert!(matches!(general("% no sizes\n"), Kind::NoSizes));
    assert!(matches!(general("1 1\n"), Kind::Words { found: 2, .. }));
    assert!(matches!(
        general("4294967296 1 0\n"),
        Kind::OutOfRange { .. }
    ));
    assert!(matches!(
        general("1 1 4294967296\n"),
        Kind::OutOfRange { .. }
    ));
    assert!(matches!(general("1 1 1.0\n"), Kind::OutOfRange { .. }));
    assert!(matches!(
        general("9 9 4000000000\n1 1 1\n"),
        Kind::EntriesBeyondFile { .. }
    ));
    assert!(matches!(
        general("4000000000 1 1\n1 1 1\n"),
        Kind::TooEmpty { .. }
    ));
    assert!(matches!(
        general("1 4000000000 1\n1 1 1\n"),
        Kind::TooEmpty { .. }
    ));
    let oblong = line_and_kind(coordinate("real symmetric", "2 3 0\n")).1;
    assert!(matches!(oblong, Kind::NotSquare { .. }), "{oblong}");
    let huge = "%%MatrixMarket matrix array real general\n4000000000 4000000000\n1\n";
    let unbounded = market::read(huge.as_bytes(), Path::new("pipe"), None);
    assert!(matches!(
        line_and_kind(unbounded).1,
        Kind::TooManyEntries { .. }
    ));
    assert!(matches!(
        line_and_kind(parse(huge)).1,
        Kind::EntriesBeyondFile { .. }
    ));
}

#[test]
fn an_unbounded_text_with_a_false_count_ends_with_too_few() {
    let text = b"%%MatrixMarket matrix coordinate real general\n9 9 4000000000\n1 1 1\n";
    let (line, kind) = line_and_kind(market::read(&text[..], Path::new("pipe"), None));
    let few = matches!(
        kind,
        Kind::TooFew {
            found: 1,
            declared: 4_000_000_000,
            size_line: 2
        }
    );
    assert!(few, "{kind}");
    assert_eq!(line, Some(3));
}

#[test]
fn every_entry_line_is_checked() {
    let general = |rest: &str| line_and_kind(coordinate("real general", rest));
    let (line, kind) = general("2 2 1\n1 1\n%           \n");
    assert!(matches!(
        (line, kind),
        (Some(3), Kind::Words { found: 2, .. })
    ));
    let (line, kind) = general("2 2 1\n\n1 1 1 1\n");
    assert!(matches!(
        (line, kind),
        (Some(4), Kind::Words { found: 4, .. })
    ));
    assert!(matches!(
        general("2 2 1\n1 3 1\n").1,
        Kind::OutOfRange { most: 2, .. }
    ));
    assert!(matches!(
        general("2 2 1\n1.0 1 1\n").1,
        Kind::OutOfRange { .. }
    ));
    assert!(matches!(general("2 2 1\n1 1 1,5\n").1, Kind::Value { .. }));
    assert!(matches!(general("2 2 1\n1 1 0x10\n").1, Kind::Value { .. }));
    assert!(matches!(
        general("2 2 1\n1 1 1\n2 2 2\n"),
        (Some(4), Kind::TooMany { .. })
    ));
    let few = general("2 2 2\n1 1 1\n%           \n").1;
    assert!(
        matches!(
            few,
            Kind::TooFew {
                found: 1,
                declared: 2,
                ..
            }
        ),
        "{few}"
    );
    let whole = line_and_kind(coordinate("integer general", "1 1 1\n1 1 1.5\n")).1;
    assert!(
        matches!(
            whole,
            Kind::Value {
                field: Field::Integer,
                ..
            }
        ),
        "{whole}"
    );
    let pattern = line_and_kind(coordinate("pattern general", "1 1 1\n1 1 1\n")).1;
    assert!(matches!(pattern, Kind::Words { found: 3, .. }), "{pattern}");
    let array = line_and_kind(parse(
        "%%MatrixMarket matrix array real general\n2 1\n1 2\n",
    ))
    .1;
    assert!(matches!(array, Kind::Words { found: 2, .. }), "{array}");
}

#[test]
fn endless_lines_and_unreadable_files_are_errors() {
    let mut text = b"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 ".to_vec();
    text.resize(3 << 20, b'7');
    let (line, kind) = line_and_kind(market::read(&text[..], Path::new("t"), None));
    assert!(matches!((line, kind), (Some(3), Kind::LineTooLong)));
    let (line, kind) = line_and_kind(read_matrix_market(Path::new("no such file.mtx")));
    assert!(matches!((line, kind), (None, Kind::Read(_))));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(matches!(
        line_and_kind(read_matrix_market(folder)).1,
        Kind::Read(_)
    ));
}

#[test]
fn errors_show_file_line_fault_and_advice() {
    let told = coordinate("real general", "2 2 1\n1 3 1\n")
        .unwrap_err()
        .to_string();
    assert_eq!(
        told,
        "text.mtx:3: the column index '3' is no whole number from 1 to 2; indices count from 1, \
         up to the sizes declared"
    );
    let long = coordinate(
        "real general",
        &format!("1 1 1\n1 1 {}\n", "\u{7}".repeat(500)),
    );
    let told = long.unwrap_err().to_string();
    assert!(told.len() < 300 && told.contains("\\x07..."), "{told}");
}

// ---- The writer ----

fn written(rows: u32, columns: u32, entries: &[(u32, u32, f64)]) -> String {
    let entry = |&(row, column, value): &(u32, u32, f64)| Entry { row, column, value };
    let entries: Vec<Entry> = entries.iter().map(entry).collect();
    let matrix = CsrMatrix::from_entries(rows, columns, &entries).unwrap();
    let mut text = Vec::new();
    market::write(&mut text, &matrix, "two\nlines").unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn the_writer_stores_one_triangle_of_what_is_exactly_symmetric() {
    let lower = [
        (0, 0, 4.0),
        (0, 1, -0.5),
        (1, 0, -0.5),
        (2, 1, 1e300),
        (1, 2, 1e300),
    ];
    assert_eq!(
        written(3, 3, &lower),
        "%%MatrixMarket matrix coordinate real symmetric\n% two\n% lines\n3 3 3\n1 1 4.0\n\
         2 1 -0.5\n3 2 1e300\n"
    );
    assert_eq!(
        written(2, 2, &[(0, 0, 1.0), (0, 1, 0.0)]),
        "%%MatrixMarket matrix coordinate real general\n% two\n% lines\n2 2 2\n1 1 1.0\n1 2 0.0\n",
        "a zero stored on one side only must stay there"
    );
    assert!(written(2, 3, &[]).contains("general"));
}

// ---- Properties ----

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => any::<f64>().prop_filter("NaN is tested apart", |v| !v.is_nan()),
        1 => Just(0.0),
        1 => Just(-0.0),
        1 => Just(f64::INFINITY),
    ]
}

fn any_matrix() -> impl Strategy<Value = CsrMatrix> {
    let entry =
        |rows: u32, columns: u32| {
            (0..rows.max(1), 0..columns.max(1), any_value())
                .prop_map(|(row, column, value)| Entry { row, column, value })
        };
    (0..12_u32, 0..12_u32, any::<bool>()).prop_flat_map(move |(rows, columns, mirror)| {
        let columns = if mirror { rows } else { columns };
        let most = if rows == 0 || columns == 0 { 0 } else { 40 };
        let entries = proptest::collection::vec(entry(rows, columns), 0..=most);
        entries.prop_map(move |mut entries| {
            // Each place once: sums of infinities would make NaN.
            let place = |e: &Entry| {
                if mirror && e.row < e.column {
                    (e.column, e.row)
                } else {
                    (e.row, e.column)
                }
            };
            entries.sort_by_key(place);
            entries.dedup_by_key(|e| place(e));
            if mirror {
                let images: Vec<Entry> = entries
                    .iter()
                    .filter(|e| e.row != e.column)
                    .map(|e| Entry {
                        row: e.column,
                        column: e.row,
                        ..*e
                    })
                    .collect();
                entries.extend(images);
            }
            CsrMatrix::from_entries(rows, columns, &entries).unwrap()
        })
    })
}

/// Lines that are nearly right, so that random text gets past the banner.
fn near_miss() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("1".to_owned()),
        Just("2".to_owned()),
        Just("\n".to_owned()),
        Just("%".to_owned()),
        Just("-1".to_owned()),
        Just("99999999999".to_owned()),
        "[0-9a-zA-Z.+\\-]{0,6}",
        "\\PC{0,3}",
    ];
    let layout = prop_oneof![Just("coordinate"), Just("array")];
    let field = prop_oneof![Just("real"), Just("integer"), Just("pattern")];
    let symmetry = prop_oneof![Just("general"), Just("symmetric"), Just("skew-symmetric")];
    (
        layout,
        field,
        symmetry,
        proptest::collection::vec(word, 0..30),
    )
        .prop_map(|(layout, field, symmetry, words)| {
            format!(
                "%%MatrixMarket matrix {layout} {field} {symmetry}\n{}",
                words.join(" ")
            )
        })
}

fn bits(matrix: &CsrMatrix) -> Vec<u64> {
    matrix.value.iter().map(|value| value.to_bits()).collect()
}

/// The same cases every time, and no file of failures.
fn repeatable() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_201),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(repeatable())]

    #[test]
    fn what_is_written_reads_back_bit_for_bit(matrix in any_matrix()) {
        let mut text = Vec::new();
        market::write(&mut text, &matrix, "two\nlines").unwrap();
        let read = market::read(&text[..], Path::new("t"), Some(text.len() as u64)).unwrap();
        prop_assert_eq!(bits(&read.matrix), bits(&matrix));
        prop_assert_eq!(read.matrix, matrix);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = market::read(&bytes[..], Path::new("t"), Some(bytes.len() as u64));
        let banner = b"%%MatrixMarket matrix coordinate real general\n";
        let text = [&banner[..], &bytes].concat();
        let _ = market::read(&text[..], Path::new("t"), None);
    }

    #[test]
    fn nearly_right_texts_never_panic_and_errors_name_a_line_of_the_text(text in near_miss()) {
        let lines = text.lines().count() as u64;
        for length in [None, Some(text.len() as u64)] {
            if let Err(error) = market::read(text.as_bytes(), Path::new("t"), length) {
                prop_assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
            }
        }
    }
}
