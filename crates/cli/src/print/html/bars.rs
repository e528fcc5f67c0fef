//! The times of one job as bars.

use super::super::units::{time, time_unit};
use super::super::{is_chosen, row_name, time_heading};
use super::drawing::{self, WIDTH, px, short};
use maud::{Markup, html};
use pinfold_apps::report::{JobReport, StrategyResult};

/// Room for names on the left.
const NAMES: f64 = 330.0;
/// Room for times on the right.
const TIMES: f64 = 90.0;
const ROW: f64 = 32.0;
const BAR: f64 = 20.0;
/// Half the height of the ends of a range.
const CAP: f64 = 5.0;
/// Room for the axis below.
const AXIS: f64 = 50.0;

/// A bar for each strategy, from zero, with the range of its runs.
pub(super) fn chart(report: &JobReport) -> Markup {
    let longest = report
        .strategies
        .iter()
        .map(|s| s.seconds_max.max(s.seconds));
    let longest = longest.filter(|s| s.is_finite()).fold(0.0, f64::max);
    if longest <= 0.0 {
        return html! {};
    }
    let scale = (WIDTH - NAMES - TIMES) / longest;
    let bottom = ROW * report.strategies.len() as f64;
    let heading = time_heading(&report.device);
    let told: Vec<String> = report
        .strategies
        .iter()
        .map(|s| format!("{}: {}", row_name(report, s), time(s.seconds)))
        .collect();
    let drawing = html! {
        (axis(longest, scale, bottom, heading))
        @for (number, strategy) in report.strategies.iter().enumerate() {
            (bar(report, strategy, ROW * number as f64, scale))
        }
        line.axis x1=(px(NAMES)) y1="0" x2=(px(NAMES)) y2=(px(bottom)) {}
    };
    drawing::chart(
        "bars",
        bottom + AXIS,
        &format!("{heading} of each strategy"),
        &told.join("; "),
        &drawing,
    )
}

fn bar(report: &JobReport, strategy: &StrategyResult, top: f64, scale: f64) -> Markup {
    let chosen = is_chosen(report, strategy);
    let middle = top + ROW / 2.0;
    let seconds = if strategy.seconds.is_finite() {
        strategy.seconds
    } else {
        0.0
    };
    let end = NAMES + strategy.seconds_max.max(seconds) * scale;
    html! {
        text.strong[chosen] x=(px(NAMES - 10.0)) y=(px(middle + 4.5)) text-anchor="end" {
            (row_name(report, strategy))
        }
        rect.bar.chosen[chosen] x=(px(NAMES)) y=(px(middle - BAR / 2.0)) width=(px(seconds * scale))
            height=(px(BAR)) {
            title { (row_name(report, strategy)) ": " (strategy.placement) }
        }
        @if strategy.seconds_max > strategy.seconds_min {
            (range(NAMES + strategy.seconds_min * scale, end, middle))
        }
        text.strong[chosen] x=(px(end + 8.0)) y=(px(middle + 4.5)) { (time(strategy.seconds)) }
    }
}

/// From the fastest run to the slowest.
fn range(from: f64, to: f64, y: f64) -> Markup {
    let ends = [from, to].map(|x| format!("M{x:.1},{:.1}v{:.1}", y - CAP, 2.0 * CAP));
    html! { path.range d=(format!("M{from:.1},{y:.1}H{to:.1}{}", ends.concat())) {} }
}

fn axis(longest: f64, scale: f64, bottom: f64, label: &str) -> Markup {
    let (unit_seconds, unit) = time_unit(longest);
    let step = round_step(longest / unit_seconds / 5.0);
    let ticks = (longest / unit_seconds / step) as u32;
    html! {
        @for tick in 0..=ticks {
            @let value = f64::from(tick) * step;
            @let x = NAMES + value * unit_seconds * scale;
            line.grid x1=(px(x)) y1="0" x2=(px(x)) y2=(px(bottom + 4.0)) {}
            text.soft x=(px(x)) y=(px(bottom + 20.0)) text-anchor="middle" { (short(value)) }
        }
        text x=(px((NAMES + WIDTH - TIMES) / 2.0)) y=(px(bottom + 42.0)) text-anchor="middle" {
            (label) " in " (unit)
        }
    }
}

/// The next number up of 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= least);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        assert_eq!(
            [0.07, 1.0, 1.4, 3.0, 6.0, 51.0].map(round_step),
            [0.1, 1.0, 2.0, 5.0, 10.0, 100.0]
        );
    }
}
