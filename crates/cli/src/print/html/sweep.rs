//! One job over several inputs, as HTML.

use super::super::units::{percent, time};
use super::super::{best_seconds, chosen_excess, time_heading};
use super::{lines, page, title_of};
use maud::{Markup, html};
use pinfold_apps::report::{JobReport, SweepReport};

/// A sweep's report as an HTML page.
pub fn sweep(report: &SweepReport) -> String {
    let body = html! {
        (lines::chart(report))
        h2 { "All of it: " (time_heading(&report.device)) }
        .scroll { (table(report)) }
        h2 { "Why each was chosen" }
        .scroll {
            table.rows {
                @for run in &report.runs {
                    tr { th { (size(run)) } td { (run.chosen) } td { (run.reason) } }
                }
            }
        }
    };
    page(
        &title_of(&report.job, &report.device),
        report.device.simulated,
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
                    th.n { (first.input.first().map_or("input", |fact| fact.name.as_str())) }
                    @for strategy in &first.strategies { th.n { (strategy.name) } }
                    th.n { "to best" }
                }
            }
            tbody { @for run in &report.runs { (row(run)) } }
        }
    }
}

fn row(run: &JobReport) -> Markup {
    let best = best_seconds(run);
    html! {
        tr {
            td.n { (size(run)) }
            @for strategy in &run.strategies {
                td.n.best[strategy.seconds <= best] { (time(strategy.seconds)) }
            }
            td.n { @if let Some(excess) = chosen_excess(run) { (percent(excess)) } }
        }
    }
}

fn size(run: &JobReport) -> &str {
    run.input.first().map_or("", |fact| fact.value.as_str())
}
