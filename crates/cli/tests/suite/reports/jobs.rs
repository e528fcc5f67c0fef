//! Reports of jobs.

use pinfold_apps::report::{DeviceLabel, Fact, JobReport, StrategyResult, SweepReport};

fn simulated() -> DeviceLabel {
    DeviceLabel {
        name: "simulated h200".to_owned(),
        simulated: true,
    }
}

fn measured() -> DeviceLabel {
    DeviceLabel {
        name: "NVIDIA H200".to_owned(),
        simulated: false,
    }
}

fn strategy(name: &str, placement: &str, seconds: f64) -> StrategyResult {
    StrategyResult {
        name: name.to_owned(),
        placement: placement.to_owned(),
        seconds,
        seconds_min: seconds,
        seconds_max: seconds,
        repeats: 1,
        bytes_up: 8 << 20,
        bytes_down: 32,
        error: 3.9e-18,
        iterations: None,
        seconds_per_iteration: None,
    }
}

/// The dot product on a simulated device: one run each, the fastest one chosen.
pub(crate) fn dot_simulated() -> JobReport {
    JobReport {
        job: "dot".to_owned(),
        device: simulated(),
        input: vec![Fact::new("elements", 1 << 20), Fact::new("bytes", 8 << 20)],
        strategies: vec![
            strategy(
                "pageable copy",
                "pageable, copied to device, result copied",
                712e-6,
            ),
            strategy(
                "page-locked copy",
                "page-locked, copied to device, result copied",
                164e-6,
            ),
            strategy(
                "page-locked copy, published",
                "page-locked, copied to device, result published",
                162e-6,
            ),
            strategy(
                "write-combined copy, published",
                "write-combined, copied to device, result published",
                166e-6,
            ),
            strategy("mapped", "mapped, read in place, result published", 172e-6),
            strategy(
                "mapped write-combined",
                "mapped write-combined, read in place, result published",
                172e-6,
            ),
            strategy(
                "chosen",
                "page-locked, copied to device, result published",
                162e-6,
            ),
        ],
        chosen: "page-locked copy, published".to_owned(),
        reason: "copying first takes less time than reading in place: 162.1 µs against 172.4 µs \
                 (simulated)"
            .to_owned(),
        placements: vec!["page-locked: write-combining gains nothing here".to_owned()],
        memory: None,
    }
}

/// A solve on a real device: several runs each, steps, and another one than the chosen is fastest.
pub(crate) fn solve_measured() -> JobReport {
    let solve = |name, placement, seconds: f64, up, each| StrategyResult {
        seconds_min: 0.97 * seconds,
        seconds_max: 1.05 * seconds,
        repeats: 11,
        bytes_up: up,
        bytes_down: 17_600,
        error: 8.3e-9,
        iterations: Some(125),
        seconds_per_iteration: Some(each),
        ..strategy(name, placement, seconds)
    };
    JobReport {
        job: "solve".to_owned(),
        device: measured(),
        input: vec![
            Fact::new("file", "plate.mtx"),
            Fact::new("rows", 1200),
            Fact::new("entries", 5860),
            Fact::new("tolerance", "1e-8"),
        ],
        strategies: vec![
            solve(
                "everything copied",
                "page-locked, copied both ways each step",
                5.66e-3,
                10_700_000,
                35.2e-6,
            ),
            solve(
                "resident, scalars mapped",
                "device; scalars in mapped memory, waited for",
                4.86e-3,
                94_300,
                21.4e-6,
            ),
            solve(
                "matrix in place",
                "mapped, read in place; scalars polled",
                4.23e-3,
                9_430_000,
                18.9e-6,
            ),
            solve(
                "chosen",
                "device; scalars in mapped memory, polled",
                4.35e-3,
                94_300,
                17.4e-6,
            ),
        ],
        chosen: "resident, scalars polled".to_owned(),
        reason: "copying the matrix once takes 10.3 µs".to_owned(),
        placements: vec![
            "mapped: kernels read it in place".to_owned(),
            "page-locked: write-combining gains nothing here".to_owned(),
        ],
        memory: Some(super::memory::memory()),
    }
}

/// The dot product over some lengths, on a simulated device.
pub(crate) fn sweep() -> SweepReport {
    const COPIED: &str = "page-locked copy, published";
    const IN_PLACE: &str = "mapped write-combined";
    let times = [
        (
            8192,
            [23.5e-6, 13.6e-6, 11.8e-6, 8.89e-6, 8.89e-6],
            IN_PLACE,
        ),
        (65536, [71.1e-6, 20.9e-6, 18.6e-6, 17.9e-6, 18.6e-6], COPIED),
        (1 << 20, [712e-6, 164e-6, 162e-6, 172e-6, 162e-6], COPIED),
        (
            1 << 27,
            [135e-3, 19.8e-3, 19.8e-3, 21.1e-3, 19.8e-3],
            COPIED,
        ),
    ];
    let names = [
        "pageable copy",
        "page-locked copy",
        COPIED,
        IN_PLACE,
        "chosen",
    ];
    let run = |(elements, seconds, chosen): (u64, [f64; 5], &str)| JobReport {
        input: vec![Fact::new("elements", elements)],
        strategies: names
            .iter()
            .zip(seconds)
            .map(|(name, seconds)| strategy(name, "somewhere", seconds))
            .collect(),
        chosen: chosen.to_owned(),
        ..dot_simulated()
    };
    SweepReport {
        job: "dot".to_owned(),
        device: simulated(),
        runs: times.into_iter().map(run).collect(),
    }
}

/// A sweep over nothing.
pub(crate) fn empty_sweep() -> SweepReport {
    SweepReport {
        runs: Vec::new(),
        ..sweep()
    }
}

/// A report with all that a file's name may hold, with numbers that are none, and with long names.
pub(crate) fn hostile() -> JobReport {
    let text = "<script>alert('&')</script>\n\u{1b}[31m\"";
    let mut report = dot_simulated();
    report.job = text.to_owned();
    report.input = vec![Fact::new("file", text), Fact::new(&"name".repeat(60), "")];
    report.strategies = vec![
        strategy(text, text, f64::NAN),
        strategy(&"long ".repeat(40), &"x".repeat(300), f64::INFINITY),
        StrategyResult {
            bytes_up: u64::MAX,
            bytes_down: u64::MAX,
            error: f64::NAN,
            ..strategy("zero", "", 0.0)
        },
    ];
    report.chosen = text.to_owned();
    report.reason = text.repeat(9);
    report.placements = vec![text.to_owned()];
    report
}
