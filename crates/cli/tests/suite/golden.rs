//! Reports look as they did. `PINFOLD_BLESS=1` makes what they look like now the new standard.

use crate::common::unstyled;
use crate::reports;
use pinfold_cli::print::{Page, Printable, json};
use std::fs;
use std::path::Path;

fn check(name: &str, shown: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("PINFOLD_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, shown).unwrap();
    }
    let golden = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{name}: {error}; PINFOLD_BLESS=1 makes it"));
    let differs = golden.lines().zip(shown.lines()).find(|(a, b)| a != b);
    assert!(
        golden == shown,
        "{name} looks different, first in (was, is): {differs:#?}\nif that is right, run with \
         PINFOLD_BLESS=1 and look at the difference"
    );
}

/// A page without its style and version, an element a line.
fn outline(html: &str) -> String {
    unstyled(html)
        .replace(env!("CARGO_PKG_VERSION"), "VERSION")
        .replace("><", ">\n<")
        + "\n"
}

fn check_all(name: &str, report: &impl Printable) {
    check(&format!("{name}.txt"), &report.text(&Page::PLAIN));
    check(&format!("{name}.html"), &outline(&report.html()));
    check(&format!("{name}.json"), &json(report).unwrap());
}

#[test]
fn a_simulated_job() {
    check_all("dot-simulated", &reports::dot_simulated());
}

#[test]
fn a_measured_job_with_steps() {
    check_all("solve-measured", &reports::solve_measured());
}

#[test]
fn a_sweep() {
    check_all("sweep", &reports::sweep());
}

#[test]
fn a_simulated_benchmark() {
    check_all("bench-simulated", &reports::bench_simulated());
}

#[test]
fn a_measured_benchmark() {
    check_all("bench-measured", &reports::bench_measured());
}

#[test]
fn a_measured_machine() {
    check_all("machine-measured", &reports::machine_measured());
}

#[test]
fn a_model_that_was_compared() {
    check_all("model-simulated", &reports::model_simulated());
}

#[test]
fn a_machine_without_a_device() {
    check_all("probe-simulated", &reports::probe_simulated());
}

#[test]
fn a_machine_with_devices() {
    check_all("probe-measured", &reports::probe_measured());
}

#[test]
fn a_narrow_page() {
    let page = Page {
        width: 80,
        color: false,
    };
    check(
        "solve-measured-80.txt",
        &reports::solve_measured().text(&page),
    );
    check("sweep-80.txt", &reports::sweep().text(&page));
    check(
        "machine-measured-80.txt",
        &reports::machine_measured().text(&page),
    );
}

#[test]
fn a_coloured_page() {
    let page = Page {
        color: true,
        ..Page::PLAIN
    };
    check(
        "dot-simulated-colour.txt",
        &reports::dot_simulated().text(&page),
    );
}
