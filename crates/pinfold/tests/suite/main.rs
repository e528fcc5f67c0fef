//! What the library promises, on simulated machines.

#[cfg(test)]
mod background;
#[cfg(test)]
mod buffers;
#[cfg(test)]
mod ceiling;
#[cfg(test)]
mod common;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod gather;
#[cfg(test)]
mod graphs;
#[cfg(test)]
mod kernels;
#[cfg(test)]
mod ladder;
#[cfg(test)]
mod numa;
#[cfg(test)]
mod order;
#[cfg(test)]
mod pin_on_use;
#[cfg(test)]
mod pool;
#[cfg(test)]
mod register;
#[cfg(test)]
mod track;
#[cfg(test)]
mod transfer;
#[cfg(test)]
mod twins;
