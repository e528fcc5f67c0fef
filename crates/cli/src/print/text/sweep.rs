//! One job over several inputs, as text.

use super::super::units::{percent, time};
use super::super::{CHOSEN, best_seconds, chosen_excess};
use super::job::title;
use super::{Column, Kind, Page, Sheet};
use pinfold_apps::report::{JobReport, SweepReport};

/// On narrower pages the names of what was chosen are left out.
const WIDTH_WITH_NAMES: u16 = 98;

/// A sweep's report as text.
pub fn sweep(report: &SweepReport, page: &Page) -> String {
    let mut sheet = Sheet::new(page);
    title(&mut sheet, &report.job, &report.device);
    let Some(first) = report.runs.first() else {
        sheet.paragraph("No input was run.");
        return sheet.text;
    };
    let times = match report.device.simulated {
        true => "Simulated times",
        false => "Times",
    };
    let input = first
        .input
        .first()
        .map_or("input", |fact| fact.name.as_str());
    sheet.paragraph(&format!(
        "{times} by number of {input}; * is the fastest of its row."
    ));
    sheet.blank();
    let names = page.width >= WIDTH_WITH_NAMES;
    let columns = columns(input, first, names);
    let rows: Vec<_> = report.runs.iter().map(|run| row(run, names)).collect();
    sheet.table(&columns, &rows, None);
    sheet.blank();
    let most = report
        .runs
        .iter()
        .filter_map(chosen_excess)
        .fold(0.0, f64::max);
    sheet.paragraph(&format!(
        "What pinfold chose ({CHOSEN}) took at most {} longer than the best at any size.",
        percent(most)
    ));
    sheet.text
}

fn columns(input: &str, run: &JobReport, names: bool) -> Vec<Column> {
    let narrow = |name: &str| name.replace(' ', "\n").replace('-', "-\n");
    let mut columns = vec![Column::new(input, Kind::Number)];
    columns.extend(
        run.strategies
            .iter()
            .map(|s| Column::new(narrow(&s.name), Kind::Tight)),
    );
    columns.push(Column::new("to\nbest", Kind::Number));
    if names {
        columns.push(Column::new("what was chosen", Kind::Words));
    }
    columns
}

fn row(run: &JobReport, names: bool) -> Vec<String> {
    let mut cells = vec![
        run.input
            .first()
            .map_or(String::new(), |fact| fact.value.clone()),
    ];
    let best = best_seconds(run);
    cells.extend(run.strategies.iter().map(|strategy| {
        let mark = if strategy.seconds <= best {
            "*"
        } else {
            "\u{a0}"
        };
        format!("{}{mark}", time(strategy.seconds))
    }));
    cells.push(chosen_excess(run).map_or(String::new(), |excess| format!("+{}", percent(excess))));
    if names {
        cells.push(run.chosen.clone());
    }
    cells
}
