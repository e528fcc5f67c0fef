//! What to simulate: a machine, when its work takes effect, and what it refuses.

use crate::Policy;
use pinfold_model::Profile;

/// What a [`Sim`](crate::Sim) simulates. Built from a profile and changed by the methods.
#[derive(Clone, Debug)]
pub struct SimOptions {
    pub(crate) profile: Profile,
    pub(crate) policy: Policy,
    pub(crate) split_addresses: bool,
    pub(crate) moving_addresses: bool,
    pub(crate) poison: Option<bool>,
    pub(crate) pin_limit_bytes: Option<u64>,
    pub(crate) register_limit_bytes: Option<u64>,
    pub(crate) register_limit_segments: Option<u64>,
    pub(crate) write_combined_limit_bytes: Option<u64>,
    pub(crate) missing_symbols: Vec<String>,
    pub(crate) registration_slowdown: f64,
}

impl SimOptions {
    /// The profile's machine, eager, with the profile's limits.
    pub fn new(profile: Profile) -> Self {
        SimOptions {
            policy: Policy::Eager,
            split_addresses: false,
            moving_addresses: false,
            poison: None,
            pin_limit_bytes: profile.limits.pinned_bytes,
            register_limit_bytes: profile.limits.registration_bytes,
            register_limit_segments: None,
            write_combined_limit_bytes: None,
            missing_symbols: Vec::new(),
            registration_slowdown: 1.0,
            profile,
        }
    }

    /// When operations take effect.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Gives page-locked memory device addresses that differ from its host addresses, and says so
    /// in the capabilities.
    #[must_use]
    pub fn split_addresses(mut self, split: bool) -> Self {
        self.split_addresses = split;
        self
    }

    /// As [`split_addresses`](Self::split_addresses), and memory that is registered again has other
    /// device addresses than before.
    #[must_use]
    pub fn moving_addresses(mut self) -> Self {
        self.split_addresses = true;
        self.moving_addresses = true;
        self
    }

    /// So many devices, each like the profile's first.
    ///
    /// A number of 0 makes a machine without devices.
    #[must_use]
    pub fn devices(mut self, count: u32) -> Self {
        let first = self.profile.devices.first().cloned();
        self.profile.devices = first.into_iter().cycle().take(count as usize).collect();
        self
    }

    /// Whether fresh memory, page-locked or of a device, and the targets of copies in flight to the
    /// host, hold the byte 0xA5 instead of zeros or the old contents. Unless set: yes, except
    /// under the eager policy.
    #[must_use]
    pub fn poison(mut self, poison: bool) -> Self {
        self.poison = Some(poison);
        self
    }

    /// Most page-locked bytes in all, allocated and registered; more fail with `OutOfMemory`.
    #[must_use]
    pub fn pin_limit(mut self, bytes: Option<u64>) -> Self {
        self.pin_limit_bytes = bytes;
        self
    }

    /// Most bytes in one registration, and most registrations at a time; more fail with
    /// `OutOfMemory`.
    #[must_use]
    pub fn register_limit(mut self, bytes: u64, segments: u64) -> Self {
        self.register_limit_bytes = Some(bytes);
        self.register_limit_segments = Some(segments);
        self
    }

    /// Most bytes of one write-combined allocation; more fail with `OutOfMemory`.
    #[must_use]
    pub fn write_combined_limit(mut self, bytes: u64) -> Self {
        self.write_combined_limit_bytes = Some(bytes);
        self
    }

    /// An entry point that the driver lacks, by its name in libcuda. It is listed in
    /// `missing_symbols`, and the operation that needs it answers `NotSupported`.
    ///
    /// Real drivers lack only optional ones: host callbacks, adopted streams, events of other
    /// processes, capture and graphs.
    #[must_use]
    pub fn missing_symbol(mut self, name: impl Into<String>) -> Self {
        self.missing_symbols.push(name.into());
        self
    }

    /// Registering memory takes so many times as long as the profile says.
    #[must_use]
    pub fn slow_registration(mut self, factor: f64) -> Self {
        self.registration_slowdown = factor;
        self
    }

    pub(crate) fn poisons(&self) -> bool {
        self.poison.unwrap_or(self.policy != Policy::Eager)
    }
}
