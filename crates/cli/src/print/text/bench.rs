//! A benchmark, as text.

use super::super::{one_line, units};
use super::{Column, Kind, Page, Sheet, Style};
use pinfold_apps::bench::{BenchReport, BenchRow};
use pinfold_apps::report::Fact;

/// A benchmark's report as text.
pub fn bench(report: &BenchReport, page: &Page) -> String {
    let mut sheet = Sheet::new(page);
    let title = format!("bench {} on {}", report.bench, report.device.name);
    sheet.paragraph(&title, Some(Style::Bold));
    let facts = report
        .machine
        .iter()
        .map(|f| format!("{} {}", f.name, f.value));
    sheet.paragraph(&facts.collect::<Vec<_>>().join(" · "), None);
    sheet.blank();
    let simulated = report.rows.iter().any(|row| row.simulated);
    let columns = [
        Column::new("", Kind::Words),
        Column::new("median", Kind::Number),
        Column::new("least", Kind::Number),
        Column::new("most", Kind::Number),
        Column::new("times", Kind::Number),
    ];
    let rows: Vec<Vec<String>> = report.rows.iter().map(row).collect();
    sheet.table(&columns, &rows, None);
    sheet.blank();
    findings(&mut sheet, &report.findings);
    if simulated {
        let note = "What is marked simulated has virtual time in it; all else is real.";
        sheet.paragraph(note, Some(Style::Yellow));
    }
    sheet.text
}

/// Values in one column behind their names, as long as these leave it half of the page.
pub(super) fn findings(sheet: &mut Sheet<'_>, findings: &[Fact]) {
    let label = |finding: &Fact| one_line(&format!("{}:", finding.name));
    let widths = findings.iter().map(|f| label(f).chars().count() + 2);
    let half = usize::from(sheet.page.width / 2);
    let column = widths.filter(|width| *width <= half).max().unwrap_or(0);
    for finding in findings {
        sheet.labelled(0, &label(finding), None, column, &finding.value);
    }
}

fn row(row: &BenchRow) -> Vec<String> {
    let simulated = if row.simulated { " (simulated)" } else { "" };
    let value = |value| units::measured(value, row.unit);
    vec![
        format!("{}: {}{simulated}", row.group, row.name),
        value(row.value),
        value(row.value_min),
        value(row.value_max),
        row.repeats.to_string(),
    ]
}
