//! Text fits the page, whatever it says.

use crate::common::{PLATE, pinfold, stdout, succeed, widest};
use crate::reports;
use pinfold_apps::report::Fact;
use pinfold_cli::print::{Page, Printable};
use std::collections::BTreeSet;

fn page(width: u16) -> Page {
    Page {
        width,
        color: false,
    }
}

#[test]
fn no_line_of_a_report_is_wider_than_its_page() {
    let all: [&dyn Fn(&Page) -> String; 11] = [
        &|page| reports::dot_simulated().text(page),
        &|page| reports::solve_measured().text(page),
        &|page| reports::sweep().text(page),
        &|page| reports::empty_sweep().text(page),
        &|page| reports::probe_simulated().text(page),
        &|page| reports::probe_measured().text(page),
        &|page| reports::hostile().text(page),
        &|page| reports::bench_simulated().text(page),
        &|page| reports::bench_measured().text(page),
        &|page| reports::machine_measured().text(page),
        &|page| reports::model_simulated().text(page),
    ];
    for (number, text) in all.iter().enumerate() {
        for width in [80, 90, 97, 98, 99, 100] {
            let shown = text(&page(width));
            assert!(
                widest(&shown) <= usize::from(width),
                "report {number} at {width}:\n{shown}"
            );
            assert!(shown.ends_with('\n') && !shown.contains(" \n"));
        }
    }
}

#[test]
fn a_row_takes_at_most_two_lines_where_there_is_room() {
    for report in [reports::dot_simulated(), reports::solve_measured()] {
        let text = report.text(&Page::PLAIN);
        let table = text.lines().skip_while(|line| !line.starts_with('─'));
        let lines = table.skip(1).take_while(|line| !line.is_empty());
        assert!(lines.count() <= 2 * report.strategies.len(), "{text}");
    }
}

#[test]
fn what_a_benchmark_found_stands_in_one_column() {
    for report in [reports::bench_simulated(), reports::bench_measured()] {
        let text = report.text(&Page::PLAIN);
        let column = |finding: &Fact| {
            let begin = format!("{}: ", finding.name);
            let line = text.lines().find(|line| line.starts_with(&begin)).unwrap();
            let before = line.split(&finding.value).next().unwrap();
            before.chars().count()
        };
        let columns: BTreeSet<_> = report.findings.iter().map(column).collect();
        assert_eq!(columns.len(), 1, "{text}");
    }
}

#[test]
fn nothing_in_a_report_controls_the_terminal() {
    let text = reports::hostile().text(&Page::PLAIN);
    let controls = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(controls), "{text}");
}

#[test]
fn the_program_keeps_within_100_columns_on_every_simulated_machine() {
    let probe = stdout(&["probe", "--json"]);
    let probe: serde_json::Value = serde_json::from_str(&probe).unwrap();
    let names = probe["backends"]["simulated"].as_array().unwrap();
    assert!(names.len() > 3);
    for name in names {
        let device = format!("sim:{}", name.as_str().unwrap());
        for args in [
            &["probe", "--device", &device][..],
            &["run", "dot", "--elements", "1k", "--device", &device],
        ] {
            let text = stdout(args);
            assert!(widest(&text) <= 100, "{args:?}\n{text}");
            assert!(text.contains("simulated"), "{args:?}\n{text}");
        }
    }
}

#[test]
fn columns_are_kept_to_within_limits() {
    let width = |columns: &str| {
        let mut command = pinfold(&["run", "solve", PLATE]);
        widest(&succeed(command.env("COLUMNS", columns).output().unwrap()))
    };
    assert!(width("80") <= 80);
    assert!(width("40") <= 80);
    for columns in ["100", "1000", "", "wide", "-1"] {
        let width = width(columns);
        assert!((90..=100).contains(&width), "{columns}: {width}");
    }
}

#[test]
fn pipes_are_coloured_only_where_asked() {
    let dot = ["run", "dot", "--elements", "1k"];
    assert!(!stdout(&dot).contains('\u{1b}'));
    let asked = [&dot[..], &["--color", "always"]].concat();
    assert!(stdout(&asked).contains("\u{1b}[1m"));
    let refused = [&dot[..], &["--color", "never"]].concat();
    assert_eq!(stdout(&refused), stdout(&dot));
}
