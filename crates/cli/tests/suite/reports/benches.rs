//! Reports of benchmarks.

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
