//! Tables of figures, as text.

use super::super::{one_line, units};
use super::bench::findings;
use super::{Column, Kind, Page, Sheet, Style, WIDTH_WITH_ALL};
use pinfold_apps::bench::table::{Figure, Table, TablesReport};

/// A report of tables as text.
pub fn tables(report: &TablesReport, page: &Page) -> String {
    let mut sheet = Sheet::new(page);
    let title = format!("bench {} on {}", report.bench, report.device.name);
    sheet.paragraph(&title, Some(Style::Bold));
    let facts = report.machine.iter();
    let facts = facts.map(|f| format!("{} {}", f.name, f.value));
    sheet.paragraph(&facts.collect::<Vec<_>>().join(" · "), None);
    for table in report.tables.iter().filter(|table| !table.details) {
        let unit = match table.unit {
            "ns" => String::new(),
            unit => format!(", {unit}"),
        };
        let word = if report.device.simulated {
            " (simulated)"
        } else {
            ""
        };
        sheet.heading(&one_line(&format!("{}{unit}{word}", table.title)));
        let mut columns = vec![Column::new(table.rows_are.clone(), Kind::Words)];
        let names = table.columns.iter();
        columns.extend(names.map(|name| Column::new(name.clone(), Kind::Number)));
        let rows = table.rows.iter().map(|row| {
            let figures = row.figures.iter().map(|f| shown(*f, table, page));
            std::iter::once(row.name.clone()).chain(figures).collect()
        });
        let rows: Vec<Vec<String>> = rows.collect();
        sheet.table(&columns, &rows, None);
    }
    for table in report.tables.iter().filter(|table| table.details) {
        let rows = table.rows.len();
        let note = format!("{}: {rows} rows, with --json or --html.", table.title);
        sheet.paragraph(&note, None);
    }
    sheet.blank();
    findings(&mut sheet, &report.findings);
    if page.width >= WIDTH_WITH_ALL {
        sheet.paragraph(units::SPREAD_MEANS, None);
    }
    if report.device.simulated {
        let note = "No real device ran: data is checked for real, times are simulated.";
        sheet.paragraph(note, Some(Style::Yellow));
    }
    sheet.text
}

/// A median, with its spread where the page has room and there is one.
fn shown(figure: Option<Figure>, table: &Table, page: &Page) -> String {
    let Some(figure) = figure else {
        return units::figure(f64::NAN, table.unit);
    };
    let value = units::figure(figure.value, table.unit);
    match figure.repeats > 1 && page.width >= WIDTH_WITH_ALL {
        true => {
            let spread = units::spread(figure.value, figure.value_min, figure.value_max);
            format!("{value} {spread}")
        }
        false => value,
    }
}
