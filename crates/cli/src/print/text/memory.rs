//! The memory of a job, as text.

use super::{Column, Kind, Sheet, Style};
use pinfold::Bytes;
use pinfold::track::MemoryReport;

/// By kind, then by the line of code that asked.
pub(super) fn memory(sheet: &mut Sheet<'_>, report: &MemoryReport) {
    sheet.blank();
    sheet.paragraph("memory at the end", Some(Style::Bold));
    let columns = |first: &str, rest: &[&str]| -> Vec<Column> {
        let rest = rest
            .iter()
            .map(|heading| Column::new(*heading, Kind::Number));
        [Column::new(first, Kind::Words)]
            .into_iter()
            .chain(rest)
            .collect()
    };
    let kinds = report.stats.kinds.iter().map(|(kind, books)| {
        vec![
            kind.to_string(),
            books.blocks.to_string(),
            Bytes(books.held_bytes).to_string(),
            Bytes(books.held_bytes_peak).to_string(),
            books.taken.to_string(),
        ]
    });
    let headings = ["live", "held", "at most", "taken"];
    sheet.table(
        &columns("kind", &headings),
        &kinds.collect::<Vec<_>>(),
        None,
    );
    sheet.blank();
    let sites = report.sites.iter().map(|site| {
        vec![
            format!("{}\n{}", site.site, site.kind),
            site.blocks.to_string(),
            Bytes(site.held_bytes).to_string(),
            site.taken.to_string(),
            Bytes(site.taken_bytes).to_string(),
        ]
    });
    let headings = ["live", "held", "taken", "asked for"];
    sheet.table(
        &columns("asked for by", &headings),
        &sites.collect::<Vec<_>>(),
        None,
    );
}
