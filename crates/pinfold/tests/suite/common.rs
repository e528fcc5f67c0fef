//! Where tests run: simulated machines under every effect policy, and the real one.

use pinfold::{Device, Platform};
use pinfold_hal_sim::{Policy, Sim, SimOptions};
use pinfold_model::Profile;
use std::sync::Arc;

/// Seeds that every behaviour is tried under, besides eager and lazy.
const SEEDS: u64 = 50;

/// A simulated machine that can be asked what it saw.
pub(crate) struct Machine {
    pub(crate) platform: Platform,
    pub(crate) sim: Arc<Sim>,
    pub(crate) policy: Policy,
}

impl Machine {
    pub(crate) fn new(options: SimOptions, policy: Policy) -> Self {
        let sim = Arc::new(Sim::new(options.policy(policy)));
        Machine {
            platform: Platform::with_driver(sim.clone()),
            sim,
            policy,
        }
    }

    pub(crate) fn device(&self, index: u32) -> Device {
        self.platform.device(index).unwrap()
    }

    /// Nothing may be left, and no rule may have been broken.
    pub(crate) fn check_clean(self) {
        let Machine {
            platform,
            sim,
            policy,
        } = self;
        drop(platform);
        assert_eq!(sim.live(), Default::default(), "left behind under {policy}");
        let hazards = pinfold_hal::BackendOps::hazards(&*sim);
        assert!(hazards.is_empty(), "under {policy}: {hazards:?}");
    }
}

/// Options that make mistakes show: device addresses differ from host addresses.
pub(crate) fn options() -> SimOptions {
    SimOptions::new(Profile::h200()).split_addresses(true)
}

/// Runs a scenario under every policy, on a machine with so many devices.
pub(crate) fn under_every_policy(devices: u32, scenario: impl Fn(&Machine)) {
    let seeded = (0..SEEDS).map(Policy::Seeded);
    for policy in [Policy::Eager, Policy::Lazy].into_iter().chain(seeded) {
        let machine = Machine::new(options().devices(devices), policy);
        scenario(&machine);
        machine.check_clean();
    }
}

/// A machine that a test cannot look into: simulated under some policy, or real.
pub(crate) struct Place {
    pub(crate) platform: Platform,
    pub(crate) name: String,
}

impl Place {
    pub(crate) fn device(&self, index: u32) -> Device {
        self.platform.device(index).unwrap()
    }
}

/// Runs a scenario under every policy, and on the real devices of this machine where there are so
/// many.
pub(crate) fn everywhere(devices: u32, scenario: impl Fn(&Place)) {
    under_every_policy(devices, |machine| {
        scenario(&Place {
            platform: machine.platform.clone(),
            name: machine.policy.to_string(),
        });
    });
    on_real_devices(devices, scenario);
}

/// Runs a scenario that is too large for every policy under the eager one, and on real devices.
pub(crate) fn once_and_on_real_devices(devices: u32, scenario: impl Fn(&Place)) {
    let machine = Machine::new(options().devices(devices), Policy::Eager);
    scenario(&Place {
        platform: machine.platform.clone(),
        name: machine.policy.to_string(),
    });
    machine.check_clean();
    on_real_devices(devices, scenario);
}

fn on_real_devices(devices: u32, scenario: impl Fn(&Place)) {
    let real = Platform::cuda().and_then(|platform| Ok((platform.device_count()?, platform)));
    match real {
        Ok((count, platform)) if count >= devices => scenario(&Place {
            platform,
            name: "a real device".to_owned(),
        }),
        Ok((count, _)) => println!("skipped on real devices: there are {count}, not {devices}"),
        Err(error) => println!("skipped on a real device: {error}"),
    }
}
