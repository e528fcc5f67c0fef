//! What charts have in common: their frame, which tells in words what they show, and coordinates.

use maud::{Markup, html};

/// Width of every chart, in the units that its drawing uses.
pub(super) const WIDTH: f64 = 960.0;

/// A chart with a title and a description for those who cannot see it. `id` is its own on the page.
pub(super) fn chart(
    id: &str,
    height: f64,
    title: &str,
    description: &str,
    drawing: &Markup,
) -> Markup {
    let (title_id, description_id) = (format!("{id}-title"), format!("{id}-description"));
    html! {
        .scroll {
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img"
                aria-labelledby=(title_id) aria-describedby=(description_id) {
                title id=(title_id) { (title) }
                desc id=(description_id) { (description) }
                (drawing)
            }
        }
    }
}

/// A coordinate: a tenth of a pixel is enough.
pub(super) fn px(value: f64) -> String {
    format!("{value:.1}")
}

/// A number without digits that say nothing.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lose_digits_that_say_nothing() {
        assert_eq!([0.0, 0.2 * 3.0, 50.0].map(short), ["0", "0.6", "50"]);
        assert_eq!([0.04, 1234.56].map(px), ["0.0", "1234.6"]);
    }
}
