//! From figures to curves: what was measured, what the model makes of the profile, and what the
//! link could carry at most.

use super::super::table::{Chart, ChartLine, Figure, LineKind};
use super::Figures;
use super::copies::DIRECTIONS;
use super::rows::{ROW_BYTES, RowsAt};
use super::tables::way;
use pinfold::{Bytes, MemoryKind};
use pinfold_model::cost::pcie;
use pinfold_model::{Access, Direction, Pattern, Profile, cost};

/// All curves.
pub(super) fn all(figures: &Figures, profile: &Profile) -> Vec<Chart> {
    let mut charts = DIRECTIONS.map(|way| copies(figures, profile, way)).to_vec();
    charts.push(in_order(figures, profile));
    charts.push(random(figures, profile));
    charts
}

/// Copies by size; the model's word for page-locked and for pageable memory.
fn copies(figures: &Figures, profile: &Profile, direction: Direction) -> Chart {
    let mut lines = Vec::new();
    let ways = figures
        .copies
        .ways
        .iter()
        .filter(|w| w.direction == direction);
    for way in ways {
        lines.push(measured(&way.kind.to_string(), &way.ns));
        if matches!(way.kind, MemoryKind::PageLocked | MemoryKind::Pageable) {
            let name = format!("{}, predicted", way.kind);
            let predicted = |bytes| cost::copy_ns(profile, direction, way.kind, bytes);
            lines.push(line(&name, LineKind::Predicted, &way.ns, predicted));
        }
    }
    let sizes = figures.copies.ways.first().map_or(&[][..], |w| &w.ns);
    lines.extend(ceiling(profile, direction, ends(sizes)));
    Chart {
        title: format!("Copies {} by kind of memory", way(direction)),
        across: "bytes of a copy".to_owned(),
        lines,
    }
}

/// Kernels in place, in order.
fn in_order(figures: &Figures, profile: &Profile) -> Chart {
    let of = &figures.in_place;
    let predicted = |access| {
        move |bytes| {
            let once = Pattern::Sequential { passes: 1.0 };
            cost::launch_and_wait_ns(profile)
                + cost::zero_copy_ns(profile, access, once, bytes, bytes)
        }
    };
    let kind = LineKind::Predicted;
    let mut lines = vec![
        measured("mapped, read", &of.reads_ns),
        line(
            "read, predicted",
            kind,
            &of.reads_ns,
            predicted(Access::Read),
        ),
        measured("mapped write-combined, read", &of.write_combined_reads_ns),
        measured("mapped, written", &of.writes_ns),
        line(
            "written, predicted",
            kind,
            &of.writes_ns,
            predicted(Access::Write),
        ),
    ];
    lines.extend(ceiling(profile, Direction::ToDevice, ends(&of.reads_ns)));
    Chart {
        title: "Kernels in place, in order".to_owned(),
        across: "bytes used".to_owned(),
        lines,
    }
}

/// Random rows by what they are spread over.
fn random(figures: &Figures, profile: &Profile) -> Chart {
    let mut lines = Vec::new();
    for row_bytes in ROW_BYTES {
        let rows = figures.rows.rows.iter();
        let rows = rows.filter(|at| at.row_bytes == row_bytes);
        let rate = |ns_of: &dyn Fn(&RowsAt) -> f64| {
            let point = |at: &RowsAt| {
                let bytes = at.count as f64 * f64::from(row_bytes);
                (at.footprint_bytes as f64, bytes / ns_of(at))
            };
            rows.clone().map(point).collect()
        };
        let predicted = |at: &RowsAt| {
            let (count, spread) = (at.count, at.footprint_bytes);
            let pattern = Pattern::Random { row_bytes, count };
            cost::launch_and_wait_ns(profile)
                + cost::zero_copy_ns(profile, Access::Read, pattern, spread, spread)
        };
        let name = format!("rows of {}", Bytes(u64::from(row_bytes)));
        lines.push(ChartLine {
            name: name.clone(),
            kind: LineKind::Measured,
            points: rate(&|at| at.read_ns.value),
        });
        lines.push(ChartLine {
            name: format!("{name}, predicted"),
            kind: LineKind::Predicted,
            points: rate(&predicted),
        });
    }
    let spread = lines.first().map_or(&[][..], |line| &line.points);
    let ends = match spread {
        [first, .., last] => Some((first.0, last.0)),
        _ => None,
    };
    lines.extend(ceiling(profile, Direction::ToDevice, ends));
    Chart {
        title: "Random rows of mapped memory, read as they come".to_owned(),
        across: "bytes that they are spread over".to_owned(),
        lines,
    }
}

fn measured(name: &str, points: &[(u64, Figure)]) -> ChartLine {
    let rate = |(bytes, ns): &(u64, Figure)| (*bytes as f64, *bytes as f64 / ns.value);
    ChartLine {
        name: name.to_owned(),
        kind: LineKind::Measured,
        points: points.iter().map(rate).collect(),
    }
}

fn line(name: &str, kind: LineKind, sizes: &[(u64, Figure)], ns: impl Fn(u64) -> f64) -> ChartLine {
    let rate = |(bytes, _): &(u64, Figure)| (*bytes as f64, *bytes as f64 / ns(*bytes));
    ChartLine {
        name: name.to_owned(),
        kind,
        points: sizes.iter().map(rate).collect(),
    }
}

fn ends(sizes: &[(u64, Figure)]) -> Option<(f64, f64)> {
    match sizes {
        [first, .., last] => Some((first.0 as f64, last.0 as f64)),
        _ => None,
    }
}

/// What the link carries at most: its raw rate times the part that is payload.
fn ceiling(profile: &Profile, direction: Direction, ends: Option<(f64, f64)>) -> Option<ChartLine> {
    let (device, (from, to)) = (profile.devices.first()?, ends?);
    let raw = pcie::raw_bytes_per_s(device.pcie_generation, device.pcie_width)?;
    let payload = match direction {
        Direction::ToDevice => pcie::read_efficiency(pcie::PAYLOAD_BYTES),
        Direction::ToHost => pcie::write_efficiency(pcie::PAYLOAD_BYTES),
    };
    let rate = raw * payload / 1e9;
    Some(ChartLine {
        name: format!(
            "PCIe {}.0 x{}, payload",
            device.pcie_generation, device.pcie_width
        ),
        kind: LineKind::Ceiling,
        points: vec![(from, rate), (to, rate)],
    })
}
