//! One job over several inputs, as text.

use super::super::units::{percent, time};
use super::super::{CHOSEN, chosen_excess, is_best, time_heading};
use super::job::title;
use super::{Column, Kind, MARK, Page, Sheet, WIDTH_WITH_ALL};
use pinfold_apps::report::{JobReport, SweepReport};

/// A sweep's report as text.
pub fn sweep(report: &SweepReport, page: &Page) -> String {
    let mut sheet = Sheet::new(page);
    title(&mut sheet, &report.job, &report.device);
    let Some(first) = report.runs.first() else {
        sheet.paragraph("No input was run.", None);
        return sheet.text;
    };
    let input = first
        .input
        .first()
        .map_or("input", |fact| fact.name.as_str());
    let what = time_heading(&report.device);
    sheet.blank();
    let all = page.width >= WIDTH_WITH_ALL;
    let chosen = match all {
        true => format!(", {MARK} what was chosen"),
        false => String::new(),
    };
    sheet.paragraph(
        &format!("{what} by number of {input}; * marks the shortest{chosen}"),
        None,
    );
    sheet.blank();
    let columns = columns(input, first, all);
    let rows: Vec<_> = report.runs.iter().map(|run| row(run, all)).collect();
    sheet.table(&columns, &rows, None);
    sheet.blank();
    let most = report
        .runs
        .iter()
        .filter_map(chosen_excess)
        .fold(0.0, f64::max);
    let most = percent(most);
    sheet.paragraph(
        &format!(
            "What pinfold chose ({CHOSEN}) took at most {most} longer than the best at any size."
        ),
        None,
    );
    sheet.text
}

/// The columns of a table: with `all`, the distance to the best is among them.
fn columns(input: &str, run: &JobReport, all: bool) -> Vec<Column> {
    // The hard spaces stand above the marks of the fastest.
    let narrow = |name: &str| {
        let lines = name.replace(' ', "\n").replace('-', "-\n");
        format!("{lines}\u{a0}").replace('\n', "\u{a0}\n")
    };
    let mut columns = vec![Column::new(input, Kind::Number)];
    columns.extend(
        run.strategies
            .iter()
            .map(|s| Column::new(narrow(&s.name), Kind::Tight)),
    );
    if all {
        columns.push(Column::new("to\nbest", Kind::Number));
    }
    columns
}

fn row(run: &JobReport, all: bool) -> Vec<String> {
    let mut cells = vec![
        run.input
            .first()
            .map_or(String::new(), |fact| fact.value.clone()),
    ];
    cells.extend(run.strategies.iter().map(|strategy| {
        let mark = if is_best(run, strategy) {
            "*"
        } else {
            "\u{a0}"
        };
        let chosen = if all && strategy.name == run.chosen {
            MARK
        } else {
            ""
        };
        format!("{chosen}{}{mark}", time(strategy.seconds))
    }));
    if all {
        let excess = chosen_excess(run).map(|excess| format!("+{}", percent(excess)));
        cells.push(excess.unwrap_or_default());
    }
    cells
}
