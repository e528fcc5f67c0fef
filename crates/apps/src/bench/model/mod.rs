//! The cost model against the machine: held-out points are predicted from a profile, measured, and
//! compared; and how often the way that the model takes is as good as the best.
//!
//! [`points`] what is drawn and predicted · [`ways`] how it is measured.

mod points;
mod ways;

use super::machine::plan::Plan;
use super::machine::rig::Rig;
use super::table::{Figure, Table, TablesReport};
use crate::error::{JobError, Result};
use crate::progress::Progress;
use crate::report::{DeviceLabel, Fact};
use pinfold::{Device, profiles};
use pinfold_model::Profile;
use points::Draw;
use ways::{Choice, Outcome};

/// Least and most points, and how many there are unless asked for.
pub const POINTS_MIN: u64 = 20;
/// As above.
pub const POINTS_MAX: u64 = 100_000;
/// As above.
pub const POINTS_DEFAULT: u64 = 240;
/// The seed of the points.
const SEED: u64 = 0x0050_1475;
/// A way is as good as the best where it takes no more than this part longer.
const AS_GOOD: f64 = 0.05;

/// Points that belong together.
struct Family {
    name: &'static str,
    outcomes: Vec<Outcome>,
}

/// Ways to one end that belong together.
struct Choices {
    name: &'static str,
    choices: Vec<Choice>,
}

/// Compares a profile's predictions with a device. `profile` is what predicts; `from` says where it
/// comes from.
///
/// # Errors
/// A number of points out of range, memory that cannot be had, and a device that fails.
pub fn run(
    device: &Device,
    profile: &Profile,
    from: &str,
    points: u64,
    progress: &mut dyn Progress,
) -> Result<TablesReport> {
    if !(POINTS_MIN..=POINTS_MAX).contains(&points) {
        return Err(JobError::OutOfRange {
            what: "points",
            got: points,
            min: POINTS_MIN,
            max: POINTS_MAX,
        });
    }
    let mut rig = Rig::new(device, Plan::new(device, true))?;
    let (families, choices) = measure(&mut rig, profile, points as usize, progress)?;
    let mut findings = worst(&families);
    findings.extend(profiles::mismatch(profile, device).map(|text| Fact::new("warning", text)));
    Ok(TablesReport {
        bench: "model".to_owned(),
        device: DeviceLabel::of(device),
        machine: vec![
            Fact::new("profile", format!("{} ({from})", profile.name)),
            Fact::new("points", count(&families)),
        ],
        tables: vec![errors(&families), kept(&choices), every_point(&families)],
        charts: Vec::new(),
        findings,
    })
}

fn count(families: &[Family]) -> usize {
    families.iter().map(|family| family.outcomes.len()).sum()
}

/// Shares of the points: each size of ordinary memory makes two of them.
fn measure(
    rig: &mut Rig,
    profile: &Profile,
    points: usize,
    progress: &mut dyn Progress,
) -> Result<(Vec<Family>, Vec<Choices>)> {
    let draw = &mut Draw::new(SEED);
    let share = |percent: usize| (points * percent).div_ceil(100);
    progress.begin("held-out points", 6);
    let mut families = Vec::new();
    let mut family = |name, outcomes| families.push(Family { name, outcomes });
    family(
        "page-locked copies",
        ways::copies(rig, profile, draw, share(30))?,
    );
    progress.step();
    let (driver, staged, ordinary) = ways::ordinary(rig, profile, draw, share(15))?;
    family("ordinary memory, by the driver", driver);
    family("ordinary memory, by threads", staged);
    progress.step();
    family(
        "in place, in order",
        ways::in_order(rig, profile, draw, share(12))?,
    );
    progress.step();
    family(
        "in place, with a stride",
        ways::strided(rig, profile, draw, share(8))?,
    );
    progress.step();
    family(
        "in place, random rows",
        ways::rows(rig, profile, draw, share(15))?,
    );
    progress.step();
    let (copied, once) = ways::read_once(rig, profile, draw, share(8))?;
    family("copied, then read by a kernel", copied);
    progress.step();
    progress.end();
    let choices = vec![
        Choices {
            name: "ordinary memory: the driver or threads",
            choices: ordinary,
        },
        Choices {
            name: "read once: copied first or in place",
            choices: once,
        },
    ];
    Ok((families, choices))
}

/// One value in percent.
fn percent(share: f64) -> Option<Figure> {
    Some(Figure::of(vec![100.0 * share]))
}

/// Sizes of the errors, in order.
fn sizes<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Vec<f64> {
    let mut sizes: Vec<f64> = outcomes.map(|outcome| error(outcome).abs()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes
}

/// How much more than measured was predicted, as a part of what was measured.
fn error(outcome: &Outcome) -> f64 {
    outcome.predicted_ns / outcome.measured.value - 1.0
}

/// The value that a part of them does not exceed; `sizes` are in order.
fn quantile(sizes: &[f64], part: f64) -> f64 {
    let at = (part * sizes.len() as f64).ceil() as usize;
    sizes.get(at.max(1) - 1).copied().unwrap_or(0.0)
}

fn errors(families: &[Family]) -> Table {
    let columns = ["median", "95th percentile", "worst"];
    let mut table = Table::new("Errors of the predictions", "points", "%", &columns);
    let mut row = |name: &str, sizes: Vec<f64>| {
        let figures = [0.5, 0.95, 1.0].map(|part| percent(quantile(&sizes, part)));
        table.row(format!("{name} ({})", sizes.len()), figures.to_vec());
    };
    for family in families {
        row(family.name, sizes(family.outcomes.iter()));
    }
    row(
        "all",
        sizes(families.iter().flat_map(|family| &family.outcomes)),
    );
    table
}

fn kept(choices: &[Choices]) -> Table {
    let columns = [
        "as good as the best",
        "lost, 95th percentile",
        "lost, at worst",
    ];
    let mut table = Table::new("The way that the model takes", "choices", "%", &columns);
    let mut row = |name: &str, mut excess: Vec<f64>| {
        excess.sort_by(f64::total_cmp);
        let good = excess.iter().filter(|lost| **lost <= AS_GOOD).count();
        let part = good as f64 / excess.len().max(1) as f64;
        let figures = [part, quantile(&excess, 0.95), quantile(&excess, 1.0)];
        let name = format!("{name} ({})", excess.len());
        table.row(name, figures.map(percent).to_vec());
    };
    let excess = |choices: &Choices| choices.choices.iter().map(Choice::excess).collect();
    for family in choices {
        row(family.name, excess(family));
    }
    row(
        "all",
        choices
            .iter()
            .flat_map(|c| -> Vec<f64> { excess(c) })
            .collect(),
    );
    table
}

/// Every point with its prediction and what was measured.
fn every_point(families: &[Family]) -> Table {
    let columns = ["predicted", "measured"];
    let mut table = Table::new("Every point", "points", "ns", &columns);
    table.details = true;
    for family in families {
        for point in &family.outcomes {
            let predicted = Figure::of(vec![point.predicted_ns]);
            let name = format!("{}: {}", family.name, point.name);
            table.row(name, vec![Some(predicted), Some(point.measured)]);
        }
    }
    table
}

/// The worst point of each family.
fn worst(families: &[Family]) -> Vec<Fact> {
    let worst = families.iter().filter_map(|family| {
        let size = |outcome: &&Outcome| error(outcome).abs();
        let all = family.outcomes.iter();
        let worst = all.max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let text = format!(
            "{}: predicted {:.1} µs, measured {:.1} µs, {:+.1} %",
            worst.name,
            worst.predicted_ns / 1e3,
            worst.measured.value / 1e3,
            100.0 * error(worst)
        );
        Some(Fact::new(&format!("worst of {}", family.name), text))
    });
    worst.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(predicted_ns: f64, measured_ns: f64) -> Outcome {
        Outcome {
            name: String::new(),
            predicted_ns,
            measured: Figure::of(vec![measured_ns]),
        }
    }

    #[test]
    fn quantiles_are_measured_values() {
        let sizes: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            [0.5, 0.95, 1.0].map(|p| quantile(&sizes, p)),
            [50.0, 95.0, 100.0]
        );
        assert_eq!(quantile(&[7.0], 0.5), 7.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_choice_loses_what_the_best_way_would_have_saved() {
        let wrong = Choice {
            ways: vec![outcome(1.0, 30.0), outcome(2.0, 20.0)],
        };
        assert!((wrong.excess() - 0.5).abs() < 1e-12);
        let right = Choice {
            ways: vec![outcome(9.0, 30.0), outcome(2.0, 20.0)],
        };
        assert_eq!(right.excess(), 0.0);
    }
}
