//! One job on one input, as text.

use super::super::units::{error, ratio, spread, time};
use super::super::{
    BYTES_MEAN, ERROR_MEANS, best_seconds, how_measured, is_chosen, row_name, time_heading,
};
use super::memory::memory;
use super::{Column, INDENT, Kind, MARK, Page, Sheet, Style, WIDTH_WITH_ALL};
use pinfold::Bytes;
use pinfold_apps::report::{DeviceLabel, Fact, JobReport, StrategyResult};

/// A job's report as text.
pub fn job(report: &JobReport, page: &Page) -> String {
    let mut sheet = Sheet::new(page);
    title(&mut sheet, &report.job, &report.device);
    sheet.paragraph(&facts(&report.input), None);
    sheet.blank();
    let shape = Shape {
        steps: report.strategies.iter().any(|s| s.iterations.is_some()),
        placements: page.width >= WIDTH_WITH_ALL,
    };
    let rows: Vec<_> = report
        .strategies
        .iter()
        .map(|s| row(report, s, shape))
        .collect();
    let chosen = report.strategies.iter().position(|s| is_chosen(report, s));
    sheet.table(&columns(report, shape), &rows, chosen);
    sheet.blank();
    notes(&mut sheet, report);
    if let Some(report) = &report.memory {
        memory(&mut sheet, report);
    }
    sheet.text
}

/// What ran on what, with a word where no time is real.
pub(super) fn title(sheet: &mut Sheet<'_>, job: &str, device: &DeviceLabel) {
    sheet.paragraph(&format!("{job} on {}", device.name), Some(Style::Bold));
    if device.simulated {
        let text = "Times are simulated, results are checked for real.";
        sheet.paragraph(text, Some(Style::Yellow));
    }
}

fn facts(input: &[Fact]) -> String {
    let facts = input
        .iter()
        .map(|fact| format!("{} {}", fact.name, fact.value));
    facts.collect::<Vec<_>>().join(" · ")
}

/// What a table shows beside the usual.
#[derive(Clone, Copy)]
struct Shape {
    /// Steps, with the time of each.
    steps: bool,
    /// Where the data was, below each strategy's name.
    placements: bool,
}

fn columns(report: &JobReport, shape: Shape) -> Vec<Column> {
    let mut columns = vec![
        Column::new("", Kind::Mark),
        Column::new("strategy", Kind::Words),
        // Two lines: beside `(simulated)` there is room for little else.
        Column::new(
            time_heading(&report.device).replace(' ', "\n"),
            Kind::Number,
        ),
        Column::new("to best", Kind::Number),
    ];
    if shape.steps {
        columns.push(Column::new("steps,\neach", Kind::Number));
    }
    columns.extend(["up,\ndown", "error"].map(|heading| Column::new(heading, Kind::Number)));
    columns
}

/// One strategy on two lines; the second one of a cell is the lesser.
fn row(report: &JobReport, strategy: &StrategyResult, shape: Shape) -> Vec<String> {
    let mark = if is_chosen(report, strategy) {
        MARK
    } else {
        ""
    };
    let mut name = row_name(report, strategy);
    if shape.placements {
        name.push_str(&format!("\n{INDENT}{}", strategy.placement));
    }
    let mut shown = time(strategy.seconds);
    if strategy.repeats > 1 {
        let range = spread(strategy.seconds, strategy.seconds_min, strategy.seconds_max);
        shown.push_str(&format!("\n{range}"));
    }
    let mut cells = vec![
        mark.to_owned(),
        name,
        shown,
        ratio(strategy.seconds / best_seconds(report)),
    ];
    if shape.steps {
        let count = strategy.iterations.map(|count| count.to_string());
        let each = strategy.seconds_per_iteration.map(time);
        let both: Vec<String> = [count, each].into_iter().flatten().collect();
        cells.push(both.join("\n"));
    }
    let (up, down) = (Bytes(strategy.bytes_up), Bytes(strategy.bytes_down));
    cells.push(format!("{up}\n{down}"));
    cells.push(error(strategy.error));
    cells
}

/// Why this choice, and what the figures are.
fn notes(sheet: &mut Sheet<'_>, report: &JobReport) {
    let mut note = |label: &str, text: &str| sheet.labelled(0, label, Some(Style::Bold), 8, text);
    note("chosen:", &format!("{} — {}", report.chosen, report.reason));
    for placement in &report.placements {
        note("memory:", placement);
    }
    note("times:", &how_measured(report));
    note("bytes:", BYTES_MEAN);
    note("error:", ERROR_MEANS);
}
