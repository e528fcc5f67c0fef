//! Numbers as people read them.

/// What stands where a number is not one.
const NOTHING: &str = "–";

/// What stands behind a median.
pub(crate) const SPREAD_MEANS: &str = "Medians; ± is half of the way from least to most.";

/// Units of time with their length in seconds, from the longest.
const TIMES: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];

/// A time in the unit that suits it, with three digits: `28.6 µs`.
pub(crate) fn time(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return NOTHING.to_owned();
    }
    let (unit_seconds, name) = time_unit(seconds);
    format!("{} {name}", three_digits(seconds / unit_seconds))
}

/// The unit that suits a time, with its length in seconds.
pub(crate) fn time_unit(seconds: f64) -> (f64, &'static str) {
    // 999.5 µs would be shown as 1000 µs.
    let fits = |unit: &&(f64, &str)| seconds >= 0.9995 * unit.0;
    *TIMES.iter().find(fits).unwrap_or(&TIMES[3])
}

/// Three digits that count, as long as there are not more before the point.
fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A measured value with its unit; times in the unit that suits them.
pub(crate) fn measured(value: f64, unit: &str) -> String {
    match unit {
        "ns" => time(value * 1e-9),
        _ if value.is_finite() => format!("{} {unit}", three_digits(value)),
        _ => NOTHING.to_owned(),
    }
}

/// A figure of a table that says its unit elsewhere; times have theirs.
pub(crate) fn figure(value: f64, unit: &str) -> String {
    match unit {
        "ns" => time(value * 1e-9),
        _ if value.is_finite() => three_digits(value),
        _ => NOTHING.to_owned(),
    }
}

/// How many times as much: `1.00×`.
pub(crate) fn ratio(value: f64) -> String {
    match value.is_finite() {
        true => format!("{}×", three_digits(value)),
        false => NOTHING.to_owned(),
    }
}

/// Half of a range as a share of the middle: `±3.1%`.
pub(crate) fn spread(middle: f64, least: f64, most: f64) -> String {
    let half = 50.0 * (most - least) / middle;
    match half {
        h if !h.is_finite() => NOTHING.to_owned(),
        h if h >= 9.95 => format!("±{h:.0}%"),
        h => format!("±{h:.1}%"),
    }
}

/// A share in percent: `2.1 %`.
pub(crate) fn percent(share: f64) -> String {
    match share.is_finite() {
        true => format!("{:.1} %", 100.0 * share),
        false => NOTHING.to_owned(),
    }
}

/// A relative error: `3.1e-8`.
pub(crate) fn error(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v.is_finite() => format!("{v:.1e}"),
        _ => NOTHING.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_the_unit_that_suits_them() {
        let shown = [
            0.0,
            2.34e-9,
            99.96e-9,
            28.64e-6,
            999.6e-6,
            0.162,
            19.0,
            1234.0,
            f64::NAN,
        ]
        .map(time);
        let want = [
            "0.00 ns", "2.34 ns", "100 ns", "28.6 µs", "1.00 ms", "162 ms", "19.0 s", "1234 s", "–",
        ];
        assert_eq!(shown, want);
    }

    #[test]
    fn shares_and_ratios_are_short() {
        assert_eq!(
            [1.0, 7.575, 31.25, 999.9].map(ratio),
            ["1.00×", "7.58×", "31.2×", "1000×"]
        );
        assert_eq!(spread(100.0, 95.0, 105.0), "±5.0%");
        assert_eq!(spread(100.0, 50.0, 150.0), "±50%");
        assert_eq!(spread(0.0, 0.0, 0.0), "–");
        assert_eq!([0.0, 0.0214].map(percent), ["0.0 %", "2.1 %"]);
        assert_eq!(
            [0.0, 3.14e-8, f64::INFINITY].map(error),
            ["0", "3.1e-8", "–"]
        );
    }
}
