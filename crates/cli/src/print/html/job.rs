//! One job on one input, as HTML.

use super::super::units::{error, ratio, spread, time};
use super::super::{best_seconds, how_measured, is_chosen, row_name, time_heading};
use super::{bars, page, title_of};
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
        p.choice { strong { "Chosen: " (report.chosen) "." } " " (report.reason) }
        h2 { "Strategies" }
        .scroll { (table(report)) }
        p.small { (how_measured(report)) }
        @if !report.placements.is_empty() {
            h2 { "Why this memory" }
            ul { @for placement in &report.placements { li { (placement) } } }
        }
    };
    page(
        &title_of(&report.job, &report.device),
        report.device.simulated,
        body,
    )
}

fn table(report: &JobReport) -> Markup {
    let steps = report.strategies.iter().any(|s| s.iterations.is_some());
    html! {
        table {
            thead {
                tr {
                    th { "strategy" }
                    th { "memory" }
                    th.n { (time_heading(&report.device)) }
                    th.n { "±" }
                    th.n { "to best" }
                    @if steps { th.n { "steps" } th.n { "a step" } }
                    th.n { "up" }
                    th.n { "down" }
                    th.n { "error" }
                }
            }
            tbody { @for strategy in &report.strategies { (row(report, strategy, steps)) } }
        }
    }
}

fn row(report: &JobReport, strategy: &StrategyResult, steps: bool) -> Markup {
    let best = best_seconds(report);
    html! {
        tr.chosen[is_chosen(report, strategy)] {
            td { (row_name(report, strategy)) }
            td { (strategy.placement) }
            td.n { (time(strategy.seconds)) }
            td.n {
                @if strategy.repeats > 1 {
                    (spread(strategy.seconds, strategy.seconds_min, strategy.seconds_max))
                }
            }
            td.n.best[strategy.seconds <= best] { (ratio(strategy.seconds / best)) }
            @if steps {
                td.n { @if let Some(count) = strategy.iterations { (count) } }
                td.n { @if let Some(seconds) = strategy.seconds_per_iteration { (time(seconds)) } }
            }
            td.n { (Bytes(strategy.bytes_up)) }
            td.n { (Bytes(strategy.bytes_down)) }
            td.n { (error(strategy.error)) }
        }
    }
}
