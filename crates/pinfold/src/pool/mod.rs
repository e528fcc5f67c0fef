//! Page-locked memory that is instant, exact, bounded and given back.
//!
//! Getting page-locked memory from the driver costs half a millisecond and more. A [`Pool`] gets it
//! in large segments, gives parts of them out in nanoseconds, and gives idle segments back.
//!
//! [`options`] how far it may grow · `core` requests · `growth` growing and shrinking · `local` the
//! caches of threads · `segments` and `prefault` where memory comes from, [`numa`] near which
//! processors · `background` page-locking ahead of requests · `budget` how much there may be ·
//! `whole` blocks with a segment of their own · `ceiling` how much there really may be · `stats`
//! the books. Which bytes are whose is
//! arithmetic, and in a crate of its own: `pinfold-pool`.

mod background;
mod budget;
mod ceiling;
pub(crate) mod core;
mod growth;
mod local;
pub mod numa;
pub mod options;
mod prefault;
mod segments;
mod stats;
mod whole;

pub(crate) use background::Background;
pub use background::{Reservation, ReserveProgress};
pub use ceiling::PinCeiling;
pub use numa::{NumaBinding, NumaNode};
pub use options::{PinOnUse, PoolOptions, WhenFull};
pub(crate) use segments::CUT_BYTES;
pub use stats::PoolStats;
pub(crate) use whole::Whole;

use self::core::{Core, Slot};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::source::Refusal;
use pinfold_hal::{DriverError, ErrorCode};
use segments::Make;
use std::fmt;
use std::sync::Arc;

/// A pool of page-locked memory for one device, or for several. Cheap to clone.
///
/// Nothing is page-locked before the first block is asked for. Its memory lies on the NUMA node of
/// the first device, unless the options say otherwise; [`stats`](Self::stats) tells whether it
/// does.
#[derive(Clone)]
pub struct Pool {
    // Before the core, so that its thread has ended when the core goes away.
    background: Arc<Background>,
    core: Arc<Core>,
    devices: Vec<Device>,
}

/// Page-locked bytes of a pool, given back when dropped. What they hold at first is not specified.
///
/// Its bytes are the host's alone: to let a device use pooled memory, take typed buffers from a
/// [`Memory`](crate::Memory) over the pool.
pub struct PoolBlock<'p> {
    pool: &'p Pool,
    slot: Slot,
}

/// A pool of memory that processors cache: page-locked where it lies, which is ten times faster
/// than the driver's own allocation, or by that where devices cannot register memory.
pub(crate) fn cached(devices: &[Device], options: &PoolOptions) -> Arc<Core> {
    let registers = |d: &Device| d.info().capabilities.host_register;
    let make = match devices.iter().all(registers) {
        true => Make::Registered,
        false => Make::Allocated {
            write_combined: false,
        },
    };
    Core::new(devices, make, options)
}

/// A pool of write-combined memory, which only the driver can make.
pub(crate) fn write_combined(devices: &[Device], options: &PoolOptions) -> Arc<Core> {
    let make = Make::Allocated {
        write_combined: true,
    };
    Core::new(devices, make, options)
}

impl Pool {
    /// A pool for these devices; `None` for an empty list.
    pub fn new(devices: &[Device], options: &PoolOptions) -> Option<Self> {
        devices.first()?;
        Some(Pool {
            background: Arc::default(),
            core: cached(devices, options),
            devices: devices.to_vec(),
        })
    }

    /// A block of so many bytes, aligned to 64 bytes.
    ///
    /// # Errors
    /// [`Error::PoolFull`] where the budget does not allow it, [`Error::Driver`].
    #[inline(always)]
    pub fn take(&self, bytes: u64) -> Result<PoolBlock<'_>> {
        let slot = match self.core.take_own(bytes) {
            Some(slot) => slot,
            None => self.take_slowly(bytes)?,
        };
        Ok(PoolBlock { pool: self, slot })
    }

    #[cold]
    fn take_slowly(&self, bytes: u64) -> Result<Slot> {
        if bytes == 0 {
            return Ok(Slot {
                addr: 0,
                requested_bytes: 0,
                held_bytes: 0,
            });
        }
        self.core
            .take(bytes, &|| ())
            .or_else(|refusal| self.first_use(bytes, refusal))
    }

    /// The first request opens the devices; it is the only one that fails for that reason.
    #[cold]
    fn first_use(&self, bytes: u64, refusal: Refusal) -> Result<Slot> {
        let is_closed = |e: &DriverError| e.code == ErrorCode::InvalidContext;
        match refusal {
            Refusal::Driver(error) if is_closed(&error) => {
                self.devices.iter().try_for_each(Device::ensure_open)?;
                self.core.take(bytes, &|| ()).map_err(Error::from)
            }
            refusal => Err(refusal.into()),
        }
    }

    /// Makes sure that so many bytes in a row are page-locked and free.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        self.devices.iter().try_for_each(Device::ensure_open)?;
        Ok(self.core.reserve(bytes, &|| ())?)
    }

    /// Has so many bytes more page-locked by a thread of the pool, in pieces of 64 MiB that
    /// requests can use as soon as each is there. Requests meanwhile are served as ever; one that
    /// needs more than the pool has waits for the piece in progress at most. Also opens the
    /// devices, where nobody has, so this returns at once. Blocks larger than a piece are not
    /// served from it.
    ///
    /// Reservations are served in order, by one thread.
    ///
    /// # Errors
    /// [`Error::ReservationEnded`] where too many wait already; [`Error::Driver`] for a size that
    /// no address space holds, or where no thread can be had. What goes wrong later is told by
    /// [`Reservation::wait`].
    pub fn reserve_in_background(&self, bytes: u64) -> Result<Reservation> {
        self.background.reserve(&self.core, bytes)
    }

    /// Gives idle memory back to the system until at most so many bytes are page-locked. Memory in
    /// the caches of other threads goes back once they use the pool again, or end.
    pub fn trim(&self, target_bytes: u64) {
        self.core.trim(target_bytes);
    }

    /// Sets another budget; see [`PoolOptions::budget_bytes`]. What is page-locked beyond it stays
    /// until it is given back, and the pool does not grow before that.
    pub fn set_budget(&self, bytes: Option<u64>) {
        self.core.set_budget(bytes);
    }

    /// The books.
    pub fn stats(&self) -> PoolStats {
        self.core.stats()
    }
}

impl PoolBlock<'_> {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.slot.requested_bytes as usize
    }

    /// True for none.
    pub fn is_empty(&self) -> bool {
        self.slot.requested_bytes == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self.len() {
            0 => &[],
            // SAFETY: the slot lies in a segment that lives as long as the pool. Its bytes came
            // from the system or from earlier use, so they are initialised, and until the slot is
            // given back they are this block's alone.
            len => unsafe { std::slice::from_raw_parts(self.start(), len) },
        }
    }

    /// The bytes, to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match self.len() {
            0 => &mut [],
            // SAFETY: as for reading, and the block is borrowed for as long as the slice lives.
            len => unsafe { std::slice::from_raw_parts_mut(self.start(), len) },
        }
    }

    fn start(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.slot.addr as usize)
    }

    /// Host address, for code that talks to the driver itself.
    pub fn addr(&self) -> u64 {
        self.slot.addr
    }
}

impl Drop for PoolBlock<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.slot.requested_bytes > 0 {
            self.pool.core.give_back(self.slot);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("stats", &self.stats())
            .finish()
    }
}

impl fmt::Debug for PoolBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolBlock({:#x}, {} bytes)", self.slot.addr, self.len())
    }
}
