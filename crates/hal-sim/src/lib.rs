//! The driver operations as a deterministic simulation of any number of GPUs.
//!
//! Not a stub: kernels compute (by their Rust twins), copies copy, and all of it takes virtual time
//! from a machine profile. The same calls give the same bytes, errors and times in every run.
//!
//! # Time
//!
//! One host clock, in picoseconds, moves on with every call by the call's cost. An operation gets
//! its start and end when it is enqueued: after what it comes after, in the earliest gap of the
//! copy engine or kernel slot that it needs. A wait moves the clock to the end of what it waits
//! for.
//!
//! # Effect
//!
//! *When* bytes move is a matter of its own, and of the [`Policy`]: at the enqueueing call, at the
//! last legal moment, or at moments that a seed chooses, large copies in pieces. A program that
//! touches memory before it has waited sees poison or old bytes under one of them. Virtual time
//! does not depend on the policy.
//!
//! Twins and callbacks run on whatever thread makes the call that lets them, under the simulation's
//! lock: a callback must not wait for a thread that calls the driver.
//!
//! # Rules
//!
//! Broken rules that a real driver would bear in silence (memory freed under a running copy,
//! handles used after their end, driver calls from callbacks) are noted as hazards.
//!
//! ```
//! use pinfold_hal::{BackendOps, DeviceId, HostAllocFlags, MemoryOps};
//! use pinfold_hal_sim::{Policy, Sim, SimOptions};
//! use pinfold_model::Profile;
//!
//! let sim = Sim::new(SimOptions::new(Profile::h200()).policy(Policy::Seeded(7)));
//! let device = DeviceId(0);
//! sim.open(device)?;
//! let memory = sim.host_alloc(device, 4096, HostAllocFlags::default())?;
//! assert_eq!(sim.live().host_bytes, 4096);
//! // SAFETY: just allocated, and nothing uses it.
//! unsafe { sim.host_free(device, memory)? };
//! # Ok::<(), pinfold_hal::DriverError>(())
//! ```
//!
//! # Rooms
//!
//! `backend` `memory` `stream` `event` `module` `graph` `error` mirror `pinfold-hal`. Behind them:
//! `world` the state and the steps of every call · `operation` and `prepare` what work is and costs
//! · `schedule` resources and virtual time · `policy` and `effect` when work takes effect ·
//! `capture` work noted for a graph · `address` whose an address is · `hazard` broken rules · `raw`
//! the memory itself.

mod address;
mod backend;
mod capture;
mod effect;
mod error;
mod event;
mod graph;
mod hazard;
mod memory;
mod module;
mod operation;
mod options;
mod policy;
mod prepare;
mod raw;
mod schedule;
mod stream;
mod world;

pub use options::SimOptions;
pub use policy::{ParsePolicyError, Policy};

use hazard::HazardLog;
use parking_lot::{Mutex, MutexGuard};
use pinfold_hal::{DeviceId, DriverError, ErrorCode, Result};
use std::fmt;
use std::sync::Arc;
use world::World;

/// The simulated driver.
pub struct Sim {
    world: Mutex<World>,
    hazards: Arc<HazardLog>,
    missing_symbols: Vec<String>,
}

/// What a [`Sim`] still holds: everything that the program has not given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Bytes of page-locked allocations.
    pub host_bytes: u64,
    /// Bytes of registrations.
    pub registered_bytes: u64,
    /// Bytes of device memory.
    pub device_bytes: u64,
    /// Streams, without the default ones.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules.
    pub modules: usize,
    /// Graphs and executable graphs.
    pub graphs: usize,
}

impl Sim {
    /// A machine that was just switched on: no device is open, and the clock stands at zero.
    pub fn new(options: SimOptions) -> Self {
        let hazards = Arc::new(HazardLog::default());
        Sim {
            missing_symbols: options.missing_symbols.clone(),
            world: Mutex::new(World::new(options, Arc::clone(&hazards))),
            hazards,
        }
    }

    /// What the program has not given back.
    pub fn live(&self) -> Live {
        let world = self.world.lock();
        let (host_bytes, registered_bytes, _) = world.host.totals();
        Live {
            host_bytes,
            registered_bytes,
            device_bytes: world.blocks.total_bytes(),
            streams: world.streams.keys().filter(|id| id.raw != 0).count(),
            events: world.events.count(),
            modules: world.modules.count(),
            graphs: world.graphs.count(),
        }
    }

    /// Loses a device, as when it falls off the bus: work that has not taken effect never will, and
    /// every later call on the device fails, until it is closed as often as it was opened.
    pub fn lose_device(&self, device: DeviceId) {
        let mut world = self.world.lock();
        let what = format!("device {device} was lost");
        world.lose(device, ErrorCode::ContextIsDestroyed, what);
    }

    /// The beginning of every call: refuses callbacks and what the driver lacks, takes the lock,
    /// and under a seed lets some operations go on.
    fn enter(&self, call: &'static str) -> Result<MutexGuard<'_, World>> {
        if hazard::callback_ps().is_some() {
            self.hazards
                .note(call, "called from inside a host callback");
            return Err(DriverError::with_detail(
                ErrorCode::NotPermitted,
                call,
                "host callbacks and twins must not call the driver",
            ));
        }
        if self.missing_symbols.iter().any(|symbol| symbol == call) {
            return Err(error::lacking(call));
        }
        let mut world = self.world.lock();
        world.progress();
        Ok(world)
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").finish_non_exhaustive()
    }
}
