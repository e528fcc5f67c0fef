//! The memory of a job, as HTML.

use maud::{Markup, html};
use pinfold::Bytes;
use pinfold::track::MemoryReport;

/// By kind, then by the line of code that asked.
pub(super) fn memory(report: &MemoryReport) -> Markup {
    html! {
        h2 { "Memory at the end" }
        .scroll {
            table {
                thead { (headings("kind", ["live", "held", "at most", "taken"])) }
                tbody {
                    @for (kind, books) in &report.stats.kinds {
                        tr {
                            th scope="row" { (kind) }
                            td.n { (books.blocks) }
                            td.n { (Bytes(books.held_bytes)) }
                            td.n { (Bytes(books.held_bytes_peak)) }
                            td.n { (books.taken) }
                        }
                    }
                }
            }
        }
        .scroll {
            table {
                thead { (headings("asked for by", ["live", "held", "taken", "asked for"])) }
                tbody {
                    @for site in &report.sites {
                        tr {
                            th scope="row" { (site.site) span.placement { (site.kind) } }
                            td.n { (site.blocks) }
                            td.n { (Bytes(site.held_bytes)) }
                            td.n { (site.taken) }
                            td.n { (Bytes(site.taken_bytes)) }
                        }
                    }
                }
            }
        }
    }
}

fn headings<const N: usize>(first: &str, rest: [&str; N]) -> Markup {
    html! {
        tr {
            th scope="col" { (first) }
            @for heading in rest { th.n scope="col" { (heading) } }
        }
    }
}
