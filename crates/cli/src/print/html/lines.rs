//! A sweep as lines over size, both axes logarithmic.

use super::super::units::{ratio, time, time_unit};
use super::super::{CHOSEN, best_seconds, time_heading};
use super::drawing::{self, px, short};
use super::marks;
use maud::{Markup, html};
use pinfold_apps::report::{JobReport, StrategyResult, SweepReport};

pub(super) const HEIGHT: f64 = 480.0;
pub(super) const LEFT: f64 = 96.0;
pub(super) const RIGHT: f64 = 650.0;
pub(super) const TOP: f64 = 16.0;
pub(super) const BOTTOM: f64 = 420.0;
/// Most labels on the horizontal axis.
const TICKS_MAX: usize = 8;
/// Most labels on the vertical axis.
const LEVELS_MAX: usize = 8;
/// Where the axis of ratios may end, and has its labels.
const RATIOS: [f64; 9] = [1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0];

/// What the vertical axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// The time of a run.
    Time,
    /// How many times as long as the fastest strategy at that size.
    ToBest,
}

impl Quantity {
    fn of(self, run: &JobReport, strategy: &StrategyResult) -> f64 {
        match self {
            Quantity::Time => strategy.seconds,
            Quantity::ToBest => strategy.seconds / best_seconds(run),
        }
    }

    fn shown(self, value: f64) -> String {
        match self {
            Quantity::Time => time(value),
            Quantity::ToBest => ratio(value),
        }
    }

    /// The values between which the axis has labels, enough to hold all from `least` to `most`.
    fn ticks(self, least: f64, most: f64) -> Vec<(f64, String)> {
        let all: Vec<f64> = match self {
            Quantity::Time => (-12..=6).flat_map(one_two_five).collect(),
            Quantity::ToBest => RATIOS.to_vec(),
        };
        let first = all.iter().rposition(|v| *v <= least).unwrap_or(0);
        let last = all.iter().position(|v| *v >= most);
        let held = &all[first..=last.unwrap_or(all.len() - 1).max(first)];
        held.iter().map(|v| (*v, self.label(*v))).collect()
    }

    fn label(self, value: f64) -> String {
        match self {
            Quantity::Time => {
                let (unit_seconds, unit) = time_unit(value);
                format!("{} {unit}", short(value / unit_seconds))
            }
            Quantity::ToBest => format!("{}×", short(value)),
        }
    }

    fn id(self) -> &'static str {
        match self {
            Quantity::Time => "time",
            Quantity::ToBest => "to-best",
        }
    }

    fn name(self, report: &SweepReport) -> String {
        let time = time_heading(&report.device);
        match self {
            Quantity::Time => time.to_owned(),
            Quantity::ToBest => format!("{time}, × fastest"),
        }
    }
}

/// 1, 2 and 5 times a power of ten.
pub(super) fn one_two_five(exponent: i32) -> [f64; 3] {
    [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(exponent))
}

/// One strategy's values by size.
struct Line {
    name: String,
    number: usize,
    points: Vec<(f64, f64)>,
}

impl Line {
    fn is_own(&self) -> bool {
        self.name == CHOSEN
    }

    fn class(&self) -> String {
        match self.is_own() {
            true => "own".to_owned(),
            false => marks::class(self.number),
        }
    }
}

/// Where a value goes, between the ends of its axis.
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Scale {
    pub(super) fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.low.ln(), self.high.ln());
        self.from + (value.ln() - low) / (high - low) * (self.to - self.from)
    }
}

/// A line for each strategy; nothing where there are not two sizes to draw one between.
pub(super) fn chart(report: &SweepReport, quantity: Quantity) -> Markup {
    let lines = lines(report, quantity);
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (smallest, largest) = bounds(points().map(|(size, _)| size));
    let (least, most) = bounds(points().map(|(_, value)| value));
    let ticks = match smallest < largest {
        true => quantity.ticks(least, most),
        false => Vec::new(),
    };
    let ([(low, _), ..], [.., (high, _)]) = (ticks.as_slice(), ticks.as_slice()) else {
        return html! {};
    };
    if low >= high {
        return html! {};
    }
    let x = Scale {
        from: LEFT,
        to: RIGHT,
        low: smallest,
        high: largest,
    };
    let y = Scale {
        from: BOTTOM,
        to: TOP,
        low: *low,
        high: high.max(most),
    };
    let label = quantity.name(report);
    let input = report.runs.first().and_then(|run| run.input.first());
    let input = input.map_or("size", |fact| fact.name.as_str());
    let drawing = html! {
        // On a long axis every third one, which are the powers of ten.
        @let few = ticks.len() <= LEVELS_MAX;
        @for (value, text) in ticks.iter().filter(|(value, _)| few || is_power_of_ten(*value)) {
            (level(y.at(*value), text))
        }
        (sizes(report, &x))
        (axes(&label, input))
        // Pinfold's own choice is a broad band, below the lines that it follows.
        @for line in lines.iter().filter(|line| line.is_own()) { (drawn(line, quantity, &x, &y)) }
        @for line in lines.iter().filter(|line| !line.is_own()) { (drawn(line, quantity, &x, &y)) }
        @for (number, line) in lines.iter().enumerate() { (legend(line, number)) }
    };
    let told: Vec<String> = lines.iter().map(|line| told(line, quantity)).collect();
    drawing::chart(
        quantity.id(),
        HEIGHT,
        &format!("{label} of each strategy by number of {input}, both axes logarithmic"),
        &told.join("; "),
        &drawing,
    )
}

fn lines(report: &SweepReport, quantity: Quantity) -> Vec<Line> {
    let Some(first) = report.runs.first() else {
        return Vec::new();
    };
    let line = |(number, strategy): (usize, &StrategyResult)| {
        let points = report.runs.iter().filter_map(|run| {
            let size = size_of(run)?;
            let same = run.strategies.iter().find(|s| s.name == strategy.name)?;
            let value = quantity.of(run, same);
            (size > 0.0 && value > 0.0 && value.is_finite()).then_some((size, value))
        });
        Line {
            name: strategy.name.clone(),
            number,
            points: points.collect(),
        }
    };
    first.strategies.iter().enumerate().map(line).collect()
}

/// A run's size: the number that its first fact is.
fn size_of(run: &JobReport) -> Option<f64> {
    run.input.first()?.value.parse().ok()
}

pub(super) fn is_power_of_ten(value: f64) -> bool {
    let exponent = value.log10();
    (exponent - exponent.round()).abs() < 1e-9
}

pub(super) fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

/// A line's ends in words.
fn told(line: &Line, quantity: Quantity) -> String {
    let point = |point: Option<&(f64, f64)>| {
        point.map_or(String::new(), |(size, value)| {
            format!("{} at {size}", quantity.shown(*value))
        })
    };
    let (first, last) = (point(line.points.first()), point(line.points.last()));
    format!("{}: {first}, {last}", line.name)
}

pub(super) fn level(y: f64, label: &str) -> Markup {
    html! {
        line.grid x1=(px(LEFT - 5.0)) y1=(px(y)) x2=(px(RIGHT)) y2=(px(y)) {}
        text.soft x=(px(LEFT - 10.0)) y=(px(y + 4.5)) text-anchor="end" { (label) }
    }
}

fn sizes(report: &SweepReport, x: &Scale) -> Markup {
    let every = report.runs.len().div_ceil(TICKS_MAX).max(1);
    html! {
        @for size in report.runs.iter().step_by(every).filter_map(size_of).filter(|s| *s > 0.0) {
            line.grid x1=(px(x.at(size))) y1=(px(TOP)) x2=(px(x.at(size))) y2=(px(BOTTOM + 5.0)) {}
            text.soft x=(px(x.at(size))) y=(px(BOTTOM + 22.0)) text-anchor="middle" {
                (power(size))
            }
        }
    }
}

/// Both axes, with what they show.
pub(super) fn axes(vertical: &str, horizontal: &str) -> Markup {
    let (x, y) = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
    html! {
        path.axis d=(format!("M{LEFT},{TOP}V{BOTTOM}H{RIGHT}")) {}
        text transform=(format!("translate(18 {y:.1}) rotate(-90)")) text-anchor="middle" {
            (vertical)
        }
        text x=(px(x)) y=(px(BOTTOM + 48.0)) text-anchor="middle" { (horizontal) }
    }
}

/// A power of two by its exponent, as long as it is large; other numbers in digits.
fn power(size: f64) -> String {
    let exponent = size.log2();
    if exponent < 10.0 || exponent.fract() != 0.0 {
        return size.to_string();
    }
    let raised = exponent.to_string();
    let raised = raised
        .chars()
        .filter_map(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(c.to_digit(10)? as usize));
    format!("2{}", raised.collect::<String>())
}

fn drawn(line: &Line, quantity: Quantity, x: &Scale, y: &Scale) -> Markup {
    let at = line.points.iter().map(|(s, v)| (x.at(*s), y.at(*v)));
    let path: Vec<String> = at.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    html! {
        g class=(line.class()) {
            polyline.line points=(path.join(" ")) {}
            @if !line.is_own() {
                @for ((x, y), (size, value)) in at.zip(&line.points) {
                    path.dot d=(marks::shape(line.number, x, y)) {
                        title { (line.name) ", " (size) ": " (quantity.shown(*value)) }
                    }
                }
            }
        }
    }
}

fn legend(line: &Line, row: usize) -> Markup {
    let x = RIGHT + 24.0;
    let y = TOP + 14.0 + 28.0 * row as f64;
    let name = match line.is_own() {
        true => "chosen by pinfold",
        false => line.name.as_str(),
    };
    html! {
        g class=(line.class()) {
            line.line x1=(px(x)) y1=(px(y)) x2=(px(x + 36.0)) y2=(px(y)) {}
            @if !line.is_own() { path.dot d=(marks::shape(line.number, x + 18.0, y)) {} }
        }
        text.strong[line.is_own()] x=(px(x + 52.0)) y=(px(y + 4.5)) { (name) }
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
            [8192.0, 1048576.0, 512.0, 10_000.0].map(power),
            ["2¹³", "2²⁰", "512", "10000"]
        );
    }

    #[test]
    fn an_axis_holds_every_value() {
        let labels = |quantity: Quantity, least, most| -> Vec<String> {
            let ticks = quantity.ticks(least, most);
            ticks.into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(
            labels(Quantity::Time, 8.9e-6, 1.2e-4),
            ["5 µs", "10 µs", "20 µs", "50 µs", "100 µs", "200 µs"]
        );
        assert_eq!(labels(Quantity::Time, 1e-3, 1e-3), ["1 ms"]);
        assert_eq!(labels(Quantity::ToBest, 1.0, 1.3), ["1×", "1.2×", "1.5×"]);
        // Beyond the last label the axis goes on without.
        assert_eq!(labels(Quantity::ToBest, 1.0, 500.0).len(), RATIOS.len());
    }
}
