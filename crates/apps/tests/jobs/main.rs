//! Tests of the jobs.

#[cfg(test)]
mod on_devices;
