//! Where blocks come from: the door behind which an allocator, or later a pool, does its work.

use super::pin_on_use::Pin;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::pool::{PoolStats, Reservation};
use crate::registry::Claim;
use pinfold_hal::{DeviceAddr, DeviceId, DriverError, HostAddr};
use pinfold_model::MemoryKind;
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::Arc;

/// A source of memory. No method is called while a lock of the memory manager is held.
pub(crate) trait BlockSource: Send + Sync {
    /// The number of the pools whose memory is near a device; 0 where there are no others.
    fn near(&self, _device: &Device) -> u32 {
        0
    }

    /// Host memory of exactly this kind, with whatever it holds, aligned to 64 bytes. `bytes` >
    /// 0. From the pools of that number, where there are any.
    ///
    /// # Errors
    /// The driver's, the system's or the pool's answer; nothing is left behind.
    ///
    /// Where it waits for memory to come back, `reclaim` is called again and again to help.
    fn acquire_host(
        &self,
        kind: MemoryKind,
        near: u32,
        bytes: u64,
        reclaim: &dyn Fn(),
    ) -> Result<RawBlock, Refusal>;

    /// The same, where it can be had at once without asking anybody.
    fn acquire_cached(&self, _kind: MemoryKind, _near: u32, _bytes: u64) -> Option<RawBlock> {
        None
    }

    /// Device memory. Zero bytes give an empty block.
    fn acquire_device(
        &self,
        device: &Device,
        bytes: u64,
        site: &'static Location<'static>,
    ) -> Result<RawBlock>;

    /// Takes a block back that no device uses any more; the caller drops it and touches it no more.
    /// False where driver or system did not let go of it, so that it is lost.
    fn release(&self, block: &mut RawBlock) -> bool;

    /// Gives idle memory back to the system until at most so many bytes are page-locked.
    fn trim(&self, _target_bytes: u64) {}

    /// Called every now and then, to give back what has been idle for long.
    fn tick(&self) {}

    /// The books of the pools of that number, of cached and of write-combined memory, where there
    /// are any.
    fn pool_stats(&self, _near: u32) -> Option<[PoolStats; 2]> {
        None
    }

    /// Sees to so many bytes in a row of free memory in the cached pool of that number.
    ///
    /// # Errors
    /// As [`acquire_host`](Self::acquire_host); [`Error::ReservationEnded`] without pools.
    fn reserve(&self, _near: u32, bytes: u64, _reclaim: &dyn Fn()) -> Result<()> {
        Err(no_pool(bytes))
    }

    /// Has that pool page-lock so many bytes more in the background.
    ///
    /// # Errors
    /// As [`Pool::reserve_in_background`](crate::pool::Pool::reserve_in_background);
    /// [`Error::ReservationEnded`] without pools.
    fn reserve_in_background(&self, _near: u32, bytes: u64) -> Result<Reservation> {
        Err(no_pool(bytes))
    }
}

fn no_pool(total_bytes: u64) -> Error {
    Error::ReservationEnded {
        ready_bytes: 0,
        total_bytes,
        why: "this memory has no pool that could keep it",
    }
}

/// Why memory cannot be had.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// The driver or the system has none.
    Driver(DriverError),
    /// The pool may not take more, and says why.
    Pool(String),
    /// The driver would be needed, while this thread captures.
    Capturing,
}

impl From<DriverError> for Refusal {
    fn from(error: DriverError) -> Self {
        Refusal::Driver(error)
    }
}

/// A piece of memory and how to give it back. Plain data: whoever holds it keeps the rules.
pub(crate) struct RawBlock {
    /// How it was made.
    pub(crate) origin: Origin,
    /// Where the host sees it.
    pub(crate) host: Option<HostAddr>,
    /// Where devices see it.
    pub(crate) device: SmallVec<[(DeviceId, DeviceAddr); 1]>,
    /// Bytes asked for.
    pub(crate) bytes: u64,
    /// Bytes taken from the system or device.
    pub(crate) held_bytes: u64,
    /// Whether it may lie across registrations, which meet at host addresses that are multiples of
    /// [`CUT_BYTES`](crate::pool::CUT_BYTES): no copy may cross such a place.
    pub(crate) is_cut: bool,
    /// The kind, for the books.
    pub(crate) kind: MemoryKind,
    /// What has to live until the block is given back: the owner of registered memory.
    pub(crate) keep: Option<Keep>,
    /// For memory that may be page-locked only while it is used: whether it is now, and where
    /// devices see it then.
    pub(crate) pin: Option<Arc<Pin>>,
}

/// What keeps registered memory alive.
pub(crate) type Keep = Box<dyn std::any::Any + Send + Sync>;

/// How a block was made, and so how it is unmade.
#[derive(Debug)]
pub(crate) enum Origin {
    /// Nothing was taken: zero bytes.
    Empty,
    /// Ordinary memory from the system.
    System,
    /// The driver's page-locked allocation.
    Driver,
    /// Memory of somebody else's, page-locked by way of the registry.
    Registered(Claim),
    /// Device memory.
    Device(DeviceAddr),
    /// A pool's of this number: the slot is at the host's address, with the block's bytes.
    Pooled(u32),
    /// A pool's, with a segment of its own, which the block's pin has.
    Whole,
}

impl RawBlock {
    /// False where it can be given back without the driver.
    pub(crate) fn is_the_drivers(&self) -> bool {
        matches!(
            self.origin,
            Origin::Driver | Origin::Registered(_) | Origin::Device(_) | Origin::Whole
        )
    }

    /// A block of zero bytes.
    pub(crate) fn empty(kind: MemoryKind) -> Self {
        RawBlock {
            origin: Origin::Empty,
            host: None,
            device: SmallVec::new(),
            bytes: 0,
            held_bytes: 0,
            is_cut: false,
            kind,
            keep: None,
            pin: None,
        }
    }
}
