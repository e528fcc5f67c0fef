//! What the library promises, on simulated machines.

mod buffers;
mod common;
mod kernels;
mod ladder;
mod order;
mod register;
