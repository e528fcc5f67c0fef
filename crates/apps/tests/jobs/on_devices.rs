//! The jobs on simulated devices: right answers under every effect policy, and clear refusals.

use pinfold::{Device, Platform};
use pinfold_apps::progress::Silent;
use pinfold_apps::report::{JobReport, StrategyResult};
use pinfold_apps::solve::SolveOptions;
use pinfold_apps::{JobError, dot, solve};
use pinfold_hal::BackendOps;
use pinfold_hal_sim::{Policy, Sim, SimOptions};
use pinfold_model::Profile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn device(policy: Policy) -> (Arc<Sim>, Device) {
    let options = SimOptions::new(Profile::h200())
        .split_addresses(true)
        .policy(policy);
    let sim = Arc::new(Sim::new(options));
    let device = Platform::with_driver(sim.clone()).device(0).unwrap();
    (sim, device)
}

fn policies() -> impl Iterator<Item = Policy> {
    [Policy::Eager, Policy::Lazy]
        .into_iter()
        .chain((0..50).map(Policy::Seeded))
}

fn plate() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/plate.mtx")
}

/// The parts of a report that must not depend on when effects happen.
fn answers(report: &JobReport) -> Vec<(String, u64, Option<u64>)> {
    let answer = |s: &StrategyResult| (s.name.clone(), s.error.to_bits(), s.iterations);
    report.strategies.iter().map(answer).collect()
}

#[test]
fn dot_gives_the_same_bits_and_the_same_times_under_every_policy() {
    let mut first: Option<JobReport> = None;
    for policy in policies() {
        let (sim, device) = device(policy);
        let report = dot::run(&device, 8192, &mut Silent).unwrap();
        assert!(report.device.simulated && report.device.name.contains("simulated"));
        let names: Vec<&str> = report.strategies.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names.last(), Some(&"chosen"));
        assert_eq!(names.len(), 7);
        let first = first.get_or_insert_with(|| report.clone());
        assert_eq!(answers(&report), answers(first), "{policy}");
        for (now, then) in report.strategies.iter().zip(&first.strategies) {
            let off = (now.seconds - then.seconds).abs() / then.seconds;
            assert!(
                off < 0.02,
                "{policy}, {}: {} then {}",
                now.name,
                then.seconds,
                now.seconds
            );
        }
        assert_eq!(report.chosen, first.chosen, "{policy}");
        drop(device);
        assert_eq!(sim.live(), Default::default(), "{policy}");
        assert!(sim.hazards().is_empty(), "{policy}: {:?}", sim.hazards());
    }
}

#[test]
fn what_dot_chooses_is_the_best_of_the_simulated_strategies_within_five_percent() {
    for profile in Profile::shipped_names() {
        let platform = Platform::simulated(Profile::shipped(profile).unwrap());
        let device = platform.device(0).unwrap();
        for elements in [1000, 8192, 1 << 16, 1 << 20, 1 << 22] {
            let report = dot::run(&device, elements, &mut Silent).unwrap();
            let best = report
                .strategies
                .iter()
                .map(|s| s.seconds)
                .fold(f64::MAX, f64::min);
            let chosen = report.strategies.last().unwrap().seconds;
            assert!(
                chosen <= 1.05 * best,
                "{profile}, {elements}: {chosen} against {best}"
            );
        }
    }
}

#[test]
fn what_dot_calls_chosen_is_a_row_that_ran_the_same_way() {
    for profile in Profile::shipped_names() {
        let platform = Platform::simulated(Profile::shipped(profile).unwrap());
        let device = platform.device(0).unwrap();
        for elements in [1000, 1 << 16, 1 << 22] {
            let report = dot::run(&device, elements, &mut Silent).unwrap();
            let own = report.strategies.last().unwrap();
            let named = report.strategies.iter().find(|s| s.name == report.chosen);
            let named = named.unwrap();
            assert_ne!(named.name, own.name, "{profile}, {elements}");
            assert_eq!(named.placement, own.placement, "{profile}, {elements}");
            let off = (named.seconds - own.seconds).abs() / own.seconds;
            assert!(off < 1e-3, "{profile}, {elements}: {off}");
        }
    }
}

#[test]
fn dot_refuses_lengths_that_make_no_sense() {
    let (_, device) = device(Policy::Eager);
    for elements in [0, u64::MAX, dot::ELEMENTS_MAX + 1] {
        let error = dot::run(&device, elements, &mut Silent).unwrap_err();
        assert!(matches!(error, JobError::OutOfRange { .. }), "{error}");
    }
    assert!(dot::run(&device, 1, &mut Silent).is_ok());
}

#[test]
fn the_solver_gives_the_same_answers_under_every_policy() {
    let mut first: Option<JobReport> = None;
    for policy in policies() {
        let (sim, device) = device(policy);
        let report = solve::run(&device, &plate(), &SolveOptions::default(), &mut Silent).unwrap();
        let first = first.get_or_insert_with(|| report.clone());
        assert_eq!(answers(&report), answers(first), "{policy}");
        drop(device);
        assert_eq!(sim.live(), Default::default(), "{policy}");
        assert!(sim.hazards().is_empty(), "{policy}: {:?}", sim.hazards());
    }
    let report = first.unwrap();
    assert_eq!(report.strategies.len(), 7);
    // All ways with the vectors on the device do the same arithmetic in the same order.
    let on_device = &report.strategies[1..];
    assert!(
        on_device.iter().all(|s| s.error == on_device[0].error),
        "{report:?}"
    );
    assert!(report.strategies.iter().all(|s| s.error < 1e-7));
}

#[test]
fn where_the_solver_puts_the_matrix_is_near_the_best_on_every_machine() {
    for profile in Profile::shipped_names() {
        let platform = Platform::simulated(Profile::shipped(profile).unwrap());
        let device = platform.device(0).unwrap();
        let report = solve::run(&device, &plate(), &SolveOptions::default(), &mut Silent).unwrap();
        let best = |time: fn(&StrategyResult) -> f64| {
            report.strategies.iter().map(time).fold(f64::MAX, f64::min)
        };
        let chosen = report.strategies.last().unwrap();
        let (step, total) = (chosen.seconds_per_iteration.unwrap(), chosen.seconds);
        let best_step = best(|s| s.seconds_per_iteration.unwrap());
        let best_total = best(|s| s.seconds);
        assert!(
            step <= 1.1 * best_step,
            "{profile}: a step takes {step} against {best_step}: {}",
            report.reason
        );
        assert!(
            total <= 1.05 * best_total,
            "{profile}: {total} against {best_total}: {}",
            report.reason
        );
        let named = report.strategies.iter().find(|s| s.name == report.chosen);
        assert_eq!(named.unwrap().placement, chosen.placement, "{profile}");
    }
}

#[test]
fn real_matrices_take_the_iterations_that_others_found() {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/inputs/sparse/spd");
    if !inputs.is_dir() {
        println!("skipped: no real matrices beside this checkout");
        return;
    }
    for (file, iterations) in [
        ("494_bus.mtx", 393),
        ("1138_bus.mtx", 935),
        ("LFAT5.mtx", 7),
        ("ginkgo_multigrid_A.mtx", 84),
        ("ginkgo_simple_A.mtx", 9),
        ("gr_900_900_crg.mtx", 41),
        ("lap2D_5pt_n100.mtx", 183),
        ("lap3D_7pt_n20.mtx", 51),
        ("bcsstk13.mtx", 1358),
    ] {
        let (_, device) = device(Policy::Eager);
        let path = inputs.join(file);
        let report = solve::run(&device, &path, &SolveOptions::default(), &mut Silent).unwrap();
        for strategy in &report.strategies {
            let got = strategy.iterations.unwrap() as f64;
            let off = (got - f64::from(iterations)).abs() / f64::from(iterations);
            assert!(
                off <= 0.02,
                "{file}, {}: {got} against {iterations}",
                strategy.name
            );
            assert!(
                strategy.error <= 1e-6,
                "{file}, {}: {}",
                strategy.name,
                strategy.error
            );
        }
    }
}

fn refusal(name: &str, text: &str) -> String {
    let path = std::env::temp_dir().join(format!("pinfold-{}-{name}.mtx", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let (sim, device) = device(Policy::Eager);
    let error = solve::run(&device, &path, &SolveOptions::default(), &mut Silent).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    drop(device);
    assert_eq!(sim.live(), Default::default());
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    text
}

#[test]
fn matrices_that_do_not_suit_the_solver_are_refused_by_name() {
    let banner = "%%MatrixMarket matrix coordinate real general\n";
    for (name, body, word) in [
        ("wide", "1 2 1\n1 1 1\n", "square"),
        ("skewed", "2 2 3\n1 1 2\n2 2 2\n1 2 1\n", "symmetric"),
        ("nan", "1 1 1\n1 1 nan\n", "(line 3)"),
        ("short", "2 2 2\n1 1 1\n", ""),
        (
            "indefinite",
            "2 2 4\n1 1 1\n2 2 3\n1 2 2\n2 1 2\n",
            "entry (1, 2) is 2",
        ),
        // A·1 is an eigenvector, so that the first step would hit the solution.
        (
            "eigenvector",
            "2 2 4\n1 1 1\n2 2 1\n1 2 5\n2 1 5\n",
            "entry (1, 2) is 5",
        ),
        (
            "curved",
            "3 3 9\n1 1 1\n2 2 1\n3 3 1\n1 2 -.9\n2 1 -.9\n1 3 -.9\n3 1 -.9\n2 3 -.9\n\
             3 2 -.9\n",
            "p·Ap is -",
        ),
        (
            "far",
            "2 2 2\n1 1 1e200\n2 2 1e-200\n",
            "norm of the right-hand side",
        ),
        ("tiny", "2 2 2\n1 1 1e-200\n2 2 1e-200\n", "scale its rows"),
        (
            "tinier",
            "2 2 2\n1 1 1\n2 2 1e-310\n",
            "entry of row 2 is out of",
        ),
        (
            "laplacian",
            "3 3 7\n1 1 1\n2 2 2\n3 3 1\n1 2 -1\n2 1 -1\n2 3 -1\n3 2 -1\n",
            "singular",
        ),
    ] {
        let text = refusal(name, &format!("{banner}{body}"));
        assert!(text.contains(word), "{name}: {text}");
    }
}

#[test]
fn too_few_steps_are_an_error_that_says_what_to_do() {
    let (_, device) = device(Policy::Eager);
    let options = SolveOptions {
        iterations_max: 3,
        ..SolveOptions::default()
    };
    let error = solve::run(&device, &plate(), &options, &mut Silent)
        .unwrap_err()
        .to_string();
    assert!(error.contains("--max-iterations"), "{error}");
}
