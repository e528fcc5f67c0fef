//! What this machine is, as HTML.

use super::super::facts::{self, Row};
use super::page;
use maud::{Markup, html};
use pinfold::probe::ProbeReport;
use pinfold::probe::machine::Level;

/// A probe's report as an HTML page.
pub fn probe(report: &ProbeReport) -> String {
    let simulated = report.devices.iter().any(|device| device.info.simulated);
    let body = html! {
        @if let Some(notice) = &report.notice { p.facts { (notice) } }
        h2 { "Backends" }
        (rows(&facts::backends(&report.backends)))
        h2 { "Devices" }
        @for device in &report.devices {
            h3 { (device.choice) ": " (device.info.name) }
            (rows(&facts::device(&device.info)))
        }
        h2 { "Host memory" }
        @if simulated { p.facts { "Of this machine: only the device is simulated." } }
        (rows(&facts::host(&report.machine)))
        h2 { "Limits" }
        (rows(&facts::limits(report)))
        @for device in &report.devices {
            h2 { "What it means: " (device.choice) }
            table.rows {
                @for m in &device.meanings { (finding(m.level, m.title, &m.meaning, m.advice)) }
            }
        }
        h2 { "What it means: the host" }
        table.rows {
            @for f in &report.findings {
                (finding(f.level, f.title, &f.meaning, f.advice.as_deref()))
            }
        }
    };
    page(
        "this machine, as far as host memory for GPUs goes",
        simulated,
        body,
    )
}

fn rows(rows: &[Row]) -> Markup {
    html! { table.rows { @for (name, value) in rows { tr { th { (name) } td { (value) } } } } }
}

fn finding(level: Level, title: &str, meaning: &str, advice: Option<&str>) -> Markup {
    let word = match level {
        Level::Warning => "warning",
        Level::Note => "note",
        Level::Info => "info",
    };
    html! {
        tr {
            th class=(word) { (word) }
            td {
                strong { (title) "." } " " (meaning)
                @if let Some(advice) = advice { br; "→ " (advice) }
            }
        }
    }
}
