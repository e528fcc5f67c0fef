//! What a pool may hold, where, and what it does at its limit.

use super::numa::NumaNode;
use std::time::Duration;

/// How a pool grows, and where it stops.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PoolOptions {
    /// Most bytes that one pool has page-locked at a time, of which a [`Memory`](crate::Memory) has
    /// two for each NUMA node; `None` leaves it to what the machine and its control groups have
    /// left at the time.
    pub budget_bytes: Option<u64>,
    /// What to do where the budget is used up and everything in it is in use.
    pub when_full: WhenFull,
    /// Segments that have been free for so long are given back to the system.
    pub idle_after: Duration,
    /// Where its memory is to lie.
    pub numa: NumaNode,
}

/// What to do at the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Fail at once, naming the limit.
    Fail,
    /// Wait for memory to come back, for at most so long, then fail.
    Wait(Duration),
}

impl Default for PoolOptions {
    /// The machine's own limit, failing there, ten idle seconds, and the device's NUMA node.
    fn default() -> Self {
        PoolOptions {
            budget_bytes: None,
            when_full: WhenFull::Fail,
            idle_after: Duration::from_secs(10),
            numa: NumaNode::OfDevice,
        }
    }
}
