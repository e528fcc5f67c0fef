//! The times of a sweep as lines, both axes logarithmic.

use super::super::units::time;
use super::super::{CHOSEN, time_heading};
use super::px;
use maud::{Markup, html};
use pinfold_apps::report::SweepReport;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 710.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 430.0;
/// Most labels on the horizontal axis.
const TICKS_MAX: usize = 8;
/// Colours that the style sheet has.
const COLORS: usize = 7;

/// One strategy's times by size.
struct Line {
    name: String,
    class: String,
    points: Vec<(f64, f64)>,
}

/// Where a size or a time goes, between the ends of its axis.
struct Scale {
    from: f64,
    to: f64,
    low: f64,
    high: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.low.ln(), self.high.ln());
        self.from + (value.ln() - low) / (high - low) * (self.to - self.from)
    }
}

/// A line for each strategy; nothing where there are not two sizes to draw one between.
pub(super) fn chart(report: &SweepReport) -> Markup {
    let lines = lines(report);
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (least, most) = bounds(points().map(|(size, _)| size));
    let (fastest, slowest) = bounds(points().map(|(_, seconds)| seconds));
    if !(least < most && fastest < slowest) {
        return html! {};
    }
    let x = Scale {
        from: LEFT,
        to: RIGHT,
        low: least,
        high: most,
    };
    let (low, high) = (
        fastest.log10().floor() as i32,
        slowest.log10().ceil() as i32,
    );
    let y = Scale {
        from: BOTTOM,
        to: TOP,
        low: 10f64.powi(low),
        high: 10f64.powi(high),
    };
    let input = report.runs.first().and_then(|run| run.input.first());
    let what = time_heading(&report.device);
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img"
            aria-label=(format!("{what} of each strategy by size")) {
            @for decade in low..=high { (level(&y, 10f64.powi(decade))) }
            (sizes(report, &x))
            text.soft x=(px(LEFT)) y=(px(TOP - 14.0)) { (what) }
            text.soft x=(px(RIGHT)) y=(px(BOTTOM + 42.0)) text-anchor="end" {
                (input.map_or("size", |fact| fact.name.as_str()))
            }
            @for line in &lines { (drawn(line, &x, &y)) }
            @for (number, line) in lines.iter().enumerate() { (legend(line, number)) }
        }
    }
}

fn lines(report: &SweepReport) -> Vec<Line> {
    let Some(first) = report.runs.first() else {
        return Vec::new();
    };
    let named = first
        .strategies
        .iter()
        .enumerate()
        .map(|(number, strategy)| {
            let class = match strategy.name == CHOSEN {
                true => "own".to_owned(),
                false => format!("s{}", number % COLORS),
            };
            let points = report.runs.iter().filter_map(|run| {
                let size = size_of(run)?;
                let same = run.strategies.iter().find(|s| s.name == strategy.name)?;
                (size > 0.0 && same.seconds > 0.0).then_some((size, same.seconds))
            });
            Line {
                name: strategy.name.clone(),
                class,
                points: points.collect(),
            }
        });
    named.collect()
}

/// A run's size: the number that its first fact is.
fn size_of(run: &pinfold_apps::report::JobReport) -> Option<f64> {
    run.input.first()?.value.parse().ok()
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

fn level(y: &Scale, seconds: f64) -> Markup {
    let at = y.at(seconds);
    let label = time(seconds).replace(".00", "").replace(".0", "");
    html! {
        line.grid x1=(px(LEFT)) y1=(px(at)) x2=(px(RIGHT)) y2=(px(at)) {}
        text.soft x=(px(LEFT - 8.0)) y=(px(at + 4.5)) text-anchor="end" { (label) }
    }
}

fn sizes(report: &SweepReport, x: &Scale) -> Markup {
    let every = report.runs.len().div_ceil(TICKS_MAX).max(1);
    html! {
        @for size in report.runs.iter().step_by(every).filter_map(size_of).filter(|s| *s > 0.0) {
            line.grid x1=(px(x.at(size))) y1=(px(TOP)) x2=(px(x.at(size))) y2=(px(BOTTOM + 5.0)) {}
            text.soft x=(px(x.at(size))) y=(px(BOTTOM + 22.0)) text-anchor="middle" {
                (short(size))
            }
        }
    }
}

/// A power of two by its exponent, as long as it is large; other numbers in digits.
fn short(size: f64) -> String {
    let exponent = size.log2();
    match exponent >= 10.0 && exponent.fract() == 0.0 {
        true => format!("2^{exponent}"),
        false => format!("{size}"),
    }
}

fn drawn(line: &Line, x: &Scale, y: &Scale) -> Markup {
    let at: Vec<(f64, f64)> = line
        .points
        .iter()
        .map(|(s, t)| (x.at(*s), y.at(*t)))
        .collect();
    let path: Vec<String> = at.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    html! {
        g class=(line.class) {
            polyline.line.chosen[line.name == CHOSEN] points=(path.join(" ")) {}
            @for ((x, y), (size, seconds)) in at.iter().zip(&line.points) {
                circle.dot cx=(px(*x)) cy=(px(*y)) r="3" {
                    title { (line.name) ", " (size) ": " (time(*seconds)) }
                }
            }
        }
    }
}

fn legend(line: &Line, number: usize) -> Markup {
    let y = TOP + 12.0 + 26.0 * number as f64;
    html! {
        g class=(line.class) {
            line.line.chosen[line.name == CHOSEN] x1=(px(RIGHT + 24.0)) y1=(px(y))
                x2=(px(RIGHT + 56.0)) y2=(px(y)) {}
        }
        text x=(px(RIGHT + 66.0)) y=(px(y + 4.5)) { (line.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_logarithmic() {
        let scale = Scale {
            from: 0.0,
            to: 100.0,
            low: 1.0,
            high: 100.0,
        };
        assert!((scale.at(10.0) - 50.0).abs() < 1e-9);
        assert_eq!((scale.at(1.0), scale.at(100.0)), (0.0, 100.0));
    }

    #[test]
    fn powers_of_two_are_told_by_their_exponent() {
        assert_eq!(
            [8192.0, 512.0, 10_000.0].map(short),
            ["2^13", "512", "10000"]
        );
    }
}
