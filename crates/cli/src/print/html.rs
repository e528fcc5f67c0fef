//! Reports as one self-contained HTML file each: no network, no scripts, light and dark, to print.

mod bars;
mod bench;
mod curves;
mod drawing;
mod job;
mod lines;
mod marks;
mod memory;
mod probe;
mod sweep;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pinfold_apps::report::DeviceLabel;

pub use bench::bench;
pub use job::job;
pub use probe::probe;
pub use sweep::sweep;
pub use tables::tables;

/// The look of every page.
const STYLE: &str = include_str!("html/style.css");

/// A whole page. `simulated` says what is, on a page where something is.
fn page(title: &str, simulated: Option<&str>, body: Markup) -> String {
    let word = if simulated.is_some() {
        " (simulated)"
    } else {
        ""
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "pinfold: " (title) (word) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    @if let Some(what) = simulated {
                        p.simulated { strong.badge { "simulated" } " " (what) }
                    }
                    (body)
                }
                footer { "Made by pinfold " (env!("CARGO_PKG_VERSION")) "." }
            }
        }
    };
    page.into_string()
}

/// What ran on what.
fn title_of(job: &str, device: &DeviceLabel) -> String {
    format!("{job} on {}", device.name)
}

/// What is simulated where a job ran.
fn simulated_times(device: &DeviceLabel) -> Option<&'static str> {
    device
        .simulated
        .then_some("No real device ran: results are checked for real, times are simulated.")
}
