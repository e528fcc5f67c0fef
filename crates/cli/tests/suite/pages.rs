//! HTML reports stand alone, say what is simulated, and tell in words what they draw.

use crate::common::unstyled;
use crate::reports;
use pinfold_cli::print::Printable;
use std::collections::BTreeSet;

fn pages() -> [(&'static str, String); 11] {
    [
        ("dot", reports::dot_simulated().html()),
        ("solve", reports::solve_measured().html()),
        ("sweep", reports::sweep().html()),
        ("empty", reports::empty_sweep().html()),
        ("simulated machine", reports::probe_simulated().html()),
        ("real machine", reports::probe_measured().html()),
        ("hostile", reports::hostile().html()),
        ("simulated benchmark", reports::bench_simulated().html()),
        ("benchmark", reports::bench_measured().html()),
        ("measured machine", reports::machine_measured().html()),
        ("compared model", reports::model_simulated().html()),
    ]
}

/// Every value of an attribute.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    let after = html.split(&begin).skip(1);
    after.map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn a_page_needs_nothing_but_itself() {
    for (name, html) in pages() {
        assert!(
            html.starts_with("<!DOCTYPE html><html lang=\"en\">"),
            "{name}"
        );
        assert!(html.ends_with("</html>"), "{name}");
        for outside in [
            "<script", "<link", "<img", "<iframe", "@import", "url(", "//", " src=",
        ] {
            assert!(!html.contains(outside), "{name} has {outside}");
        }
    }
}

#[test]
fn what_is_simulated_is_called_so_everywhere() {
    let dot = reports::dot_simulated().html();
    let title = "<title>pinfold: dot on simulated h200 (simulated)</title>";
    assert!(dot.contains(title));
    assert!(dot.contains("<strong class=\"badge\">simulated</strong>"));
    assert!(dot.contains("time (simulated) in µs</text>"));
    assert!(dot.contains("time (simulated)</th>"));
    let sweep = reports::sweep().html();
    assert!(sweep.contains(">time (simulated)</text>"));
    assert!(sweep.contains(">time (simulated), × fastest</text>"));
    assert!(sweep.contains("All figures: time (simulated)</h2>"));
    let solve = unstyled(&reports::solve_measured().html());
    assert!(!solve.contains("simulated"), "nothing is simulated there");
    // What could be simulated is listed there, too.
    let benchmark = unstyled(&reports::bench_measured().html());
    assert!(!benchmark.contains("simulated"));
    let benchmark = reports::bench_simulated().html();
    assert_eq!(benchmark.matches("(simulated)</th>").count(), 1);
    assert!(benchmark.contains("<strong class=\"badge\">simulated</strong>"));
    let model = reports::model_simulated().html();
    assert!(model.contains("Errors of the predictions (simulated)</h2>"));
    let machine = unstyled(&reports::machine_measured().html());
    assert!(!machine.contains("simulated"));
    let machine = unstyled(&reports::probe_measured().html());
    assert!(!machine.contains("(simulated)") && !machine.contains("badge"));
}

#[test]
fn charts_are_told_in_words() {
    for (name, charts) in [
        ("dot", 1),
        ("solve", 1),
        ("sweep", 2),
        ("empty", 0),
        ("measured machine", 1),
    ] {
        let html = &pages().into_iter().find(|(n, _)| *n == name).unwrap().1;
        assert_eq!(html.matches("<svg").count(), charts, "{name}");
        let ids = values(html, "id");
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), distinct.len(), "{name} has an id twice");
        for attribute in ["aria-labelledby", "aria-describedby"] {
            let wanted = values(html, attribute);
            assert_eq!(wanted.len(), charts, "{name}");
            assert!(wanted.iter().all(|id| ids.contains(id)), "{name}");
        }
    }
    assert!(
        reports::dot_simulated()
            .html()
            .contains("pageable copy: 712 µs; ")
    );
    assert!(
        reports::sweep()
            .html()
            .contains("pageable copy: 23.5 µs at 8192, 135 ms at 134217728")
    );
}

#[test]
fn the_chosen_strategy_is_marked_once_in_chart_and_table() {
    for report in [reports::dot_simulated(), reports::solve_measured()] {
        let html = report.html();
        assert_eq!(html.matches("<rect class=\"bar chosen\"").count(), 1);
        assert_eq!(html.matches("<tr class=\"chosen\"").count(), 1);
        let bars = html.matches("<rect class=\"bar").count();
        assert_eq!(bars, report.strategies.len());
    }
    let sweep = reports::sweep().html();
    assert_eq!(sweep.matches(">chosen by pinfold</text>").count(), 2);
}

#[test]
fn only_measured_times_have_a_range() {
    let (dot, solve) = (
        reports::dot_simulated().html(),
        reports::solve_measured().html(),
    );
    assert_eq!(dot.matches("class=\"range\"").count(), 0);
    assert_eq!(solve.matches("class=\"range\"").count(), 4);
    assert!(solve.contains("±4.0%") && !dot.contains('±'));
}

#[test]
fn text_from_outside_stays_text() {
    let html = reports::hostile().html();
    assert!(html.contains("&lt;script&gt;"));
    assert!(!html.contains("<script"));
    // A time that is none draws nothing that is none.
    assert!(!html.contains("NaN") && !html.contains("\"inf"));
}

#[test]
fn every_table_names_its_columns_or_rows() {
    for (name, html) in pages() {
        for head in html
            .split("<th")
            .skip(1)
            .filter(|rest| !rest.starts_with("ead"))
        {
            let tag = head.split('>').next().unwrap();
            assert!(tag.contains("scope="), "{name}: <th{tag}>");
        }
    }
}
