//! Reports of benchmarks.

use pinfold_apps::bench::table::{
    Chart, ChartLine, Figure, LineKind, Table, TableRow, TablesReport,
};
use pinfold_apps::bench::{BenchReport, BenchRow};
use pinfold_apps::report::{DeviceLabel, Fact};

fn row(group: &str, name: &str, value: f64, unit: &'static str) -> BenchRow {
    BenchRow {
        group: group.to_owned(),
        name: name.to_owned(),
        value,
        value_min: 0.9 * value,
        value_max: 1.2 * value,
        unit,
        repeats: 31,
        simulated: false,
    }
}

/// A warm pool on a simulated device: one row has virtual time in it.
pub(crate) fn bench_simulated() -> BenchReport {
    let driver = "driver's allocate + free, 4.0 KiB";
    BenchReport {
        bench: "pool".to_owned(),
        device: DeviceLabel {
            name: "simulated h200".to_owned(),
            simulated: true,
        },
        machine: vec![Fact::new("processors", 16)],
        rows: vec![
            row("warm", "take + give back, 4.0 KiB", 22.9, "ns"),
            BenchRow {
                simulated: true,
                ..row("warm", driver, 682e3, "ns")
            },
            row("pairs a second", "1 thread", 46.2, "M/s"),
        ],
        findings: vec![
            Fact::new("holes", "65001 of one page, 253.9 MiB in all"),
            Fact::new("pages with 65000 holes against none", "1.0×"),
        ],
    }
}

/// Fresh memory on a real device.
pub(crate) fn bench_measured() -> BenchReport {
    BenchReport {
        bench: "pin".to_owned(),
        device: DeviceLabel {
            name: "NVIDIA H200".to_owned(),
            simulated: false,
        },
        machine: vec![Fact::new("processors", 16)],
        rows: vec![
            row("cold", "pool, 64.0 MiB", 8.11, "GiB/s"),
            row("cold", "driver's allocation, 64.0 MiB", 2.68, "GiB/s"),
            row("upload", "from the pool", f64::NAN, "GB/s"),
        ],
        findings: vec![
            Fact::new("64.0 MiB against the driver's allocation", "3.0×"),
            Fact::new("uploads", "512.0 MiB at a time"),
        ],
    }
}

fn figure(value: f64, repeats: usize) -> Option<Figure> {
    Some(Figure {
        value,
        value_min: if repeats > 1 { 0.98 * value } else { value },
        value_max: if repeats > 1 { 1.03 * value } else { value },
        repeats,
    })
}

fn figures<const N: usize>(values: [f64; N], repeats: usize) -> Vec<Option<Figure>> {
    values.map(|value| figure(value, repeats)).to_vec()
}

fn table(
    title: &str,
    [rows_are, unit]: [&'static str; 2],
    columns: &[&str],
    rows: &[(&str, Vec<Option<Figure>>)],
) -> Table {
    let row = |(name, figures): &(&str, Vec<Option<Figure>>)| TableRow {
        name: (*name).to_owned(),
        figures: figures.clone(),
    };
    Table {
        title: title.to_owned(),
        rows_are: rows_are.to_owned(),
        unit,
        columns: columns.iter().map(|c| (*c).to_owned()).collect(),
        rows: rows.iter().map(row).collect(),
        details: false,
    }
}

/// A measured machine: tables of every unit, one with a gap, and curves of every kind.
pub(crate) fn machine_measured() -> TablesReport {
    let line = |name: &str, kind, points: &[(f64, f64)]| ChartLine {
        name: name.to_owned(),
        kind,
        points: points.to_vec(),
    };
    let sizes = [1024.0, 262_144.0, 268_435_456.0];
    let curve = |rates: [f64; 3]| sizes.into_iter().zip(rates).collect::<Vec<_>>();
    let pinning = [
        "page-locked",
        "write-combined",
        "register",
        "free",
        "unregister",
    ];
    TablesReport {
        bench: "machine".to_owned(),
        device: DeviceLabel {
            name: "NVIDIA H200".to_owned(),
            simulated: false,
        },
        machine: vec![
            Fact::new("processors", 16),
            Fact::new("link under load", "PCIe 5.0 x16"),
        ],
        tables: vec![
            table(
                "Getting and giving back memory",
                ["size", "ns"],
                &pinning,
                &[
                    ("4.0 KiB", figures([774e3, 960e3, 66e3, 323e3, 38e3], 5)),
                    ("1.0 GiB", figures([383e6, 339e6, 38e6, 97.9e6, 18e6], 5)),
                ],
            ),
            table(
                "Copies enqueued behind each other, the stream held until all are there",
                ["way", "GB/s"],
                &["page-locked", "write-combined", "registered"],
                &[
                    ("to the device", figures([55.0, 53.7, 54.8], 7)),
                    ("to the host", vec![figure(55.2, 7), None, figure(55.1, 7)]),
                ],
            ),
            Table {
                details: true,
                ..table(
                    "Every point",
                    ["point", "µs"],
                    &["predicted", "measured"],
                    &[
                        ("upload of 4.0 KiB, pageable", figures([3.2, 3.6], 9)),
                        ("upload of 4.0 KiB, page-locked", figures([2.1, 2.0], 9)),
                    ],
                )
            },
        ],
        charts: vec![Chart {
            title: "Copies to the device by kind of memory".to_owned(),
            across: "bytes of a copy".to_owned(),
            lines: vec![
                line("pageable", LineKind::Measured, &curve([0.14, 8.8, 7.7])),
                line(
                    "pageable, predicted",
                    LineKind::Predicted,
                    &curve([0.14, 8.8, 7.7]),
                ),
                line(
                    "page-locked",
                    LineKind::Measured,
                    &curve([0.15, 19.8, 55.0]),
                ),
                line(
                    "PCIe 5.0 x16, payload",
                    LineKind::Ceiling,
                    &[(sizes[0], 58.4), (sizes[2], 58.4)],
                ),
            ],
        }],
        findings: vec![
            Fact::new("1.0 GiB registered pays", "after 0.5 copies to the device"),
            Fact::new("write-combining", "copies to the device -2.4 %"),
        ],
    }
}

/// The model against a simulated device.
pub(crate) fn model_simulated() -> TablesReport {
    TablesReport {
        bench: "model".to_owned(),
        device: DeviceLabel {
            name: "simulated h200".to_owned(),
            simulated: true,
        },
        machine: vec![
            Fact::new("profile", "h200 (here.toml)"),
            Fact::new("points", 249),
        ],
        tables: vec![table(
            "Errors of the predictions",
            ["points", "%"],
            &["median", "95th percentile", "worst"],
            &[
                ("page-locked copies (72)", figures([0.0, 0.01, 0.02], 1)),
                ("all (249)", figures([0.004, 2.34, 115.1], 1)),
            ],
        )],
        charts: vec![],
        findings: vec![Fact::new(
            "worst of ordinary memory, by threads",
            "139.9 KiB to the device by threads: predicted 56.1 µs, measured 48.7 µs, +15.1 %",
        )],
    }
}
