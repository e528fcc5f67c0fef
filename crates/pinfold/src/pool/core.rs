//! A pool of one kind of page-locked memory: requests, growth and shrinking.
//!
//! A request that the thread's cache can serve takes no lock. One that it cannot takes the lock of
//! its class, or of the pages, for some moves of numbers. Only where the pages are used up does a
//! request wait for the driver, and then under no lock that a served request needs.

use super::budget::{Budget, OverBudget};
use super::local;
use super::options::PoolOptions;
use super::segments::{Make, Maker, SEGMENT_ALIGN_BYTES, Segment};
use super::stats::{Counters, Flows, PoolStats};
use crate::device::Device;
use crate::memory::source::Refusal;
use parking_lot::{Condvar, Mutex, RwLock};
use pinfold_hal::{DeviceAddr, DeviceId, DriverError, ErrorCode};
use pinfold_pool::{Class, PAGE_BYTES, Shared, spans::Cut};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The least that a pool grows by.
const GROWTH_BYTES_MIN: u64 = 4 << 20;
/// The most that a pool grows by for smaller requests.
const GROWTH_BYTES_MAX: u64 = 256 << 20;
/// How often pages are given back before the clock is looked at.
const LOOK_EVERY: u32 = 64;
/// How often idle segments are looked at in the time after which they go.
const DECAY_LOOKS: u32 = 4;
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
    pub(super) shared: Shared,
    pub(super) counters: Counters,
    /// Grows when all threads are to give their caches back.
    pub(super) flushes: AtomicU64,
    maker: Maker,
    budget: Budget,
    /// By base address.
    segments: RwLock<BTreeMap<u64, Segment>>,
    /// Segments that were free as a whole when last looked at, and since when.
    idle: Mutex<BTreeMap<u64, Instant>>,
    idle_after: Duration,
    began: Instant,
    /// How often pages were given back.
    given_back: AtomicU32,
    /// When idle segments are looked at next, in milliseconds since the beginning.
    next_decay_ms: AtomicU64,
    growing: Mutex<bool>,
    grown: Condvar,
    quarantined_bytes: AtomicU64,
}

impl Core {
    pub(super) fn new(devices: &[Device], make: Make, options: &PoolOptions) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Core {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            shared: Shared::default(),
            counters: Counters::default(),
            flushes: AtomicU64::new(0),
            maker: Maker::new(devices, make),
            budget: Budget::new(options),
            segments: RwLock::default(),
            idle: Mutex::default(),
            idle_after: options.idle_after,
            began: Instant::now(),
            given_back: AtomicU32::new(0),
            next_decay_ms: AtomicU64::new(0),
            growing: Mutex::new(false),
            grown: Condvar::new(),
            quarantined_bytes: AtomicU64::new(0),
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
        &self,
        bytes: u64,
        reclaim: &dyn Fn(),
        attempt: impl Fn() -> Option<R>,
    ) -> Result<R, Refusal> {
        let _entered = self.budget.enter();
        let deadline = self.budget.deadline();
        let mut grown = 0;
        loop {
            let seen = self.budget.returns();
            if let Some(found) = attempt() {
                return Ok(found);
            }
            let Err(problem) = self.grow(bytes) else {
                grown += 1;
                if grown == GROWN_MAX {
                    return Err(outrun());
                }
                continue;
            };
            // What idles elsewhere in the pool makes room.
            if self.shrink(|_| true) > 0 {
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

    /// Adds a segment of at least so many bytes, or waits for the one that another thread adds.
    fn grow(&self, bytes: u64) -> Result<(), Problem> {
        {
            let mut growing = self.growing.lock();
            if *growing {
                self.grown.wait_while(&mut growing, |growing| *growing);
                return Ok(());
            }
            *growing = true;
        }
        /// Lets the others go on, also where a panic unwinds.
        struct Growing<'c>(&'c Core);
        impl Drop for Growing<'_> {
            fn drop(&mut self) {
                *self.0.growing.lock() = false;
                self.0.grown.notify_all();
            }
        }
        let _growing = Growing(self);
        self.add_segment(bytes)
    }

    fn add_segment(&self, bytes: u64) -> Result<(), Problem> {
        let rounded = |bytes: u64| bytes.checked_next_multiple_of(SEGMENT_ALIGN_BYTES);
        let least = rounded(bytes).ok_or_else(|| Problem::Driver(no_such_size(bytes)))?;
        let (pinned, _) = self.budget.reserved_and_peak_bytes();
        let step = (pinned / 2).clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX);
        let wished = least.max(rounded(step).unwrap_or(least));
        let mut size = wished;
        if self.budget.reserve(wished).is_err() {
            size = least;
            self.budget.reserve(least).map_err(Problem::Budget)?;
        }
        let made = match self.maker.make(size) {
            Err(_) if size > least => {
                self.budget.refund(size - least);
                size = least;
                self.maker.make(least)
            }
            made => made,
        };
        match made {
            Ok(segment) => {
                let base = segment.base.0 as u64;
                self.segments.write().insert(base, segment);
                self.shared.add_segment(base, (size / PAGE_BYTES) as u32);
                Ok(())
            }
            Err(error) => {
                self.budget.refund(size);
                Err(Problem::Driver(error))
            }
        }
    }

    pub(super) fn set_budget(&self, bytes: Option<u64>) {
        self.budget.set(bytes);
    }

    /// Adds free memory until so many bytes are free in a row.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<(), Refusal> {
        if bytes == 0 {
            return Ok(());
        }
        // Whole pages, also where a class would do.
        let pages = bytes.div_ceil(PAGE_BYTES);
        if u32::try_from(pages).is_err() {
            return Err(no_such_size(bytes).into());
        }
        let slot = self.until_there(pages * PAGE_BYTES, &|| (), || self.pages_there(bytes))?;
        self.give_back_pages(slot);
        Ok(())
    }

    /// Gives idle segments back until at most so many bytes are page-locked. This thread's cache
    /// goes back at once, those of others when they next use the pool.
    pub(crate) fn trim(self: &Arc<Self>, target_bytes: u64) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let _ = local::with(self, |_| ());
        self.shrink(|pinned_bytes| pinned_bytes > target_bytes);
    }

    /// Gives back what has been idle for long. Looks at most every so often.
    pub(crate) fn decay(&self) {
        let now = Instant::now();
        let now_ms = now.duration_since(self.began).as_millis() as u64;
        let due_ms = self.next_decay_ms.load(Ordering::Relaxed);
        let next_ms = now_ms + (self.idle_after / DECAY_LOOKS).as_millis() as u64;
        let claim = (Ordering::Relaxed, Ordering::Relaxed);
        if now_ms < due_ms
            || (self.next_decay_ms)
                .compare_exchange(due_ms, next_ms, claim.0, claim.1)
                .is_err()
        {
            return;
        }
        let long_idle: Vec<u64> = {
            let Some(mut idle) = self.idle.try_lock() else {
                return;
            };
            let segments = self.shared.idle_segments();
            idle.retain(|base, _| segments.iter().any(|(b, _)| b == base));
            for (base, _) in segments {
                idle.entry(base).or_insert(now);
            }
            let old = |since: &Instant| now.duration_since(*since) >= self.idle_after;
            idle.iter()
                .filter(|(_, s)| old(s))
                .map(|(b, _)| *b)
                .collect()
        };
        for base in long_idle {
            self.remove(base);
        }
    }

    /// Gives idle segments back for as long as `go_on` says so of the page-locked bytes. Returns
    /// how many.
    fn shrink(&self, go_on: impl Fn(u64) -> bool) -> usize {
        let mut gone = 0;
        for (base, _) in self.shared.idle_segments() {
            if !go_on(self.budget.reserved_and_peak_bytes().0) {
                break;
            }
            gone += usize::from(self.remove(base));
        }
        gone
    }

    /// Gives one segment back, where it is idle.
    fn remove(&self, base: u64) -> bool {
        if self.shared.remove_segment(base).is_none() {
            return false;
        }
        let Some(segment) = self.segments.write().remove(&base) else {
            return false;
        };
        let bytes = segment.bytes;
        match self.maker.unmake(segment) {
            Ok(()) => self.budget.refund(bytes),
            // Page-locked for ever, so it stays in the budget for ever.
            Err(kept) => {
                self.quarantined_bytes.fetch_add(kept, Ordering::Relaxed);
            }
        }
        true
    }

    /// Where a device sees an address of the pool's.
    pub(crate) fn device_addr(&self, device: DeviceId, addr: u64) -> DeviceAddr {
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
        PoolStats {
            blocks: in_use.blocks,
            requested_bytes: in_use.requested_bytes,
            held_bytes: in_use.held_bytes,
            cached_bytes: usable.saturating_sub(in_use.held_bytes),
            pinned_bytes: pinned,
            pinned_bytes_peak: peak,
            quarantined_bytes,
            taken,
            segments: self.segments.read().len() as u64,
            holes: self.shared.holes() as u64,
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

/// Why a pool cannot grow.
enum Problem {
    Budget(OverBudget),
    Driver(DriverError),
}

impl OverBudget {
    fn refusal(self, why: &str) -> Refusal {
        Refusal::Pool(format!(
            "{} allows {} of the {} more that are needed ({why})",
            self.limit,
            crate::Bytes(self.left_bytes),
            crate::Bytes(self.bytes),
        ))
    }
}

fn outrun() -> Refusal {
    Refusal::Pool("other threads took all memory that was added; ask again".to_owned())
}

fn no_such_size(bytes: u64) -> DriverError {
    let what = format!("no address space holds {bytes} bytes");
    DriverError::with_detail(ErrorCode::OutOfMemory, "mmap", what)
}

fn flows(slot: &Slot) -> Flows {
    Flows {
        blocks: 1,
        requested_bytes: slot.requested_bytes,
        held_bytes: slot.held_bytes,
    }
}
