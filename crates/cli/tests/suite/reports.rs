//! Reports with fixed values: what printers are tested on.

mod benches;
mod jobs;
mod machines;
mod memory;

pub(crate) use benches::{bench_measured, bench_simulated, machine_measured, model_simulated};
pub(crate) use jobs::{dot_simulated, empty_sweep, hostile, solve_measured, sweep};
pub(crate) use machines::{probe_measured, probe_simulated};
