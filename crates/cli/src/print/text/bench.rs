//! A benchmark, as text.

use super::super::units;
use super::{Column, Kind, Page, Sheet, Style};
use pinfold_apps::bench::{BenchReport, BenchRow};

/// A benchmark's report as text.
pub fn bench(report: &BenchReport, page: &Page) -> String {
    let mut sheet = Sheet::new(page);
    let title = format!("bench {} on {}", report.bench, report.device.name);
    sheet.text.push_str(&Style::Bold.paint(&title, page));
    sheet.blank();
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
    for finding in &report.findings {
        sheet.labelled(0, &format!("{}:", finding.name), None, 0, &finding.value);
    }
    if simulated {
        let note = "What is marked simulated has virtual time in it; all else is real.";
        sheet.paragraph(note, Some(Style::Yellow));
    }
    sheet.text
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
