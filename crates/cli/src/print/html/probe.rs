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
        @if let Some(notice) = &report.notice { p.choice { strong { "Note: " } (notice) } }
        h2 { "Backends" }
        (rows(&facts::backends(&report.backends)))
        h2 { "Devices" }
        @for device in &report.devices {
            h3 { (device.choice) ": " (device.info.name) }
            (rows(&facts::device(&device.info)))
        }
        h2 { "Host memory" }
        (rows(&facts::host(&report.machine)))
        h2 { "Limits" }
        (rows(&facts::limits(report)))
        @for device in report.devices.iter().filter(|device| !device.meanings.is_empty()) {
            h2 { "What it means: " (device.choice) " (" (device.info.name) ")" }
            table.rows {
                @for m in &device.meanings { (finding(m.level, m.title, &m.meaning, m.advice)) }
            }
        }
        @if !report.findings.is_empty() {
            h2 { "What it means: the host" }
            table.rows {
                @for f in &report.findings {
                    (finding(f.level, f.title, &f.meaning, f.advice.as_deref()))
                }
            }
        }
    };
    page(
        "This machine, as far as host memory for GPUs goes",
        simulated.then_some("The device is simulated; the host is this machine."),
        body,
    )
}

fn rows(rows: &[Row]) -> Markup {
    html! {
        table.rows {
            @for (name, value) in rows {
                tr { th scope="row" { (name) } td { (value) } }
            }
        }
    }
}

fn finding(level: Level, title: &str, meaning: &str, advice: Option<&str>) -> Markup {
    let word = match level {
        Level::Warning => "warning",
        Level::Note => "note",
        Level::Info => "info",
    };
    html! {
        tr {
            th scope="row" class=(word) { (word) }
            td {
                strong { (title) "." } " " (meaning)
                @if let Some(advice) = advice { p.advice { "→ " (advice) } }
            }
        }
    }
}
