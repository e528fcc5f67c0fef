//! What the library promises, on simulated machines.

#[cfg(test)]
mod buffers;
#[cfg(test)]
mod common;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod kernels;
#[cfg(test)]
mod ladder;
#[cfg(test)]
mod order;
#[cfg(test)]
mod pool;
#[cfg(test)]
mod register;
#[cfg(test)]
mod twins;
