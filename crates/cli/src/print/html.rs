//! Reports as one self-contained HTML file each: no network, no scripts, light and dark.

mod bars;
mod job;
mod lines;
mod probe;
mod sweep;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pinfold_apps::report::DeviceLabel;

pub use job::job;
pub use probe::probe;
pub use sweep::sweep;

/// The look of every page.
const STYLE: &str = include_str!("html/style.css");

/// A whole page. `simulated` goes into the title, too.
fn page(title: &str, simulated: bool, body: Markup) -> String {
    let word = if simulated { " (simulated)" } else { "" };
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
                h1 { (title) }
                @if simulated {
                    p.simulated {
                        strong { "Simulated." }
                        " The device is a simulation: results are checked for real, times are \
                         simulated."
                    }
                }
                (body)
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

/// A coordinate in a drawing: a tenth of a pixel is enough.
fn px(value: f64) -> String {
    format!("{value:.1}")
}
