//! Real matrix files, the shipped one among them, and the reference solver on them.
//!
//! Most stand beside the repository; where they are absent, their tests say so and pass.
//! Iteration counts and sums were made with SciPy.

#![allow(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too"
)]

use std::path::{Path, PathBuf};

use pinfold_apps::matrix::generate::Plate;
use pinfold_apps::matrix::market::{Field, Format, Market, Symmetry};
use pinfold_apps::matrix::reference::{
    StopRule, relative_residual, right_hand_side_of_ones, solve,
};
use pinfold_apps::matrix::{CsrMatrix, NotSuitable, read_matrix_market};

/// A file of the sparse inputs, where they are there.
fn input(name: &str) -> Option<PathBuf> {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/inputs/sparse");
    let path = inputs.join(name);
    if !path.exists() {
        println!("skipped: {name} is not beside the repository");
        return None;
    }
    Some(path)
}

fn sum(matrix: &CsrMatrix) -> f64 {
    matrix.value.iter().sum()
}

// ---- Real files: positive definite ----

/// Reads a file, checks its counts, solves, and checks iterations (±2 %) and residual.
fn check_solve(name: &str, n: u32, nnz: u64, iterations: u32) {
    let Some(path) = input(name) else { return };
    let market = read_matrix_market(&path).unwrap();
    let matrix = &market.matrix;
    assert_eq!((matrix.rows, matrix.columns), (n, n), "{name}");
    assert_eq!(market.expanded_entries(), nnz, "{name}");
    assert_eq!(market.symmetry, Symmetry::Symmetric, "{name}");
    assert_eq!(market.check_for_cg(), Ok(()), "{name}");
    let b = right_hand_side_of_ones(matrix);
    let solution = solve(matrix, &b, StopRule::default()).unwrap();
    println!("{name}: {} iterations", solution.iterations);
    let allowed = (f64::from(iterations) * 0.02).floor() as u32;
    assert!(
        solution.iterations.abs_diff(iterations) <= allowed,
        "{name}: {solution:?}"
    );
    assert!(solution.relative_residual <= 1e-8, "{name}");
    assert!(relative_residual(matrix, &solution.x, &b) <= 2e-8, "{name}");
}

#[test]
fn small_stiffness_and_power_grids_solve_as_known() {
    check_solve("spd/LFAT5.mtx", 14, 46, 7);
    check_solve("spd/494_bus.mtx", 494, 1666, 393);
    check_solve("spd/1138_bus.mtx", 1138, 4054, 935);
}

#[test]
fn grids_solve_as_known() {
    check_solve("spd/ginkgo_multigrid_A.mtx", 675, 3255, 84);
    check_solve("spd/gr_900_900_crg.mtx", 900, 7744, 41);
    check_solve("spd/lap2D_5pt_n100.mtx", 10_000, 49_600, 183);
    check_solve("spd/lap3D_7pt_n20.mtx", 8_000, 53_600, 51);
}

#[test]
fn an_ill_conditioned_matrix_reaches_its_residual() {
    check_solve("spd/bcsstk13.mtx", 2003, 83_883, 1358);
}

#[test]
fn an_integer_matrix_solves_and_its_vector_reads() {
    check_solve("spd/ginkgo_simple_A.mtx", 19, 147, 9);
    let Some(path) = input("spd/ginkgo_simple_A.mtx") else {
        return;
    };
    assert_eq!(read_matrix_market(&path).unwrap().field, Field::Integer);
    let b = read_matrix_market(&path.with_file_name("ginkgo_simple_b.mtx")).unwrap();
    assert_eq!(
        (b.format, b.matrix.rows, b.matrix.columns),
        (Format::Array, 19, 1)
    );
    assert_eq!(b.expanded_entries(), 19);
}

// ---- Real files: tricky ----

/// Reads a tricky file and compares sizes, entries that stand in it, and entries of the matrix.
fn check_read(name: &str, sizes: (u32, u32), stored: u64, expanded: u64) -> Option<Market> {
    let market = read_matrix_market(&input(&format!("tricky/{name}.mtx"))?).unwrap();
    assert_eq!((market.matrix.rows, market.matrix.columns), sizes, "{name}");
    assert_eq!(market.stored_entries, stored, "{name}");
    assert_eq!(market.expanded_entries(), expanded, "{name}");
    Some(market)
}

#[test]
fn tricky_files_read_as_scipy_reads_them() {
    if let Some(west) = check_read("west0479", (479, 479), 1910, 1910) {
        assert_eq!(west.explicit_zeros, 22);
        let refused = west.check_for_cg().unwrap_err();
        assert!(
            matches!(refused, NotSuitable::NotSymmetric { .. }),
            "{refused}"
        );
    }
    if let Some(share) = check_read("lp_share1b", (117, 253), 1179, 1179) {
        let refused = share.check_for_cg().unwrap_err();
        assert!(
            matches!(refused, NotSuitable::NotSquare { .. }),
            "{refused}"
        );
    }
    if let Some(karate) = check_read("karate", (34, 34), 78, 156) {
        assert_eq!((karate.field, sum(&karate.matrix)), (Field::Pattern, 156.0));
        assert_eq!(
            karate.check_for_cg(),
            Err(NotSuitable::NoDiagonal { row: 1 })
        );
    }
    if let Some(dense) = check_read("array_symmetric", (3, 3), 6, 9) {
        assert_eq!(sum(&dense.matrix), 204.0);
        let general = check_read("array_symmetric_general", (3, 3), 9, 9).unwrap();
        assert_eq!(dense.matrix, general.matrix);
    }
    if let Some(int64) = check_read("matrix_int64", (7, 7), 12, 12) {
        assert_eq!(
            int64.matrix.get(0, 1),
            Some(9_223_372_036_854_775_807_i64 as f64)
        );
        assert_eq!(int64.explicit_zeros, 1);
    }
    check_read("../../gather/bcspwr10", (5300, 5300), 13_571, 21_842);
    check_read("../../gather/Pd", (8081, 8081), 13_036, 13_036);
    check_read("empty", (3, 4), 0, 0);
    check_read("3by0", (3, 0), 0, 0);
    check_read("full_symmetric", (4, 4), 10, 16);
    check_read("matrix_bool", (7, 7), 12, 12);
    check_read("structure", (7, 7), 12, 12);
    check_read("eye3_pattern", (3, 3), 3, 3);
    check_read("permissive_lines_indented", (1, 1), 1, 1);
    check_read("coordinate_symmetric_row_general_dup", (3, 3), 6, 5);
}

#[test]
fn the_same_matrix_in_windows_dress_is_equal() {
    let name = "windows_lineendings_nist_ex1_more_freeformat";
    let Some(windows) = check_read(name, (5, 5), 8, 8) else {
        return;
    };
    let plain = check_read("nist_ex1", (5, 5), 8, 8).unwrap();
    assert_eq!(windows.matrix, plain.matrix);
    assert!((sum(&plain.matrix) - 33.335).abs() < 1e-12);
}

#[test]
fn an_indefinite_pattern_is_refused_by_an_entry() {
    let Some(jag) = check_read("jagmesh7", (1138, 1138), 4294, 7450) else {
        return;
    };
    let error = jag.check_for_cg().unwrap_err();
    assert!(
        matches!(error, NotSuitable::NotDefinite { value: 1.0, .. }),
        "{error}"
    );
}

#[test]
fn values_that_are_not_finite_are_read_and_named_with_their_line() {
    if let Some(west) = check_read("comments_west0067", (67, 67), 295, 295) {
        let first = west.first_non_finite.unwrap();
        assert!(first.entry.value.is_nan());
        assert_eq!(first.line, 6);
        let told = west.check_for_cg().unwrap_err().to_string();
        assert!(
            told.contains("entry (1, 1)") && told.contains("line 6"),
            "{told}"
        );
    }
    if let Some(huge) = check_read("overflow_value_gt_float64", (3, 3), 1, 1) {
        assert_eq!(huge.matrix.value, [f64::INFINITY]);
        assert!(
            huge.check_finite()
                .unwrap_err()
                .to_string()
                .contains("line 4")
        );
    }
}

#[test]
fn files_of_another_kind_are_refused_with_advice() {
    for (name, line, word) in [
        ("spd/bcsstk01.tri", 1, "CHOLMOD"),
        ("tricky/young1c.mtx", 1, "complex"),
        ("tricky/cha_hermitian.mtx", 1, "complex"),
        ("tricky/vector_coordinate_dupes.mtx", 1, "one column"),
        ("tricky/full_noheader.mtx", 1, "put the banner first"),
        ("tricky/west0067_noheader.mtx", 1, "put the banner first"),
    ] {
        check_refusal(name, line, word);
    }
}

#[test]
fn invalid_files_are_refused_with_file_and_line() {
    for (name, line, word) in [
        ("invalid_bad_banner", 1, "%%MatrixMarket"),
        ("invalid_bad_value", 3, "'not_a_double' is no real number"),
        ("invalid_dimensions_out_of_range_1", 3, "rows '-3'"),
        ("invalid_indices_out_of_range_1", 5, "row index '5000'"),
        ("invalid_indices_out_of_range_3", 5, "row index '0'"),
        ("invalid_matrix_coord_too_long", 7, "last of 3 entries"),
        ("invalid_truncated_line_1", 2, "12 entries cannot stand"),
        ("invalid_truncated_lines", 2, "12 entries cannot stand"),
        ("mangle1", 1, "'junk' is no object"),
        ("mangle2", 1, "'junk' is no format"),
        ("mangle3", 1, "'junk' is no field"),
        ("mangle4", 1, "'junk' is no symmetry"),
        ("overflow_index_gt_int64", 6, "'19223372036854775808'"),
    ] {
        check_refusal(&format!("invalid/{name}.mtx"), line, word);
    }
}

fn check_refusal(name: &str, line: u64, word: &str) {
    let Some(path) = input(name) else { return };
    let told = read_matrix_market(&path).unwrap_err().to_string();
    assert!(
        told.starts_with(&format!("{}:{line}: ", path.display())),
        "{told}"
    );
    assert!(told.contains(word), "{name}: {told}");
}

// ---- The shipped matrix ----

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/plate.mtx")
}

#[test]
fn the_shipped_plate_is_what_the_generator_writes() {
    let mut made = Vec::new();
    Plate::SHIPPED.write(&mut made).unwrap();
    assert!(made.len() < 150_000, "{} bytes", made.len());
    let shipped = std::fs::read(shipped()).unwrap();
    assert!(
        made == shipped,
        "the generator changed; rewrite the file as its comment says"
    );
}

#[test]
fn the_shipped_plate_reads_and_solves() {
    let market = read_matrix_market(&shipped()).unwrap();
    assert_eq!(market.matrix, Plate::SHIPPED.matrix().unwrap());
    assert_eq!(
        (market.matrix.rows, market.symmetry),
        (1200, Symmetry::Symmetric)
    );
    let b = right_hand_side_of_ones(&market.matrix);
    let solution = solve(&market.matrix, &b, StopRule::default()).unwrap();
    assert!(relative_residual(&market.matrix, &solution.x, &b) <= 2e-8);
    let furthest = solution
        .x
        .iter()
        .map(|x| (x - 1.0).abs())
        .fold(0.0, f64::max);
    assert!(furthest < 1e-5, "{furthest}");
}

#[test]
#[ignore = "rewrites data/plate.mtx"]
fn rewrite_the_shipped_plate() {
    let mut file = std::io::BufWriter::new(std::fs::File::create(shipped()).unwrap());
    Plate::SHIPPED.write(&mut file).unwrap();
}
