//! Rates over sizes as curves, both axes logarithmic: measured lines with marks, predictions dashed
//! in the colour of the line that they are for, ceilings dotted.

use super::drawing::{self, px, short};
use super::lines::{
    BOTTOM, HEIGHT, LEFT, RIGHT, Scale, TOP, axes, bounds, is_power_of_ten, level, one_two_five,
};
use super::marks;
use maud::{Markup, html};
use pinfold_apps::bench::table::{Chart, ChartLine, LineKind};

/// Most labels on the vertical axis before only powers of ten keep theirs.
const LEVELS_MAX: usize = 8;
/// Most labels on the horizontal axis.
const TICKS_MAX: usize = 8;
/// Letters of a legend's name, as many as there is room for.
const NAME_MAX: usize = 34;

/// One chart; nothing where there is nothing to draw between.
pub(super) fn chart(chart: &Chart, number: usize, simulated: bool) -> Markup {
    let points = || {
        let all = chart
            .lines
            .iter()
            .flat_map(|line| line.points.iter().copied());
        all.filter(|(x, y)| *x > 0.0 && *y > 0.0 && x.is_finite() && y.is_finite())
    };
    let (smallest, largest) = bounds(points().map(|(x, _)| x));
    let (least, most) = bounds(points().map(|(_, y)| y));
    if smallest >= largest || least > most {
        return html! {};
    }
    let all: Vec<f64> = (-6..=6).flat_map(one_two_five).collect();
    let first = all.iter().rposition(|v| *v <= least).unwrap_or(0);
    let last = all.iter().position(|v| *v >= most).unwrap_or(all.len() - 1);
    let ticks = &all[first..=last.max(first + 1).min(all.len() - 1)];
    let ([low, ..], [.., high]) = (ticks, ticks) else {
        return html! {};
    };
    let x = Scale {
        from: LEFT,
        to: RIGHT,
        low: smallest,
        high: largest,
    };
    let y = Scale {
        from: BOTTOM,
        to: TOP,
        low: low.min(least),
        high: high.max(most),
    };
    let few = ticks.len() <= LEVELS_MAX;
    let label = if simulated {
        "GB/s (simulated)"
    } else {
        "GB/s"
    };
    let drawing = html! {
        @for tick in ticks.iter().filter(|v| few || is_power_of_ten(**v)) {
            (level(y.at(*tick), &short(*tick)))
        }
        (sizes(smallest, largest, &x))
        (axes(label, &chart.across))
        @for (line, number) in numbered(chart) { (drawn(line, number, &x, &y)) }
        @for (row, (line, number)) in numbered(chart).enumerate() { (legend(line, number, row)) }
    };
    let told: Vec<String> = chart.lines.iter().filter_map(told).collect();
    drawing::chart(
        &format!("curves-{number}"),
        HEIGHT,
        &format!(
            "{}: {label} by {}, both axes logarithmic",
            chart.title, chart.across
        ),
        &told.join("; "),
        &drawing,
    )
}

/// Lines with their colours: a prediction has that of the measured line before it.
fn numbered(chart: &Chart) -> impl Iterator<Item = (&ChartLine, usize)> {
    let mut next = 0;
    chart.lines.iter().map(move |line| {
        if line.kind == LineKind::Measured {
            next += 1;
        }
        (line, next.max(1) - 1)
    })
}

/// A line's ends in words.
fn told(line: &ChartLine) -> Option<String> {
    let (first, last) = (line.points.first()?, line.points.last()?);
    let point = |(x, y): &(f64, f64)| format!("{} GB/s at {}", short(*y), bytes(*x));
    Some(format!("{}: {}, {}", line.name, point(first), point(last)))
}

/// A number of bytes on an axis.
fn bytes(value: f64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.iter().find(|(unit, _)| value >= *unit as f64);
    match unit {
        Some((unit, name)) => format!("{} {name}", short(value / *unit as f64)),
        None => format!("{} B", short(value)),
    }
}

/// Labels at powers of two, as few as there is room for.
fn sizes(smallest: f64, largest: f64, x: &Scale) -> Markup {
    let (first, last) = (smallest.log2().ceil() as i32, largest.log2().floor() as i32);
    let every = ((last - first) as usize / TICKS_MAX + 1).max(1);
    html! {
        @for exponent in (first..=last).step_by(every) {
            @let at = px(x.at(2f64.powi(exponent)));
            line.grid x1=(at) y1=(px(TOP)) x2=(at) y2=(px(BOTTOM + 5.0)) {}
            text.soft x=(at) y=(px(BOTTOM + 22.0)) text-anchor="middle" {
                (bytes(2f64.powi(exponent)))
            }
        }
    }
}

fn class(line: &ChartLine, number: usize) -> String {
    match line.kind {
        LineKind::Measured => marks::class(number),
        LineKind::Predicted => format!("{} predicted", marks::class(number)),
        LineKind::Ceiling => "ceiling".to_owned(),
    }
}

fn drawn(line: &ChartLine, number: usize, x: &Scale, y: &Scale) -> Markup {
    let shown = line
        .points
        .iter()
        .filter(|(x, y)| *x > 0.0 && *y > 0.0 && y.is_finite());
    let at = shown.clone().map(|(across, up)| (x.at(*across), y.at(*up)));
    let path: Vec<String> = at.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    html! {
        g class=(class(line, number)) {
            polyline.line points=(path.join(" ")) {}
            @if line.kind == LineKind::Measured {
                @for ((x, y), (across, up)) in at.zip(shown) {
                    path.dot d=(marks::shape(number, x, y)) {
                        title { (line.name) ", " (bytes(*across)) ": " (short(*up)) " GB/s" }
                    }
                }
            }
        }
    }
}

fn legend(line: &ChartLine, number: usize, row: usize) -> Markup {
    let x = RIGHT + 24.0;
    let y = TOP + 14.0 + 28.0 * row as f64;
    let name: String = line.name.chars().take(NAME_MAX).collect();
    html! {
        g class=(class(line, number)) {
            line.line x1=(px(x)) y1=(px(y)) x2=(px(x + 36.0)) y2=(px(y)) {}
            @if line.kind == LineKind::Measured {
                path.dot d=(marks::shape(number, x + 18.0, y)) {}
            }
        }
        text x=(px(x + 52.0)) y=(px(y + 4.5)) { (name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_has_the_colour_of_the_line_before_it() {
        let line = |kind| ChartLine {
            name: String::new(),
            kind,
            points: vec![],
        };
        let chart = Chart {
            title: String::new(),
            across: String::new(),
            lines: vec![
                line(LineKind::Measured),
                line(LineKind::Predicted),
                line(LineKind::Measured),
                line(LineKind::Measured),
                line(LineKind::Predicted),
            ],
        };
        let numbers: Vec<usize> = numbered(&chart).map(|(_, number)| number).collect();
        assert_eq!(numbers, [0, 0, 1, 2, 2]);
    }

    #[test]
    fn bytes_on_an_axis_are_short() {
        assert_eq!(
            [64.0, 1024.0, 1.5e9].map(bytes),
            ["64 B", "1 KiB", "1.397 GiB"]
        );
    }
}
