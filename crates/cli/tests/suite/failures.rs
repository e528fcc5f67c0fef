//! What goes wrong is said on standard error, with an exit code to tell whose fault it is.

use crate::common::{Folder, PLATE, output, pinfold, stderr};
use std::fs;
use std::process::Output;

const SYMMETRIC: &str = "%%MatrixMarket matrix coordinate real symmetric\n";
const GENERAL: &str = "%%MatrixMarket matrix coordinate real general\n";

/// Nothing on standard output, the code, and one line that begins with `error:`, which it returns.
fn failed(output: &Output, code: i32) -> String {
    let stderr = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(output.stdout.is_empty(), "{stderr}");
    let errors: Vec<&str> = stderr
        .lines()
        .filter(|l| l.starts_with("error: "))
        .collect();
    assert_eq!(errors.len(), 1, "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    errors[0].to_owned()
}

/// Solves what is in a file, which has to fail with one line in all.
fn solve(folder: &Folder, contents: &[u8]) -> String {
    let file = folder.file("m.mtx");
    fs::write(&file, contents).unwrap();
    let output = output(&["run", "solve", &file]);
    let line = failed(&output, 1);
    assert_eq!(stderr(&output).lines().count(), 1);
    line.replace(&file, "m.mtx")
}

#[test]
fn files_that_are_no_matrix_to_solve_are_named_with_line_and_remedy() {
    let folder = Folder::new("matrices");
    let plate = fs::read(PLATE).unwrap();
    let half = &plate[..plate.len() / 2];
    let symmetric = |rest: &str| format!("{SYMMETRIC}{rest}").into_bytes();
    let general = |rest: &str| format!("{GENERAL}{rest}").into_bytes();
    let complex = b"%%MatrixMarket matrix coordinate complex symmetric\n1 1 1\n1 1 1 0\n";
    for (contents, begin) in [
        (Vec::new(), "m.mtx: "),
        (b"hello\n".to_vec(), "m.mtx:1: "),
        (b"\xff\xfe\x00\n".to_vec(), "m.mtx:1: "),
        (complex.to_vec(), "m.mtx:1: "),
        (SYMMETRIC.into(), "m.mtx: "),
        (half.to_vec(), "m.mtx"),
        // Counts and indices that lie.
        (symmetric("2 2 2\n1 1 1\n3 2 1\n"), "m.mtx:4: "),
        (symmetric("2 2 2\n1 1 1\n0 1 1\n"), "m.mtx:4: "),
        (symmetric("2 2 200000000000\n1 1 1\n"), "m.mtx:2: "),
        (symmetric("2 2 3\n1 1 1\n2 2 1\n"), "m.mtx"),
        (symmetric("2 2 1\n1 1 1\n2 2 1\n"), "m.mtx:4: "),
        (symmetric("2 3 1\n1 1 1\n"), "m.mtx:2: "),
        (symmetric("2 2 2\n1 1 x\n2 2 1\n"), "m.mtx:3: "),
        // Matrices that conjugate gradients cannot take.
        (
            symmetric("2 2 2\n1 1 nan\n2 2 1\n"),
            "m.mtx: entry (1, 1) is NaN (line 3)",
        ),
        (
            symmetric("2 2 2\n1 1 -1\n2 2 1\n"),
            "m.mtx: the diagonal entry of row 1 is -1",
        ),
        (
            general("2 2 4\n1 1 2\n2 2 2\n1 2 1\n2 1 3\n"),
            "m.mtx: entry (1, 2) is 1",
        ),
        (general("2 3 2\n1 1 1\n2 2 1\n"), "m.mtx: "),
        // Not definite, which one entry tells, though A·1 is an eigenvector.
        (
            symmetric("2 2 3\n1 1 1\n2 1 5\n2 2 1\n"),
            "m.mtx: entry (1, 2) is 5 between the diagonal entries 1 and 1",
        ),
        // Not definite, which only the iteration tells.
        (
            symmetric("3 3 6\n1 1 1\n2 1 -.9\n2 2 1\n3 1 -.9\n3 2 -.9\n3 3 1\n"),
            "m.mtx: p·Ap is -",
        ),
        // A graph's Laplacian, which is singular.
        (
            symmetric("3 3 5\n1 1 1\n2 1 -1\n2 2 2\n3 2 -1\n3 3 1\n"),
            "m.mtx: the right-hand side A·1 is 0",
        ),
        // Beyond the range of numbers.
        (
            symmetric("2 2 2\n1 1 1e200\n2 2 1e-200\n"),
            "m.mtx: the norm of the right-hand side A·1 is out of a double's range",
        ),
        (
            symmetric("2 2 2\n1 1 1e-200\n2 2 1e-200\n"),
            "m.mtx: the right-hand side A·1 is 0, or too small for a double",
        ),
        (
            symmetric("2 2 2\n1 1 1\n2 2 1e-310\n"),
            "m.mtx: 1 / the diagonal entry of row 2 is out of a double's range",
        ),
    ] {
        let line = solve(&folder, &contents);
        let case = String::from_utf8_lossy(&contents[..contents.len().min(90)]);
        let text = line.strip_prefix("error: ").unwrap();
        assert!(text.starts_with(begin), "{case}\n{line}");
        let (_, remedy) = text.split_once("; ").unwrap_or_default();
        assert!(!remedy.is_empty(), "no remedy: {case}\n{line}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = Folder::new("unreadable");
    for file in [folder.file("missing.mtx"), folder.file(".")] {
        let line = failed(&output(&["run", "solve", &file]), 1);
        assert!(line.starts_with(&format!("error: {file}: ")), "{line}");
    }
}

#[test]
fn a_solve_that_does_not_converge_fails_and_names_the_options() {
    let line = failed(
        &output(&["run", "solve", PLATE, "--max-iterations", "3"]),
        1,
    );
    assert!(
        line.contains("--max-iterations") && line.contains("--tolerance"),
        "{line}"
    );
}

#[test]
fn what_is_asked_for_wrongly_exits_with_2_and_says_what_to_give() {
    for (args, says) in [
        (&["bogus"][..], "'bogus'"),
        (&["run", "bogus"], "'bogus'"),
        (&["bench", "bogus"], "'bogus'"),
        (&["probe", "extra"], "'extra'"),
        (&["--bogus", "probe"], "'--bogus'"),
        (&["run", "solve"], "required"),
        (&["run", "dot", "--elements", "0"], "from 1 to"),
        (&["run", "dot", "--elements", "2^40"], "from 1 to"),
        (&["run", "dot", "--elements", "-5"], "8k or 2^20"),
        (&["run", "dot", "--elements", "1e6"], "8k or 2^20"),
        (&["run", "dot", "--elements", ""], "8k or 2^20"),
        (
            &["run", "dot", "--elements", "8k", "--sweep"],
            "cannot be used with",
        ),
        (&["run", "dot", "--device", "gpu"], "`sim:PROFILE` (h200, "),
        (&["run", "dot", "--device", "sim:"], "`sim:PROFILE` (h200, "),
        (
            &["run", "dot", "--device", "sim:bogus"],
            "`sim:PROFILE` (h200, ",
        ),
        (&["run", "dot", "--device", "cuda:x"], "`cuda:N`"),
        (&["run", "dot", "--device", ""], "`sim`"),
        (&["run", "dot", "--html", ""], "--html"),
        (&["run", "dot", "--color", "pink"], "pink"),
        (
            &["run", "solve", "m", "--tolerance", "2"],
            "below 1, such as 1e-8",
        ),
        (&["run", "solve", "m", "--max-iterations", "0"], "from 1 up"),
    ] {
        let line = failed(&output(args), 2);
        assert!(line.contains(says), "{args:?}\n{line}");
    }
}

#[test]
fn nothing_asked_for_shows_help_and_exits_with_2() {
    for (args, says) in [
        (&[][..], "Usage: pinfold"),
        (&["run"], "Usage: pinfold run"),
        (&["bench"], "Usage: pinfold bench [OPTIONS] <WHAT>"),
        (&["bench"], "\n  pool     A warm pool"),
    ] {
        let output = output(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        assert!(stderr(&output).contains(says));
    }
}

#[test]
fn a_wrong_variable_is_named() {
    let output = pinfold(&["run", "dot"])
        .env("PINFOLD_DEVICE", "bogus")
        .output()
        .unwrap();
    let line = failed(&output, 2);
    assert!(line.starts_with("error: PINFOLD_DEVICE: `bogus`"), "{line}");
}

#[test]
fn a_device_that_is_not_there_fails_for_every_command() {
    for args in [
        &["probe"][..],
        &["bench", "pool"],
        &["bench", "pin"],
        &["bench", "machine", "--quick"],
        &["bench", "model"],
        &["run", "dot"],
        &["run", "solve", PLATE],
    ] {
        let args = [args, &["--device", "cuda:4000000000"]].concat();
        failed(&output(&args), 1);
    }
}

#[test]
fn errors_are_coloured_only_where_asked() {
    let run = output(&["run", "solve", "missing.mtx", "--color", "always"]);
    assert!(stderr(&run).starts_with("\u{1b}[1;31merror:\u{1b}[0m missing.mtx: "));
}

#[test]
fn a_name_does_nothing_to_the_terminal() {
    let line = failed(&output(&["run", "solve", "a\nb\u{1b}[31m"]), 1);
    assert!(line.starts_with("error: a\\nb\\u{1b}[31m: "), "{line}");
}
