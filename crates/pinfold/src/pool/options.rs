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
    /// Whether large buffers of a [`Memory`](crate::Memory) are page-locked only while they are
    /// used. `None`: they are as long as they live.
    pub pin_on_use: Option<PinOnUse>,
}

/// Which buffers are page-locked only while they are used.
///
/// A buffer that no device used for long becomes ordinary memory where it lies: the host goes on
/// using it, its contents and its address stay, and its bytes go back to the budget. The next use
/// by a device page-locks it again, which takes its time, and fails where there is no room for it:
/// then the buffer comes back as it was.
///
/// Only what is registered by itself can be so treated: the driver lets go of whole registrations,
/// and other buffers in the same one may be in use. So such a buffer has a segment of its own,
/// which is made for it and goes with it, instead of a piece of a pool's: each time it is allocated
/// it costs what page-locking costs. For buffers that live long, that is little; those smaller than
/// `least_bytes` stay in the pool, where they cost nanoseconds. Write-combined memory is never so
/// treated, since only the driver can make it.
///
/// Memory of the caller's own ([`Memory::register`](crate::Memory::register)) is treated so as
/// well, whatever its size; it is in no budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinOnUse {
    /// What no device has used for so long becomes ordinary memory, when memory is asked for or
    /// collected the next time.
    pub idle_after: Duration,
    /// Buffers of so many bytes or more; less than 64 KiB count as 64 KiB.
    pub least_bytes: u64,
}

impl Default for PinOnUse {
    /// A minute, and 1 MiB: what is smaller comes from spans that many buffers share.
    fn default() -> Self {
        PinOnUse {
            idle_after: Duration::from_secs(60),
            least_bytes: 1 << 20,
        }
    }
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
            pin_on_use: None,
        }
    }
}
