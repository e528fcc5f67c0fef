//! A pool of one kind of page-locked memory: what it has, and how requests are served.
//!
//! A request that the thread's cache can serve takes no lock. One that it cannot takes the lock of
//! its class, or of the pages, for some moves of numbers. Only where the pages are used up does a
//! request wait for the driver, and then under no lock that a served request needs.

use super::budget::Budget;
use super::growth::{Growing, Problem};
use super::local;
use super::options::PoolOptions;
use super::segments::{Make, Maker, Segment};
use super::stats::{Counters, Flows, PoolStats};
use crate::device::Device;
use crate::graph::thread;
use crate::memory::source::Refusal;
use parking_lot::{Condvar, Mutex, RwLock};
use pinfold_hal::{DeviceAddr, DeviceId, DriverError, ErrorCode};
use pinfold_pool::{Class, PAGE_BYTES, Shared, spans::Cut};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often pages are given back before the clock is looked at.
const LOOK_EVERY: u32 = 64;
/// How often a request grows the pool only to find that somebody else took the pages.
const GROWN_MAX: u32 = 64;
/// How often a request that waits for memory looks for some that may come back.
const RECLAIM_EVERY: Duration = Duration::from_millis(1);

/// Where a request's bytes are. Plain data: whoever holds it keeps the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Host address.
    pub(crate) addr: u64,
    /// Bytes asked for.
    pub(crate) requested_bytes: u64,
    /// Bytes taken.
    pub(crate) held_bytes: u64,
}

/// One pool.
pub(crate) struct Core {
    pub(super) id: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) counters: Arc<Counters>,
    /// Grows when all threads are to give their caches back.
    pub(super) flushes: AtomicU64,
    pub(super) maker: Maker,
    pub(super) budget: Budget,
    /// Whether any device sees any segment elsewhere than the host does.
    pub(super) is_split: AtomicBool,
    /// By base address.
    pub(super) segments: RwLock<BTreeMap<u64, Segment>>,
    /// Segments that were free as a whole when last looked at, and since when.
    pub(super) idle: Mutex<BTreeMap<u64, Instant>>,
    pub(super) idle_after: Duration,
    pub(super) began: Instant,
    /// How often pages were given back.
    given_back: AtomicU32,
    /// When idle segments are looked at next, in milliseconds since the beginning.
    pub(super) next_decay_ms: AtomicU64,
    pub(super) growing: Mutex<Growing>,
    pub(super) grown: Condvar,
    pub(super) quarantined_bytes: AtomicU64,
    /// Of blocks in use, what is ordinary memory at the moment.
    pub(super) unpinned_bytes: AtomicU64,
}

impl Core {
    pub(super) fn new(devices: &[Device], make: Make, options: &PoolOptions) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Core {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            shared: Arc::default(),
            counters: Arc::default(),
            flushes: AtomicU64::new(0),
            maker: Maker::new(devices, make, options.numa),
            budget: Budget::new(options),
            is_split: AtomicBool::new(false),
            segments: RwLock::default(),
            idle: Mutex::default(),
            idle_after: options.idle_after,
            began: Instant::now(),
            given_back: AtomicU32::new(0),
            next_decay_ms: AtomicU64::new(0),
            growing: Mutex::default(),
            grown: Condvar::new(),
            quarantined_bytes: AtomicU64::new(0),
            unpinned_bytes: AtomicU64::new(0),
        })
    }

    /// A small request from the thread's own cache, or nothing. Inlined by force: it is shorter
    /// than a call.
    #[inline(always)]
    pub(crate) fn take_own(self: &Arc<Self>, bytes: u64) -> Option<Slot> {
        let class = Class::of(bytes)?;
        let held_bytes = class.bytes();
        let addr = local::with(self, |local| {
            let addr = local.cache.pop(class)?;
            local.counters.took(bytes, held_bytes);
            Some(addr)
        })??;
        Some(Slot {
            addr,
            requested_bytes: bytes,
            held_bytes,
        })
    }

    /// Memory that is page-locked and free already.
    #[inline]
    pub(crate) fn take_free(self: &Arc<Self>, bytes: u64) -> Option<Slot> {
        self.take_own(bytes).or_else(|| self.take_shared(bytes))
    }

    #[cold]
    fn take_shared(self: &Arc<Self>, bytes: u64) -> Option<Slot> {
        let Some(class) = Class::of(bytes) else {
            return self.pages_there(bytes);
        };
        Some(Slot {
            addr: self.refill(class, bytes)?,
            requested_bytes: bytes,
            held_bytes: class.bytes(),
        })
    }

    /// Memory for a request of 1 byte or more, wherever it comes from. Where it has to wait for
    /// memory to come back, `reclaim` is called again and again, to make it come back.
    #[cold]
    pub(crate) fn take(self: &Arc<Self>, bytes: u64, reclaim: &dyn Fn()) -> Result<Slot, Refusal> {
        let least_bytes = match Class::of(bytes) {
            Some(class) => u64::from(Cut::of(class).pages) * PAGE_BYTES,
            None => {
                let pages = bytes.div_ceil(PAGE_BYTES);
                if u32::try_from(pages).is_err() {
                    return Err(no_such_size(bytes).into());
                }
                pages * PAGE_BYTES
            }
        };
        self.until_there(least_bytes, reclaim, || self.take_free(bytes))
    }

    /// Takes memory back that nobody uses any more.
    #[inline(always)]
    pub(crate) fn give_back(self: &Arc<Self>, slot: Slot) {
        let kept = Class::of(slot.requested_bytes).and_then(|class| {
            local::with(self, |local| {
                local.cache.push(class, slot.addr, &self.shared);
                local.counters.gave(slot.requested_bytes, slot.held_bytes);
            })
        });
        if kept.is_none() {
            self.give_back_slowly(slot);
        }
    }

    /// Pages, and slots on a thread that is ending.
    #[inline(never)]
    fn give_back_slowly(&self, slot: Slot) {
        match Class::of(slot.requested_bytes) {
            None => self.give_back_pages(slot),
            Some(class) => {
                self.shared.give_back_slots(class, [slot.addr]);
                self.counters.gave(flows(&slot));
            }
        }
    }

    /// A slot by way of the shared ones.
    fn refill(self: &Arc<Self>, class: Class, bytes: u64) -> Option<u64> {
        let held_bytes = class.bytes();
        let served = local::with(self, |local| {
            let addr = local.cache.refill(class, &self.shared)?;
            local.counters.took(bytes, held_bytes);
            Some(addr)
        });
        served.unwrap_or_else(|| {
            // A thread that is ending has no cache.
            let mut one = Vec::new();
            self.shared.take_slots(class, 1, &mut one);
            let addr = one.pop()?;
            self.counters.took(Flows {
                blocks: 1,
                requested_bytes: bytes,
                held_bytes,
            });
            Some(addr)
        })
    }

    /// Pages that are free already.
    fn pages_there(&self, bytes: u64) -> Option<Slot> {
        let pages = u32::try_from(bytes.div_ceil(PAGE_BYTES)).ok()?;
        let slot = Slot {
            addr: self.shared.take_pages(pages)?,
            requested_bytes: bytes,
            held_bytes: u64::from(pages) * PAGE_BYTES,
        };
        self.counters.took(flows(&slot));
        Some(slot)
    }

    fn give_back_pages(&self, slot: Slot) {
        // An address that is not given out cannot come here: slots are made by `take` only.
        let _ = self.shared.give_back_pages(slot.addr);
        self.counters.gave(flows(&slot));
        self.budget.memory_came_back();
        let given_back = self.given_back.fetch_add(1, Ordering::Relaxed);
        if given_back.is_multiple_of(LOOK_EVERY) {
            self.decay();
        }
    }

    /// Tries, and grows by at least so many bytes, until it works.
    fn until_there<R>(
        self: &Arc<Self>,
        bytes: u64,
        reclaim: &dyn Fn(),
        attempt: impl Fn() -> Option<R>,
    ) -> Result<R, Refusal> {
        if thread::captures() {
            return attempt().ok_or(Refusal::Capturing);
        }
        let mut wants = None;
        self.until(reclaim, || {
            if let Some(found) = attempt() {
                return Ok(Some(found));
            }
            wants.get_or_insert_with(|| self.want());
            self.grow(bytes).map(|()| None)
        })
    }

    /// Takes a step until it finds something, making room in the pool where it fails.
    pub(super) fn until<R>(
        self: &Arc<Self>,
        reclaim: &dyn Fn(),
        mut step: impl FnMut() -> Result<Option<R>, Problem>,
    ) -> Result<R, Refusal> {
        let _entered = self.budget.enter();
        let deadline = self.budget.deadline();
        let (mut grown, mut flushed) = (0, false);
        loop {
            let seen = self.budget.returns();
            let problem = match step() {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {
                    grown += 1;
                    if grown == GROWN_MAX {
                        return Err(outrun());
                    }
                    continue;
                }
                Err(problem) => problem,
            };
            // What idles elsewhere in the pool makes room.
            if self.shrink(|_| true) > 0 {
                continue;
            }
            // So does what threads keep for themselves: this one at once, others when they next
            // use the pool.
            if !flushed {
                flushed = true;
                self.flush_caches();
                continue;
            }
            let over = match problem {
                Problem::Driver(error) => return Err(error.into()),
                Problem::Budget(over) => over,
            };
            match deadline {
                None => return Err(over.refusal("all of it is in use")),
                Some(end) if Instant::now() >= end => {
                    return Err(over.refusal("waited for memory to come back in vain"));
                }
                Some(end) => {
                    reclaim();
                    self.budget
                        .wait(seen, end.min(Instant::now() + RECLAIM_EVERY));
                }
            }
        }
    }

    pub(super) fn set_budget(&self, bytes: Option<u64>) {
        self.budget.set(bytes);
    }

    /// Adds free memory until so many bytes are free in a row.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64, reclaim: &dyn Fn()) -> Result<(), Refusal> {
        if bytes == 0 {
            return Ok(());
        }
        // Whole pages, also where a class would do.
        let pages = bytes.div_ceil(PAGE_BYTES);
        if u32::try_from(pages).is_err() {
            return Err(no_such_size(bytes).into());
        }
        let slot = self.until_there(pages * PAGE_BYTES, reclaim, || self.pages_there(bytes))?;
        self.give_back_pages(slot);
        Ok(())
    }

    /// Where a device sees an address of the pool's.
    pub(crate) fn device_addr(&self, device: DeviceId, addr: u64) -> DeviceAddr {
        if !self.is_split.load(Ordering::Acquire) {
            return DeviceAddr(addr);
        }
        let segments = self.segments.read();
        let segment = segments.range(..=addr).next_back().map(|(_, s)| s);
        let base = segment.and_then(|s| {
            let (_, there) = s.device.iter().find(|(id, _)| *id == device)?;
            Some(there.offset(addr - s.base.0 as u64))
        });
        base.unwrap_or(DeviceAddr(addr))
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let (in_use, taken) = self.counters.in_use();
        let (pinned, peak) = self.budget.reserved_and_peak_bytes();
        let quarantined_bytes = self.quarantined_bytes.load(Ordering::Relaxed);
        let usable = pinned.saturating_sub(quarantined_bytes);
        let unpinned_bytes = self.unpinned_bytes.load(Ordering::Relaxed);
        let (segments, misplaced_bytes) = {
            let segments = self.segments.read();
            let misplaced = segments.values().map(|s| s.misplaced_bytes);
            (segments.len() as u64, misplaced.sum())
        };
        PoolStats {
            blocks: in_use.blocks,
            requested_bytes: in_use.requested_bytes,
            held_bytes: in_use.held_bytes,
            cached_bytes: (usable + unpinned_bytes).saturating_sub(in_use.held_bytes),
            pinned_bytes: pinned,
            pinned_bytes_peak: peak,
            quarantined_bytes,
            taken,
            segments,
            holes: self.shared.holes() as u64,
            numa_node: self.maker.place.node(),
            numa_binding: self.maker.place.binding(),
            misplaced_bytes,
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let segments = std::mem::take(self.segments.get_mut());
        // A block that was never given back may still be used by a device.
        if self.counters.in_use().0.blocks > 0 {
            std::mem::forget(segments);
            return;
        }
        for segment in segments.into_values() {
            let _ = self.maker.unmake(segment);
        }
    }
}

fn outrun() -> Refusal {
    Refusal::Pool("other threads took all memory that was added; ask again".to_owned())
}

pub(super) fn no_such_size(bytes: u64) -> DriverError {
    let what = format!("no address space holds {bytes} bytes");
    DriverError::with_detail(ErrorCode::OutOfMemory, "mmap", what)
}

pub(super) fn flows(slot: &Slot) -> Flows {
    Flows {
        blocks: 1,
        requested_bytes: slot.requested_bytes,
        held_bytes: slot.held_bytes,
    }
}
