//! From figures to tables, each a matrix of size and way, and to what follows from them.

use super::super::table::{Figure, Table};
use super::Figures;
use super::copies::{DIRECTIONS, KINDS};
use super::rows::{ROW_BYTES, RowsAt};
use crate::report::Fact;
use pinfold::{Bytes, Device, MemoryKind};
use pinfold_model::{Direction, Profile, cost};

/// Rows of this size tell where the cliff is.
const CLIFF_ROW_BYTES: u32 = 128;
/// A fall by less than this is none.
const CLIFF: f64 = 1.5;

/// What the figures depend on.
pub(super) fn machine(device: &Device, figures: &Figures, quick: bool) -> Vec<Fact> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut facts = vec![
        Fact::new("processors", processors),
        Fact::new("measured", if quick { "quickly" } else { "in full" }),
    ];
    let backend = device.platform().info();
    if let Some(release) = backend.driver_release {
        facts.push(Fact::new("driver", release));
    }
    if let Some((idle, load)) = figures.copies.link {
        let text = format!("PCIe {}.0 x{}", load.generation_now, load.width_now);
        facts.push(Fact::new("link under load", text));
        let text = format!("PCIe {}.0 x{}", idle.generation_now, idle.width_now);
        facts.push(Fact::new("link before", text));
    }
    facts
}

/// All tables.
pub(super) fn all(figures: &Figures) -> Vec<Table> {
    let mut tables = vec![pins(figures)];
    tables.extend(DIRECTIONS.map(|direction| copies(figures, direction)));
    tables.push(link(figures));
    tables.push(staged(figures));
    tables.push(in_order(figures));
    tables.push(strided(figures));
    for (title, of) in [
        (
            "Random rows of mapped memory, read as they come",
            read as OfRows,
        ),
        (
            "Random rows of mapped memory, read by address windows",
            read_by_windows,
        ),
        (
            "Random rows of mapped memory, written as they come",
            written,
        ),
        (
            "Random rows of mapped memory, written by address windows",
            written_by_windows,
        ),
    ] {
        tables.push(rows(figures, title, of));
    }
    tables.push(small(figures));
    if !figures.host.is_empty() {
        tables.push(host(figures));
    }
    tables
}

/// The name of a direction in a title.
pub(super) fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::ToDevice => "to the device",
        Direction::ToHost => "to the host",
    }
}

fn at(points: &[(u64, Figure)], bytes: u64) -> Option<Figure> {
    let point = points.iter().find(|(b, _)| *b == bytes);
    point.map(|(_, figure)| *figure)
}

fn rate_at(points: &[(u64, Figure)], bytes: u64) -> Option<Figure> {
    at(points, bytes).map(|ns| ns.rate(bytes as f64))
}

fn pins(figures: &Figures) -> Table {
    let columns = [
        "page-locked",
        "write-combined",
        "register",
        "free",
        "unregister",
    ];
    let mut table = Table::new("Getting and giving back memory", "size", "ns", &columns);
    let [locked, combined, registered] = figures.pins.kinds.as_slice() else {
        return table;
    };
    for (bytes, _) in &locked.get_ns {
        let figures = [
            &locked.get_ns,
            &combined.get_ns,
            &registered.get_ns,
            &locked.give_back_ns,
            &registered.give_back_ns,
        ];
        let figures = figures.map(|points| at(points, *bytes)).to_vec();
        table.row(Bytes(*bytes), figures);
    }
    table
}

fn copies(figures: &Figures, direction: Direction) -> Table {
    let title = format!("Copies {}, each waited for", way(direction));
    let ways = figures.copies.ways.iter();
    let ways: Vec<_> = ways.filter(|w| w.direction == direction).collect();
    let names: Vec<String> = ways.iter().map(|way| way.kind.to_string()).collect();
    let columns: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut table = Table::new(&title, "size", "GB/s", &columns);
    for (bytes, _) in ways.first().map_or(&[][..], |w| &w.ns) {
        let figures = ways.iter().map(|way| rate_at(&way.ns, *bytes));
        table.row(Bytes(*bytes), figures.collect());
    }
    table
}

fn link(figures: &Figures) -> Table {
    let title = "Copies enqueued behind each other, the stream held until all are there";
    let kinds = KINDS.map(|kind| (kind, kind.to_string()));
    let kinds = kinds
        .iter()
        .filter(|(kind, _)| *kind != MemoryKind::Pageable);
    let columns: Vec<&str> = kinds.clone().map(|(_, name)| name.as_str()).collect();
    let mut table = Table::new(title, "way", "GB/s", &columns);
    for direction in DIRECTIONS {
        let rate = |kind| {
            let mut ways = figures.copies.ways.iter();
            let way = ways.find(|w| w.direction == direction && w.kind == kind)?;
            way.held_bytes_per_s.map(|f| f.times(1e-9))
        };
        table.row(
            way(direction),
            kinds.clone().map(|(kind, _)| rate(*kind)).collect(),
        );
    }
    let both = figures.copies.both_bytes_per_s.times(1e-9);
    table.row("both at once, in all", vec![Some(both), None, None]);
    table
}

fn staged(figures: &Figures) -> Table {
    let columns = ["to the device", "to the host"];
    let title = "Ordinary memory through page-locked slots";
    let mut table = Table::new(title, "threads and bytes", "GB/s", &columns);
    let one_way = figures
        .staged
        .iter()
        .filter(|s| s.direction == Direction::ToDevice);
    for up in one_way {
        let same = |s: &&super::stage::Staged| s.threads == up.threads && s.bytes == up.bytes;
        let mut others = figures.staged.iter().filter(same);
        let down = others.find(|s| s.direction == Direction::ToHost);
        let name = format!("{} × {}", up.threads, Bytes(up.bytes));
        let rate = |s: &super::stage::Staged| s.ns.rate(s.bytes as f64);
        table.row(name, vec![Some(rate(up)), down.map(rate)]);
    }
    table
}

fn in_order(figures: &Figures) -> Table {
    let columns = [
        "mapped, read",
        "mapped write-combined, read",
        "mapped, written",
    ];
    let title = "Kernels in place, in order, each waited for";
    let mut table = Table::new(title, "size", "GB/s", &columns);
    let of = &figures.in_place;
    for (bytes, _) in &of.reads_ns {
        let ways = [&of.reads_ns, &of.write_combined_reads_ns, &of.writes_ns];
        table.row(
            Bytes(*bytes),
            ways.map(|points| rate_at(points, *bytes)).to_vec(),
        );
    }
    table
}

fn strided(figures: &Figures) -> Table {
    let title = "Kernels that read 4 bytes of mapped memory in every so many";
    let mut table = Table::new(title, "distance", "GB/s", &["useful bytes"]);
    for (stride, bytes, ns) in &figures.in_place.strided_ns {
        let useful = bytes.div_ceil(u64::from(*stride)) as f64 * 4.0;
        table.row(Bytes(u64::from(*stride)), vec![Some(ns.rate(useful))]);
    }
    table
}

/// One way of using random rows.
type OfRows = fn(&RowsAt) -> Figure;

fn read(at: &RowsAt) -> Figure {
    at.read_ns
}

fn read_by_windows(at: &RowsAt) -> Figure {
    at.read_by_windows_ns
}

fn written(at: &RowsAt) -> Figure {
    at.written_ns
}

fn written_by_windows(at: &RowsAt) -> Figure {
    at.written_by_windows_ns
}

fn rows(figures: &Figures, title: &str, of: OfRows) -> Table {
    let names = ROW_BYTES.map(|bytes| Bytes(u64::from(bytes)).to_string());
    let columns: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut table = Table::new(title, "spread over", "GB/s", &columns);
    for here in figures.rows.rows.chunks(ROW_BYTES.len()) {
        let rate = |at: &RowsAt| of(at).rate(at.count as f64 * f64::from(at.row_bytes));
        let footprint = here.first().map_or(0, |at| at.footprint_bytes);
        table.row(
            Bytes(footprint),
            here.iter().map(|at| Some(rate(at))).collect(),
        );
    }
    table
}

fn small(figures: &Figures) -> Table {
    let mut table = Table::new("Small things", "what", "ns", &["time"]);
    let (small, in_place) = (&figures.small, &figures.in_place);
    for (name, figure) in [
        ("launch, the call", Some(small.launch_call)),
        ("launch and wait", Some(small.launch_and_wait)),
        (
            "a kernel behind another, at least",
            Some(small.kernel_floor),
        ),
        ("copy, the call", Some(figures.copies.call_ns)),
        ("event, record", Some(small.event_record)),
        ("event, query", Some(small.event_query)),
        ("event, wait on a stream", Some(small.event_wait)),
        ("host function, the call", Some(small.callback_call)),
        ("host function and wait", Some(small.callback_and_wait)),
        ("one load of mapped memory", Some(in_place.latency_ns)),
        ("one load of device memory", in_place.device_latency_ns),
        (
            "a number back: copied to page-locked memory",
            Some(small.copied),
        ),
        (
            "a number back: published to mapped memory, waited for",
            Some(small.published),
        ),
        (
            "a number back: published to mapped memory, polled",
            Some(small.polled),
        ),
        ("device memory, get 1 MiB", Some(figures.pins.device_get_ns)),
        (
            "device memory, give back 1 MiB",
            Some(figures.pins.device_give_back_ns),
        ),
    ] {
        table.row(name, vec![figure]);
    }
    table
}

fn host(figures: &Figures) -> Table {
    let title = "One host thread on 256 MiB, past its caches";
    let mut table = Table::new(title, "memory", "GB/s", &["writes", "reads"]);
    for rate in &figures.host {
        let rates = [Some(rate.write_bytes_per_s), rate.read_bytes_per_s];
        table.row(rate.kind, rates.map(|f| f.map(|f| f.times(1e-9))).to_vec());
    }
    table
}

/// What follows.
pub(super) fn findings(figures: &Figures, profile: &Profile) -> Vec<Fact> {
    let mut facts = Vec::new();
    facts.extend(slow_link(figures));
    facts.extend(break_even(figures, profile));
    facts.extend(combining(figures));
    facts.extend(cliff(figures));
    facts.extend(best_threads(figures));
    facts
}

/// A link that is slower under load than both of its ends are.
fn slow_link(figures: &Figures) -> Option<Fact> {
    let (_, load) = figures.copies.link?;
    let (now, most) = (
        (load.generation_now, load.width_now),
        (load.generation_max, load.width_max),
    );
    let text = format!(
        "it runs at PCIe {}.0 x{} under load, and device and slot could do {}.0 x{}: look at the \
         slot, the riser and the firmware's settings",
        now.0, now.1, most.0, most.1
    );
    (now.0 < most.0 || now.1 < most.1).then(|| Fact::new("slow link", text))
}

/// After how many uses page-locking has paid.
fn break_even(figures: &Figures, profile: &Profile) -> Vec<Fact> {
    let largest = figures
        .pins
        .kinds
        .first()
        .and_then(|pins| pins.get_ns.last());
    let Some((bytes, _)) = largest else {
        return Vec::new();
    };
    let kinds = [MemoryKind::PageLocked, MemoryKind::Registered];
    let fact = |kind: MemoryKind| {
        let way = Direction::ToDevice;
        let uses = cost::pinning_break_even_uses(profile, way, kind, *bytes);
        let text = match uses {
            Some(uses) => format!("after {uses:.1} copies to the device"),
            None => "never: its copies are not faster".to_owned(),
        };
        Fact::new(&format!("{} {kind} pays", Bytes(*bytes)), text)
    };
    kinds.map(fact).to_vec()
}

/// What write-combining does here.
fn combining(figures: &Figures) -> Option<Fact> {
    let held = |kind| {
        let mut ways = figures.copies.ways.iter();
        let way = ways.find(|w| w.direction == Direction::ToDevice && w.kind == kind)?;
        way.held_bytes_per_s.map(|f| f.value)
    };
    let (plain, combined) = (
        held(MemoryKind::PageLocked)?,
        held(MemoryKind::WriteCombined)?,
    );
    let text = format!(
        "copies to the device {:+.1} %",
        (combined / plain - 1.0) * 100.0
    );
    Some(Fact::new("write-combining", text))
}

/// Where random rows fall.
fn cliff(figures: &Figures) -> Option<Fact> {
    let rows = figures
        .rows
        .rows
        .iter()
        .filter(|at| at.row_bytes == CLIFF_ROW_BYTES);
    let rates: Vec<(u64, f64)> = rows
        .map(|at| {
            let bytes = at.count as f64 * f64::from(at.row_bytes);
            (at.footprint_bytes, at.read_ns.rate(bytes).value)
        })
        .collect();
    let steepest = rates.windows(2).max_by(|a, b| {
        let fall = |pair: &[(u64, f64)]| pair[0].1 / pair[1].1;
        fall(a).total_cmp(&fall(b))
    })?;
    let (before, after) = (steepest[0], steepest[1]);
    let text = match before.1 / after.1 > CLIFF {
        true => format!(
            "fall from {:.1} to {:.1} GB/s between {} and {}",
            before.1,
            after.1,
            Bytes(before.0),
            Bytes(after.0)
        ),
        false => format!("no cliff up to {}", Bytes(rates.last()?.0)),
    };
    Some(Fact::new(
        &format!("random rows of {CLIFF_ROW_BYTES} B"),
        text,
    ))
}

/// The number of threads beyond which no more is gained.
fn best_threads(figures: &Figures) -> Option<Fact> {
    let most = figures.staged.iter().map(|s| s.bytes).max()?;
    let up = figures.staged.iter();
    let up = up.filter(|s| s.bytes == most && s.direction == Direction::ToDevice);
    let best = up.min_by(|a, b| a.ns.value.total_cmp(&b.ns.value))?;
    let rate = best.ns.rate(best.bytes as f64).value;
    let text = format!("{} threads, {rate:.1} GB/s", best.threads);
    Some(Fact::new("ordinary memory to the device fastest by", text))
}
