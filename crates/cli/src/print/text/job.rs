//! One job on one input, as text.

use super::super::units::{error, ratio, spread, time};
use super::super::{best_seconds, how_measured, is_chosen, row_name, time_heading};
use super::{Column, Kind, MARK, Page, Sheet, Style};
use pinfold::Bytes;
use pinfold_apps::report::{DeviceLabel, Fact, JobReport, StrategyResult};

/// A job's report as text.
pub fn job(report: &JobReport, page: &Page) -> String {
    let mut sheet = Sheet::new(page);
    title(&mut sheet, &report.job, &report.device);
    sheet.paragraph(&facts(&report.input));
    sheet.blank();
    let steps = report.strategies.iter().any(|s| s.iterations.is_some());
    let rows: Vec<_> = report
        .strategies
        .iter()
        .map(|s| row(report, s, steps))
        .collect();
    let chosen = report.strategies.iter().position(|s| is_chosen(report, s));
    sheet.table(&columns(report, steps), &rows, chosen);
    sheet.blank();
    sheet.labelled(
        0,
        "chosen:",
        Some(Style::Bold),
        8,
        &format!("{} — {}", report.chosen, report.reason),
    );
    for placement in &report.placements {
        sheet.labelled(0, "memory:", None, 8, placement);
    }
    sheet.labelled(0, "times:", None, 8, &how_measured(report));
    sheet.text
}

/// What ran on what, with a word where no time is real.
pub(super) fn title(sheet: &mut Sheet<'_>, job: &str, device: &DeviceLabel) {
    let line = Style::Bold.paint(&format!("{job} on {}", device.name), sheet.page);
    sheet.text.push_str(&line);
    if device.simulated {
        let word = Style::Yellow.paint(
            "times are simulated, results are checked for real",
            sheet.page,
        );
        sheet.text.push_str(&format!(" — {word}"));
    }
    sheet.blank();
}

fn facts(input: &[Fact]) -> String {
    let facts = input
        .iter()
        .map(|fact| format!("{} {}", fact.name, fact.value));
    facts.collect::<Vec<_>>().join(" · ")
}

fn columns(report: &JobReport, steps: bool) -> Vec<Column> {
    let mut columns = vec![
        Column::new("", Kind::Mark),
        Column::new("strategy", Kind::Words),
        Column::new("memory", Kind::Words),
        // Two lines: beside `(simulated)` there is room for little else.
        Column::new(
            time_heading(&report.device).replace(' ', "\n"),
            Kind::Number,
        ),
        Column::new("to best", Kind::Number),
    ];
    if steps {
        columns.push(Column::new("steps,\neach", Kind::Number));
    }
    columns.extend(["up", "down", "error"].map(|heading| Column::new(heading, Kind::Number)));
    columns
}

fn row(report: &JobReport, strategy: &StrategyResult, steps: bool) -> Vec<String> {
    let mark = if is_chosen(report, strategy) {
        MARK
    } else {
        ""
    };
    let mut shown = time(strategy.seconds);
    if strategy.repeats > 1 {
        let range = spread(strategy.seconds, strategy.seconds_min, strategy.seconds_max);
        shown.push_str(&format!("\n{range}"));
    }
    let mut cells = vec![
        mark.to_owned(),
        row_name(report, strategy),
        strategy.placement.clone(),
        shown,
        ratio(strategy.seconds / best_seconds(report)),
    ];
    if steps {
        let count = strategy.iterations.map(|count| count.to_string());
        let each = strategy.seconds_per_iteration.map(time);
        cells.push(
            [count, each]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("\n"),
        );
    }
    cells.push(Bytes(strategy.bytes_up).to_string());
    cells.push(Bytes(strategy.bytes_down).to_string());
    cells.push(error(strategy.error));
    cells
}
