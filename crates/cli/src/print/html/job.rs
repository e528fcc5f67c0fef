//! One job on one input, as HTML.

use super::super::units::{error, ratio, spread, time};
use super::super::{
    BYTES_MEAN, ERROR_MEANS, best_seconds, how_measured, is_best, is_chosen, row_name, time_heading,
};
use super::memory::memory;
use super::{bars, page, simulated_times, title_of};
use maud::{Markup, html};
use pinfold::Bytes;
use pinfold_apps::report::{JobReport, StrategyResult};

/// A job's report as an HTML page.
pub fn job(report: &JobReport) -> String {
    let body = html! {
        p.facts {
            @for (number, fact) in report.input.iter().enumerate() {
                @if number > 0 { " · " }
                (fact.name) " " (fact.value)
            }
        }
        (bars::chart(report))
        p.choice { strong { "Chosen: " (report.chosen) } " — " (report.reason) }
        h2 { "Strategies" }
        .scroll { (table(report)) }
        dl.legend {
            dt { "times" } dd { (how_measured(report)) }
            dt { "bytes" } dd { (BYTES_MEAN) }
            dt { "error" } dd { (ERROR_MEANS) }
        }
        @if !report.placements.is_empty() {
            h2 { "Why this memory" }
            ul { @for placement in &report.placements { li { (placement) } } }
        }
        @if let Some(report) = &report.memory { (memory(report)) }
    };
    page(
        &title_of(&report.job, &report.device),
        simulated_times(&report.device),
        body,
    )
}

/// The columns that only some reports have.
#[derive(Clone, Copy)]
struct Shape {
    /// The range of several runs.
    range: bool,
    /// Steps, with the time of each.
    steps: bool,
}

fn table(report: &JobReport) -> Markup {
    let shape = Shape {
        range: report.strategies.iter().any(|s| s.repeats > 1),
        steps: report.strategies.iter().any(|s| s.iterations.is_some()),
    };
    let mut numbers = vec![time_heading(&report.device)];
    numbers.extend(shape.range.then_some("±"));
    numbers.push("to best");
    numbers.extend(
        shape
            .steps
            .then_some(["steps", "each"])
            .into_iter()
            .flatten(),
    );
    numbers.extend(["bytes up", "bytes down", "error"]);
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "strategy" }
                    @for heading in numbers { th.n scope="col" { (heading) } }
                }
            }
            tbody { @for strategy in &report.strategies { (row(report, strategy, shape)) } }
        }
    }
}

fn row(report: &JobReport, strategy: &StrategyResult, shape: Shape) -> Markup {
    html! {
        tr.chosen[is_chosen(report, strategy)] {
            th scope="row" {
                (row_name(report, strategy))
                span.placement { (strategy.placement) }
            }
            td.n { (time(strategy.seconds)) }
            @if shape.range {
                td.n { (spread(strategy.seconds, strategy.seconds_min, strategy.seconds_max)) }
            }
            td.n.best[is_best(report, strategy)] {
                (ratio(strategy.seconds / best_seconds(report)))
            }
            @if shape.steps {
                td.n { @if let Some(count) = strategy.iterations { (count) } }
                td.n { @if let Some(seconds) = strategy.seconds_per_iteration { (time(seconds)) } }
            }
            td.n { (Bytes(strategy.bytes_up)) }
            td.n { (Bytes(strategy.bytes_down)) }
            td.n { (error(strategy.error)) }
        }
    }
}
