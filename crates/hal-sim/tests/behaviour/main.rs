//! The behaviour of the simulation, seen from outside: one file for each subject.

#[cfg(test)]
mod common;
#[cfg(test)]
mod events;
#[cfg(test)]
mod graphs;
#[cfg(test)]
mod kernels;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod time;
