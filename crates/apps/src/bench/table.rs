//! What measured figures are shown in: matrices of one quantity by size and way, and curves over
//! sizes. Plain data, computed here; printers decide how it looks.

use crate::report::{DeviceLabel, Fact};
use pinfold::Device;
use pinfold::measure::median;
use serde::Serialize;

/// A median with its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The median.
    pub value: f64,
    /// The smallest.
    pub value_min: f64,
    /// The largest.
    pub value_max: f64,
    /// How often it was measured.
    pub repeats: usize,
}

impl Figure {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        let value = median(&mut values);
        Figure {
            value,
            value_min: values.first().copied().unwrap_or(0.0),
            value_max: values.last().copied().unwrap_or(0.0),
            repeats: values.len(),
        }
    }

    /// The rate in GB/s of so many bytes that took this many nanoseconds; fast is the largest.
    pub(crate) fn rate(self, bytes: f64) -> Self {
        Figure {
            value: bytes / self.value,
            value_min: bytes / self.value_max,
            value_max: bytes / self.value_min,
            repeats: self.repeats,
        }
    }

    /// The same, multiplied.
    pub(crate) fn times(self, factor: f64) -> Self {
        Figure {
            value: self.value * factor,
            value_min: self.value_min * factor,
            value_max: self.value_max * factor,
            repeats: self.repeats,
        }
    }
}

/// One quantity in rows and columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What was measured, and on which memory.
    pub title: String,
    /// What the rows are.
    pub rows_are: String,
    /// `ns`, `GB/s`, `%` or `points`: of every figure.
    pub unit: &'static str,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<TableRow>,
    /// Single measurements: for data and for a page that folds, too many for a terminal.
    pub details: bool,
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableRow {
    /// Its name.
    pub name: String,
    /// A figure for each column, where there is one.
    pub figures: Vec<Option<Figure>>,
}

impl Table {
    pub(crate) fn new(title: &str, rows_are: &str, unit: &'static str, columns: &[&str]) -> Self {
        Table {
            title: title.to_owned(),
            rows_are: rows_are.to_owned(),
            unit,
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            rows: Vec::new(),
            details: false,
        }
    }

    pub(crate) fn row(&mut self, name: impl ToString, figures: Vec<Option<Figure>>) {
        self.rows.push(TableRow {
            name: name.to_string(),
            figures,
        });
    }

    /// The figure of a row and a column by their names.
    pub fn figure(&self, row: &str, column: &str) -> Option<Figure> {
        let column = self.columns.iter().position(|name| name == column)?;
        let row = self.rows.iter().find(|r| r.name == row)?;
        row.figures.get(column).copied().flatten()
    }
}

/// What a line of a chart is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineKind {
    /// Medians.
    Measured,
    /// What the model says.
    Predicted,
    /// What physics allows.
    Ceiling,
}

/// One line of a chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChartLine {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: LineKind,
    /// Places by bytes and GB/s, ascending.
    pub points: Vec<(f64, f64)>,
}

/// Rates over sizes, both on logarithmic scales.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// What it shows, and on which memory.
    pub title: String,
    /// What the horizontal axis is.
    pub across: String,
    /// The lines.
    pub lines: Vec<ChartLine>,
}

/// A report of tables and curves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TablesReport {
    /// The benchmark's name.
    pub bench: String,
    /// The device.
    pub device: DeviceLabel,
    /// What else the figures depend on, such as the link under load.
    pub machine: Vec<Fact>,
    /// What was measured.
    pub tables: Vec<Table>,
    /// The same as curves, where a curve tells more.
    pub charts: Vec<Chart>,
    /// What follows.
    pub findings: Vec<Fact>,
}

impl TablesReport {
    pub(crate) fn new(bench: &str, device: &Device) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        TablesReport {
            bench: bench.to_owned(),
            device: DeviceLabel::of(device),
            machine: vec![Fact::new("processors", processors)],
            tables: Vec::new(),
            charts: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Notes how many times larger a table's figure is in one column than in another.
    pub(crate) fn ratio(&mut self, what: &str, table: &Table, row: &str, over: &str, under: &str) {
        let figures = table.figure(row, over).zip(table.figure(row, under));
        let Some((over, under)) = figures.filter(|(_, under)| under.value > 0.0) else {
            return;
        };
        let word = match self.device.simulated {
            true => " (simulated)",
            false => "",
        };
        let text = format!("{:.1}×{word}", over.value / under.value);
        self.findings.push(Fact::new(what, text));
    }

    /// A table by the beginning of its title.
    pub fn table(&self, title: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.title.starts_with(title))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_turns_least_and_most_around() {
        let ns = Figure::of(vec![4.0, 1.0, 2.0]);
        assert_eq!((ns.value, ns.value_min, ns.value_max), (2.0, 1.0, 4.0));
        let rate = ns.rate(8.0);
        assert_eq!(
            (rate.value, rate.value_min, rate.value_max),
            (4.0, 2.0, 8.0)
        );
        assert_eq!(rate.repeats, 3);
    }

    #[test]
    fn a_figure_is_found_by_its_names() {
        let mut table = Table::new("copies", "size", "GB/s", &["a", "b"]);
        table.row("1 KiB", vec![None, Some(Figure::of(vec![7.0]))]);
        assert_eq!(table.figure("1 KiB", "b").map(|f| f.value), Some(7.0));
        assert_eq!(table.figure("1 KiB", "a"), None);
        assert_eq!(table.figure("2 KiB", "b"), None);
    }
}
