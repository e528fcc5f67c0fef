//! One job over several inputs, as HTML.

use super::super::units::{percent, time};
use super::super::{chosen_excess, is_best, time_heading};
use super::lines::{self, Quantity};
use super::{page, simulated_times, title_of};
use maud::{Markup, html};
use pinfold_apps::report::{JobReport, SweepReport};

/// A sweep's report as an HTML page.
pub fn sweep(report: &SweepReport) -> String {
    let body = html! {
        (lines::chart(report, Quantity::Time))
        h2 { "Against the fastest at each size" }
        (lines::chart(report, Quantity::ToBest))
        h2 { "All figures: " (time_heading(&report.device)) }
        .scroll { (table(report)) }
        h2 { "Why each was chosen" }
        .scroll {
            table.rows {
                @for run in &report.runs {
                    tr {
                        th.n scope="row" { (size(run)) }
                        td.name { (run.chosen) }
                        td { (run.reason) }
                    }
                }
            }
        }
    };
    page(
        &title_of(&report.job, &report.device),
        simulated_times(&report.device),
        body,
    )
}

fn table(report: &SweepReport) -> Markup {
    let Some(first) = report.runs.first() else {
        return html! {};
    };
    html! {
        table {
            thead {
                tr {
                    th.n scope="col" {
                        (first.input.first().map_or("input", |fact| fact.name.as_str()))
                    }
                    @for strategy in &first.strategies { th.n scope="col" { (strategy.name) } }
                    th.n scope="col" { "to best" }
                }
            }
            tbody { @for run in &report.runs { (row(run)) } }
        }
    }
}

fn row(run: &JobReport) -> Markup {
    html! {
        tr {
            th.n scope="row" { (size(run)) }
            @for strategy in &run.strategies {
                td.n.best[is_best(run, strategy)] { (time(strategy.seconds)) }
            }
            td.n { @if let Some(excess) = chosen_excess(run) { (percent(excess)) } }
        }
    }
}

fn size(run: &JobReport) -> &str {
    run.input.first().map_or("", |fact| fact.value.as_str())
}
