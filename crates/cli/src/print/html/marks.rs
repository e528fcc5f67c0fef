//! How lines are told apart: by colour and by the shape of their marks.

use super::drawing::px;

/// Colours that the style sheet has.
const COLORS: usize = 7;
/// Half the size of a mark.
const HALF: f64 = 4.0;

/// The class of a strategy, which has its colour.
pub(super) fn class(number: usize) -> String {
    format!("s{}", number % COLORS)
}

/// A strategy's mark around a point, as the data of a path.
pub(super) fn shape(number: usize, x: f64, y: f64) -> String {
    let h = HALF;
    let corner = |dx: f64, dy: f64| format!("{},{}", px(x + dx * h), px(y + dy * h));
    let polygon = |corners: &[(f64, f64)]| {
        let corners: Vec<String> = corners.iter().map(|(dx, dy)| corner(*dx, *dy)).collect();
        format!("M{}Z", corners.join("L"))
    };
    match number % 5 {
        0 => format!(
            "M{}a{h},{h} 0 1,0 {d},0a{h},{h} 0 1,0 -{d},0Z",
            corner(-1.0, 0.0),
            d = 2.0 * h
        ),
        1 => polygon(&[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]),
        2 => polygon(&[(0.0, -1.2), (1.2, 1.0), (-1.2, 1.0)]),
        3 => polygon(&[(0.0, -1.4), (1.4, 0.0), (0.0, 1.4), (-1.4, 0.0)]),
        _ => polygon(&[(0.0, 1.2), (1.2, -1.0), (-1.2, -1.0)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_of_the_first_35_strategies_look_alike() {
        let looks: BTreeSet<_> = (0..35).map(|n| (class(n), shape(n, 0.0, 0.0))).collect();
        assert_eq!(looks.len(), 35);
    }
}
