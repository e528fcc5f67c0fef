//! What this machine is, as text.

use super::super::facts::{self, Row};
use super::{Page, Sheet, Style};
use pinfold::probe::machine::Level;
use pinfold::probe::{ProbeReport, ProbedDevice};

/// Where values begin, behind their names.
const COLUMN: usize = 15;

/// A probe's report as text.
pub fn probe(report: &ProbeReport, page: &Page) -> String {
    let mut sheet = Sheet::new(page);
    sheet
        .text
        .push_str(&Style::Bold.paint("This machine, as far as host memory for GPUs goes", page));
    sheet.blank();
    if let Some(notice) = &report.notice {
        sheet.blank();
        sheet.labelled(0, "note:", Some(Style::Yellow), 6, notice);
    }
    sheet.heading("Backends");
    rows(&mut sheet, 2, &facts::backends(&report.backends));
    sheet.heading("Devices");
    for device in &report.devices {
        let choice = &device.choice;
        sheet.labelled(2, choice, Some(Style::Cyan), COLUMN, &device.info.name);
        rows(&mut sheet, 4, &facts::device(&device.info));
    }
    let simulated = report.devices.iter().any(|device| device.info.simulated);
    sheet.heading(match simulated {
        true => "Host memory (of this machine; only the device is simulated)",
        false => "Host memory",
    });
    rows(&mut sheet, 2, &facts::host(&report.machine));
    sheet.heading("Limits");
    rows(&mut sheet, 2, &facts::limits(report));
    meanings(&mut sheet, report);
    sheet.text
}

fn rows(sheet: &mut Sheet<'_>, indent: usize, rows: &[Row]) {
    for (name, value) in rows {
        sheet.labelled(indent, name, None, COLUMN + 2 - indent, value);
    }
}

fn meanings(sheet: &mut Sheet<'_>, report: &ProbeReport) {
    let told = |device: &&ProbedDevice| !device.meanings.is_empty();
    for device in report.devices.iter().filter(told) {
        sheet.heading(&format!(
            "What it means: {} ({})",
            device.choice, device.info.name
        ));
        for m in &device.meanings {
            finding(sheet, m.level, m.title, &m.meaning, m.advice);
        }
    }
    if !report.findings.is_empty() {
        sheet.heading("What it means: the host");
    }
    for f in &report.findings {
        finding(sheet, f.level, f.title, &f.meaning, f.advice.as_deref());
    }
}

fn finding(sheet: &mut Sheet<'_>, level: Level, title: &str, meaning: &str, advice: Option<&str>) {
    let (label, style) = match level {
        Level::Warning => ("warning", Style::Red),
        Level::Note => ("note", Style::Yellow),
        Level::Info => ("info", Style::Cyan),
    };
    sheet.labelled(2, label, Some(style), 9, &format!("{title}. {meaning}"));
    if let Some(advice) = advice {
        sheet.labelled(11, "→", None, 2, advice);
    }
}
