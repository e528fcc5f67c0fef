//! Decorated simulators, seen from outside.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod forwarding;
