//! The simulator passes the suite under every policy, with either kind of address, on one and
//! two devices.

use pinfold_conformance::{Verdict, run_all, table};
use pinfold_hal::{DeviceId, Driver, Result};
use pinfold_hal_sim::{Live, Policy, Sim, SimOptions};
use pinfold_model::Profile;
use std::sync::Arc;

fn check(policy: Policy, split: bool, devices: u32, device: u32) -> Result<()> {
    let options = SimOptions::new(Profile::h200())
        .policy(policy)
        .split_addresses(split)
        .devices(devices);
    let sim = Arc::new(Sim::new(options));
    let driver: Arc<dyn Driver> = Arc::clone(&sim) as Arc<dyn Driver>;
    let report = run_all(&driver, DeviceId(device), None)?;
    assert!(
        report.passed(),
        "{policy:?}, split addresses {split}, device {device} of {devices}\n{}",
        table(&report)
    );
    assert_eq!(sim.live(), Live::default(), "something was not released");
    for test in &report.tests {
        if test.name.starts_with("several/") {
            let skipped = test.outcome == Verdict::Skipped;
            assert_eq!(skipped, devices == 1, "{}", test.name);
        }
    }
    Ok(())
}

#[test]
fn eager_and_lazy() -> Result<()> {
    for policy in [Policy::Eager, Policy::Lazy] {
        for split in [false, true] {
            check(policy, split, 1, 0)?;
            check(policy, split, 2, 0)?;
            check(policy, split, 2, 1)?;
        }
    }
    Ok(())
}

/// A seed decides the order of effects, the kind of address, and the number of devices.
fn seeds(range: std::ops::Range<u64>) -> Result<()> {
    for seed in range {
        let devices = 1 + (seed / 2 % 2) as u32;
        check(Policy::Seeded(seed), seed % 2 == 1, devices, devices - 1)?;
    }
    Ok(())
}

#[test]
fn seeds_below_25() -> Result<()> {
    seeds(0..25)
}

#[test]
fn seeds_from_25() -> Result<()> {
    seeds(25..50)
}
