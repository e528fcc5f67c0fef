//! A benchmark, as HTML.

use super::super::units;
use super::page;
use maud::html;
use pinfold_apps::bench::BenchReport;

/// A benchmark's report as an HTML page.
pub fn bench(report: &BenchReport) -> String {
    let simulated = report.rows.iter().any(|row| row.simulated);
    let body = html! {
        p.facts {
            @for (n, fact) in report.machine.iter().enumerate() {
                @if n > 0 { " · " }
                (fact.name) " " (fact.value)
            }
        }
        div.scroll {
            table {
                thead {
                    tr {
                        th scope="col" { "measured" }
                        th.n scope="col" { "median" }
                        th.n scope="col" { "least" }
                        th.n scope="col" { "most" }
                        th.n scope="col" { "times" }
                    }
                }
                tbody {
                    @for row in &report.rows {
                        tr {
                            th scope="row" {
                                (row.group) ": " (row.name)
                                @if row.simulated { " (simulated)" }
                            }
                            td.n { (units::measured(row.value, row.unit)) }
                            td.n { (units::measured(row.value_min, row.unit)) }
                            td.n { (units::measured(row.value_max, row.unit)) }
                            td.n { (row.repeats) }
                        }
                    }
                }
            }
        }
        h2 { "What follows" }
        table.rows {
            @for finding in &report.findings {
                tr { th scope="row" { (finding.name) } td { (finding.value) } }
            }
        }
    };
    page(
        &format!("bench {} on {}", report.bench, report.device.name),
        simulated.then_some("What is marked simulated has virtual time in it; all else is real."),
        body,
    )
}
