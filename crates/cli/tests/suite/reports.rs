//! Reports with fixed values: what printers are tested on.

mod jobs;
mod machines;

pub(crate) use jobs::{dot_simulated, empty_sweep, hostile, solve_measured, sweep};
pub(crate) use machines::{probe_measured, probe_simulated};
