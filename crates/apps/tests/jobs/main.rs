//! Tests of the jobs.

#[cfg(test)]
mod on_devices;
#[cfg(test)]
mod measured_machines;
