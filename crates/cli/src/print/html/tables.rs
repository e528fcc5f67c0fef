//! Tables of figures and their curves, as HTML.

use super::super::units;
use super::curves;
use super::page;
use maud::{Markup, html};
use pinfold_apps::bench::table::{Figure, Table, TablesReport};

/// A report of tables as an HTML page.
pub fn tables(report: &TablesReport) -> String {
    let simulated = report.device.simulated;
    let body = html! {
        p.facts {
            @for (n, fact) in report.machine.iter().enumerate() {
                @if n > 0 { " · " }
                (fact.name) " " (fact.value)
            }
        }
        @for (number, chart) in report.charts.iter().enumerate() {
            h2 { (chart.title) @if simulated { " (simulated)" } }
            (curves::chart(chart, number, simulated))
        }
        h2 { "What follows" }
        table.rows {
            @for finding in &report.findings {
                tr { th scope="row" { (finding.name) } td { (finding.value) } }
            }
        }
        @for table in &report.tables {
            h2 { (table.title) @if simulated { " (simulated)" } }
            @if table.details {
                details { summary { (table.rows.len()) " rows" } .scroll { (matrix(table)) } }
            } @else {
                .scroll { (matrix(table)) }
            }
        }
        p.facts { (units::SPREAD_MEANS) }
    };
    page(
        &format!("bench {} on {}", report.bench, report.device.name),
        simulated.then_some("No real device ran: data is checked for real, times are simulated."),
        body,
    )
}

fn matrix(table: &Table) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th scope="col" { (table.rows_are) @if table.unit != "ns" { ", " (table.unit) } }
                    @for name in &table.columns { th.n scope="col" { (name) } }
                }
            }
            tbody {
                @for row in &table.rows {
                    tr {
                        th scope="row" { (row.name) }
                        @for figure in &row.figures { (cell(*figure, table.unit)) }
                    }
                }
            }
        }
    }
}

fn cell(figure: Option<Figure>, unit: &str) -> Markup {
    let Some(figure) = figure else {
        return html! { td.n { (units::figure(f64::NAN, unit)) } };
    };
    html! {
        td.n {
            (units::figure(figure.value, unit))
            @if figure.repeats > 1 {
                span.spread {
                    " " (units::spread(figure.value, figure.value_min, figure.value_max))
                }
            }
        }
    }
}
