//! Printers: reports in, text out. They decide how things look, and nothing else.
//!
//! [`text`] for people at a terminal · [`json`] for programs · [`html`] one file to keep and to
//! pass on · `units` numbers as people read them · `facts` a probe's rows, shared by text and HTML.

mod facts;
pub mod html;
mod json;
pub mod text;
mod units;

use crate::args::Color;
use pinfold::probe::ProbeReport;
use pinfold_apps::bench::BenchReport;
use pinfold_apps::bench::table::TablesReport;
use pinfold_apps::report::{DeviceLabel, JobReport, StrategyResult, SweepReport};
use serde::Serialize;
use std::io::{self, IsTerminal};

pub use json::json;

/// A report that can be shown in every form.
pub trait Printable: Serialize {
    /// For people at a terminal. Ends with a newline.
    fn text(&self, page: &Page) -> String;

    /// One self-contained HTML file.
    fn html(&self) -> String;
}

impl Printable for JobReport {
    fn text(&self, page: &Page) -> String {
        text::job(self, page)
    }

    fn html(&self) -> String {
        html::job(self)
    }
}

impl Printable for SweepReport {
    fn text(&self, page: &Page) -> String {
        text::sweep(self, page)
    }

    fn html(&self) -> String {
        html::sweep(self)
    }
}

impl Printable for BenchReport {
    fn text(&self, page: &Page) -> String {
        text::bench(self, page)
    }

    fn html(&self) -> String {
        html::bench(self)
    }
}

impl Printable for TablesReport {
    fn text(&self, page: &Page) -> String {
        text::tables(self, page)
    }

    fn html(&self) -> String {
        html::tables(self)
    }
}

impl Printable for ProbeReport {
    fn text(&self, page: &Page) -> String {
        text::probe(self, page)
    }

    fn html(&self) -> String {
        html::probe(self)
    }
}

/// Widest text, in columns.
const WIDTH_MAX: u16 = 100;
/// Below this, text is not squeezed further.
const WIDTH_MIN: u16 = 80;

/// What text is written onto.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Columns that may be used.
    pub width: u16,
    /// Whether to colour.
    pub color: bool,
}

impl Page {
    /// Without colour, as wide as text gets.
    pub const PLAIN: Page = Page {
        width: WIDTH_MAX,
        color: false,
    };

    /// What standard output is: as wide as the variable COLUMNS says, else as its terminal is,
    /// within limits.
    pub fn of_stdout(color: Color) -> Self {
        let asked = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        // Knows no width where standard output is no terminal.
        let terminal = || comfy_table::Table::new().width();
        let width = asked.or_else(terminal).unwrap_or(WIDTH_MAX);
        Page {
            width: width.clamp(WIDTH_MIN, WIDTH_MAX),
            color: wants_color(color, io::stdout().is_terminal()),
        }
    }
}

/// Whether to colour: as asked, and where nothing was asked, on a terminal that can, unless the
/// environment objects (<https://no-color.org>).
pub(crate) fn wants_color(asked: Color, is_terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    match asked {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let dumb = set("TERM").is_some_and(|term| term == "dumb");
            is_terminal && !dumb && set("NO_COLOR").is_none()
        }
    }
}

/// Text that stays on its line and does nothing to a terminal: control characters are written out,
/// as a file's name may hold some.
pub(crate) fn one_line(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => clean.extend(c.escape_default()),
            c => clean.push(c),
        }
    }
    clean
}

/// The strategy's name that stands for pinfold's own choice.
const CHOSEN: &str = "chosen";

/// True for the row to mark: pinfold's own, or where there is none, the strategy that it names.
fn is_chosen(report: &JobReport, strategy: &StrategyResult) -> bool {
    let own = report.strategies.iter().any(|s| s.name == CHOSEN);
    strategy.name == if own { CHOSEN } else { report.chosen.as_str() }
}

/// What a row is called: pinfold's own says what it chose.
fn row_name(report: &JobReport, strategy: &StrategyResult) -> String {
    match strategy.name == CHOSEN && report.chosen != CHOSEN {
        true => format!("{CHOSEN}: {}", report.chosen),
        false => strategy.name.clone(),
    }
}

/// The shortest time of a report.
fn best_seconds(report: &JobReport) -> f64 {
    let times = report.strategies.iter().map(|s| s.seconds);
    times.fold(f64::INFINITY, f64::min)
}

/// How much longer than the best the chosen strategy took: 0 where it is the best.
fn chosen_excess(report: &JobReport) -> Option<f64> {
    let chosen = report.strategies.iter().find(|s| is_chosen(report, s))?;
    Some(chosen.seconds / best_seconds(report) - 1.0)
}

/// True where a strategy's time is shown as the shortest: others may tie with it.
fn is_best(report: &JobReport, strategy: &StrategyResult) -> bool {
    units::time(strategy.seconds) == units::time(best_seconds(report))
}

/// How the times of a report came about.
fn how_measured(report: &JobReport) -> String {
    let repeats = report.strategies.iter().map(|s| s.repeats);
    match (repeats.clone().min(), repeats.max()) {
        (Some(1), Some(1)) if report.device.simulated => {
            "one run each; simulated time does not vary".to_owned()
        }
        (Some(1), Some(1)) => "one run each".to_owned(),
        (Some(least), Some(most)) => {
            let runs = match least == most {
                true => most.to_string(),
                false => format!("{least} to {most}"),
            };
            format!("medians of {runs} runs; ± is half of the way from fastest to slowest")
        }
        _ => "none".to_owned(),
    }
}

/// What the columns of bytes and errors show.
const BYTES_MEAN: &str = "up to the device and down from it in one run, copied or used in place";
const ERROR_MEANS: &str = "relative, of each result as checked on the CPU";

/// The heading of times, and what the device's times are.
fn time_heading(device: &DeviceLabel) -> &'static str {
    match device.simulated {
        true => "time (simulated)",
        false => "time",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(one_line("a\nb\u{1b}[31mµ"), "a\\nb\\u{1b}[31mµ");
    }

    #[test]
    fn asking_wins_over_everything() {
        assert!(wants_color(Color::Always, false));
        assert!(!wants_color(Color::Never, true));
        assert!(!wants_color(Color::Auto, false));
    }
}
