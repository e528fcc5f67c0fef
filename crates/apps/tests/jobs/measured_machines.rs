//! A machine that is measured on the simulator gives back the profile that it was simulated from,
//! and the model is right about it.

use pinfold::{Device, Platform};
use pinfold_apps::JobError;
use pinfold_apps::bench::table::{LineKind, TablesReport};
use pinfold_apps::bench::{machine, model};
use pinfold_apps::progress::Silent;
use pinfold_hal::BackendOps;
use pinfold_hal_sim::{Policy, Sim, SimOptions};
use pinfold_model::{Profile, Source};
use std::sync::Arc;

fn device(profile: Profile) -> Device {
    Platform::simulated(profile).device(0).unwrap()
}

/// Measured by threads whose virtual time is one clock's, and by a formula of its own.
const BY_OTHER_FORMULAS: [&str; 2] = ["staging.thread_bytes_per_s", "staging.wake_ns"];

#[test]
fn a_simulated_machine_gives_back_its_profile() {
    for name in ["h200", "pcie3", "gh200", "integrated"] {
        let true_profile = Profile::shipped(name).unwrap();
        let device = device(true_profile.clone());
        let measured = machine::run(&device, true, &mut Silent).unwrap();
        let profile = Profile::from_toml(&measured.profile.to_toml().unwrap()).unwrap();
        assert_eq!(profile, measured.profile, "{name}: survives its file");
        let values = profile
            .quantities()
            .into_iter()
            .zip(true_profile.quantities());
        let mut count = 0;
        for ((key, got), (_, want)) in values {
            if got.source == Source::Assumed || BY_OTHER_FORMULAS.contains(&&*key) {
                continue;
            }
            count += 1;
            let off = (got.value - want.value).abs() / want.value.max(1.0);
            // Where the two directions are not equally fast, two equal copies do not end together.
            let allowed = match &*key {
                "link.both_directions_bytes_per_s" => 0.05,
                _ => 0.01,
            };
            assert!(
                off < allowed,
                "{name}: {key} is {}, not {}",
                got.value,
                want.value
            );
        }
        assert!(count >= 33, "{name}: {count} values");
        let (got, want) = (&profile.curves, &true_profile.curves);
        for stride in [4.0, 8.0, 32.0, 100.0] {
            let rate = |curve: &pinfold_model::RateTable| curve.rate_bytes_per_s(stride);
            let off = rate(&got.zero_copy_strided) / rate(&want.zero_copy_strided);
            assert!((off - 1.0).abs() < 0.01, "{name}: {stride} B apart, {off}");
        }
        assert_eq!(got.zero_copy_rows.source, Source::Measured);
    }
}

fn errors(report: &TablesReport, family: &str) -> [f64; 3] {
    let table = report.table("Errors").unwrap();
    let row = table
        .rows
        .iter()
        .find(|row| row.name.starts_with(family))
        .unwrap();
    [0, 1, 2].map(|n: usize| row.figures[n].unwrap().value)
}

#[test]
fn the_model_is_right_where_it_shares_its_formulas_with_the_simulator() {
    let h200 = Profile::h200();
    let report = model::run(&device(h200.clone()), &h200, "shipped", 240, &mut Silent).unwrap();
    for family in [
        "page-locked copies",
        "in place, in order",
        "in place, with a stride",
        "in place, random rows",
        "copied, then read",
    ] {
        let [median, _, worst] = errors(&report, family);
        assert!(
            median < 0.02 && worst < 0.1,
            "{family}: {median} %, {worst} %"
        );
    }
    // A wait for the stream follows the copy, which has been waited for inside the call.
    let [median, _, worst] = errors(&report, "ordinary memory, by the driver");
    assert!(median < 0.1 && worst < 4.0, "{median} %, {worst} %");
    let [median, ..] = errors(&report, "all");
    assert!(median < 0.1, "{median} %");
    let table = report.table("The way").unwrap();
    let all = table.rows.last().unwrap().figures[0].unwrap().value;
    assert!(all >= 90.0, "as good as the best in {all} %");
    let points = report
        .machine
        .iter()
        .find(|fact| fact.name == "points")
        .unwrap();
    assert!(points.value.parse::<u64>().unwrap() >= 200, "{points:?}");
}

#[test]
fn a_profile_of_another_machine_is_wrong_and_called_so() {
    let device = device(Profile::shipped("pcie3").unwrap());
    let report = model::run(&device, &Profile::h200(), "shipped", 20, &mut Silent).unwrap();
    assert!(errors(&report, "page-locked copies")[0] > 20.0);
    let warning = report
        .findings
        .iter()
        .find(|fact| fact.name == "warning")
        .unwrap();
    assert!(
        warning.value.contains("another machine"),
        "{}",
        warning.value
    );
}

#[test]
fn numbers_of_points_out_of_range_are_refused() {
    let h200 = Profile::h200();
    let device = device(h200.clone());
    for points in [0, model::POINTS_MIN - 1, model::POINTS_MAX + 1, u64::MAX] {
        let refused = model::run(&device, &h200, "shipped", points, &mut Silent).unwrap_err();
        assert!(matches!(refused, JobError::OutOfRange { .. }), "{refused}");
    }
}

#[test]
fn a_machine_is_measured_under_every_policy_and_nothing_is_left() {
    let policies = [Policy::Eager, Policy::Lazy].into_iter();
    for policy in policies.chain((0..2).map(Policy::Seeded)) {
        let options = SimOptions::new(Profile::h200())
            .split_addresses(true)
            .policy(policy);
        let sim = Arc::new(Sim::new(options));
        let device = Platform::with_driver(sim.clone()).device(0).unwrap();
        let measured = machine::run(&device, true, &mut Silent).unwrap();
        let h200 = Profile::h200().link.to_device_bytes_per_s.value;
        let rate = measured.profile.link.to_device_bytes_per_s.value;
        assert!((rate / h200 - 1.0).abs() < 0.01, "{policy}: {rate}");
        model::run(&device, &measured.profile, "measured", 20, &mut Silent).unwrap();
        drop(device);
        assert_eq!(sim.live(), Default::default(), "{policy}");
        assert!(sim.hazards().is_empty(), "{policy}: {:?}", sim.hazards());
    }
}

#[test]
fn curves_stay_below_the_ceiling_and_near_the_prediction() {
    let measured = machine::run(&device(Profile::h200()), true, &mut Silent).unwrap();
    let charts = &measured.report.charts;
    assert!(charts.len() >= 4);
    for chart in charts {
        let ceiling = chart
            .lines
            .iter()
            .find(|l| l.kind == LineKind::Ceiling)
            .unwrap();
        let most = ceiling.points[0].1;
        let measured = chart.lines.iter().filter(|l| l.kind == LineKind::Measured);
        for line in measured {
            assert!(
                line.points.iter().all(|(_, rate)| *rate <= most),
                "{}",
                line.name
            );
            let sizes: Vec<f64> = line.points.iter().map(|(bytes, _)| *bytes).collect();
            assert!(sizes.is_sorted() && !sizes.is_empty());
        }
        let pairs = chart.lines.windows(2);
        for pair in pairs.filter(|pair| pair[1].kind == LineKind::Predicted) {
            for (measured, predicted) in pair[0].points.iter().zip(&pair[1].points) {
                let off = predicted.1 / measured.1 - 1.0;
                assert!(off.abs() < 0.01, "{}: {off}", pair[1].name);
            }
        }
    }
}
