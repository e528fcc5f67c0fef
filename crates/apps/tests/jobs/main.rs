//! Tests of the jobs.

#[cfg(test)]
mod benches;
#[cfg(test)]
mod measured_machines;
#[cfg(test)]
mod on_devices;
