//! Blocks that are page-locked while they are used, and ordinary memory when they idle.
//!
//! Each has a [`Pin`]. A use of the block begins by [`Pin::begin_use`], which page-locks it where
//! it is not, before device addresses are asked for, and ends once it is noted in the block's uses.
//! [`Pins`] knows all of a memory manager's, and unpins those that idle: never one with a use that
//! has begun and not ended, nor one that a device may still use. Who may do what, and when, is the
//! business of [`PinState`], which is model-checked; the driver is called under no lock.

use super::register::Registered;
use super::{Memory, MemoryInner};
use crate::error::{Error, Result};
use crate::graph::thread;
use crate::pool::{PinOnUse, Whole};
use crate::registry::Registry;
use crate::stream::order::UseLog;
use parking_lot::{Condvar, Mutex};
use pinfold_hal::{DeviceAddr, DeviceId};
use pinfold_pool::PinState;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long a thread waits for another one that changes the same block.
pub(super) const TURN_LIMIT: Duration = Duration::from_secs(120);
/// How often idle blocks are looked for in the time after which they are unpinned.
const LOOKS: u32 = 4;
/// So many pins are listed before any is looked at to see whether it is gone.
const LIST_MIN: usize = 64;

/// Whether a block is page-locked, and where devices see it then.
pub(crate) struct Pin {
    state: PinState,
    what: Pinned,
    /// Changed only by the thread that page-locks the block.
    addrs: SmallVec<[(DeviceId, AtomicU64); 1]>,
    /// The uses of the block by streams.
    pub(super) uses: Mutex<UseLog>,
    began: Instant,
    /// When the last use ended, from the beginning.
    last_use_ns: AtomicU64,
    /// What of it is ordinary memory.
    unpinned_bytes: AtomicU64,
    /// Whether it stays page-locked for ever.
    is_kept: AtomicBool,
    turn: Mutex<()>,
    turn_over: Condvar,
}

/// What is page-locked.
pub(super) enum Pinned {
    /// Memory of the caller's.
    Registered(Registered),
    /// A segment of the block's own.
    Whole(Whole),
}

/// A use that has begun. It ends when dropped, by when it is noted or will never be.
pub(crate) struct InUse<'p>(&'p Pin);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.end_use();
    }
}

/// A change in progress. Where nobody ends it, a panic unwinds, and the block stays as it was.
struct Change<'p> {
    pin: &'p Pin,
    outcome: Outcome,
}

enum Outcome {
    Unpin(bool),
    Pin(bool),
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        match self.outcome {
            Outcome::Unpin(is_unpinned) => self.pin.state.end_unpin(is_unpinned),
            Outcome::Pin(is_pinned) => self.pin.state.end_pin(is_pinned),
        }
        // Whoever is about to wait has the lock until he does, or sees the new state.
        drop(self.pin.turn.lock());
        self.pin.turn_over.notify_all();
    }
}

impl Pin {
    /// For memory that is page-locked, with where the devices that reach it see it.
    pub(super) fn new(what: Pinned, addrs: &[(DeviceId, DeviceAddr)]) -> Arc<Self> {
        let addr = |(id, addr): &(DeviceId, DeviceAddr)| (*id, AtomicU64::new(addr.0));
        Arc::new(Pin {
            state: PinState::default(),
            what,
            addrs: addrs.iter().map(addr).collect(),
            uses: Mutex::default(),
            began: Instant::now(),
            last_use_ns: AtomicU64::new(0),
            unpinned_bytes: AtomicU64::new(0),
            is_kept: AtomicBool::new(false),
            turn: Mutex::default(),
            turn_over: Condvar::new(),
        })
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.state.is_pinned()
    }

    /// Where a device sees the block. Holds for as long as a use that has begun.
    pub(super) fn device_addr(&self, device: DeviceId) -> Option<DeviceAddr> {
        let (_, addr) = self.addrs.iter().find(|(id, _)| *id == device)?;
        Some(DeviceAddr(addr.load(Ordering::Relaxed)))
    }

    /// Begins a use: the block is page-locked, and stays so until the use ends.
    ///
    /// # Errors
    /// [`Error::PoolFull`], [`Error::AlreadyRegistered`], [`Error::Driver`] where it cannot be
    /// page-locked again, [`Error::Timeout`] where another thread is at it for too long. The block
    /// is as it was.
    #[inline]
    pub(super) fn begin_use(&self, memory: &MemoryInner) -> Result<InUse<'_>> {
        match self.state.begin_use() {
            true => Ok(InUse(self)),
            false => self.begin_use_slowly(memory),
        }
    }

    /// Ends a use of which the [`InUse`] was forgotten.
    pub(super) fn end_use(&self) {
        let now_ns = self.began.elapsed().as_nanos() as u64;
        self.last_use_ns.store(now_ns, Ordering::Relaxed);
        self.state.end_use();
    }

    #[cold]
    fn begin_use_slowly(&self, memory: &MemoryInner) -> Result<InUse<'_>> {
        thread::refuse("page-locking a buffer that had idled")?;
        let end = Instant::now() + TURN_LIMIT;
        loop {
            if self.state.begin_pin() {
                return self.pin_again(memory);
            }
            if self.state.begin_use() {
                return Ok(InUse(self));
            }
            if !self.wait_for_turn(end) {
                return Err(Error::Timeout {
                    what: "page-locking of the same buffer by another thread",
                    limit: TURN_LIMIT,
                    diagnosis: "that thread waits for memory, or for the driver".to_owned(),
                });
            }
        }
    }

    /// False where another thread is still changing the block by then.
    fn wait_for_turn(&self, end: Instant) -> bool {
        let mut turn = self.turn.lock();
        while self.state.is_changing() {
            if self.turn_over.wait_until(&mut turn, end).timed_out() {
                return false;
            }
        }
        true
    }

    fn pin_again(&self, memory: &MemoryInner) -> Result<InUse<'_>> {
        let mut change = Change {
            pin: self,
            outcome: Outcome::Pin(false),
        };
        // What others do not need any more makes room; what fails there is told elsewhere.
        let reclaim = || drop(memory.collect());
        reclaim();
        match &self.what {
            Pinned::Registered(registered) => {
                let addrs = registered.lock_again()?;
                self.set_addrs(|id| addrs.iter().find(|(d, _)| *d == id).map(|(_, a)| *a));
            }
            Pinned::Whole(whole) => {
                whole.pin(&reclaim)?;
                self.set_addrs(|id| Some(whole.device_addr(id)));
            }
        }
        self.unpinned_bytes.store(0, Ordering::Relaxed);
        change.outcome = Outcome::Pin(true);
        drop(change);
        Ok(InUse(self))
    }

    fn set_addrs(&self, addr_of: impl Fn(DeviceId) -> Option<DeviceAddr>) {
        for (id, known) in &self.addrs {
            if let Some(addr) = addr_of(*id) {
                known.store(addr.0, Ordering::Relaxed);
            }
        }
    }

    /// Page-locks the block for as long as it lives: somebody has an address of it.
    ///
    /// # Errors
    /// As [`begin_use`](Self::begin_use).
    pub(super) fn keep(&self, memory: &MemoryInner) -> Result<()> {
        let in_use = self.begin_use(memory)?;
        if !self.is_kept.swap(true, Ordering::AcqRel) {
            // A use that never ends.
            std::mem::forget(in_use);
        }
        Ok(())
    }

    /// Takes the uses out, of a block that nobody has any more and a device may still use. From
    /// now on it is not unpinned.
    pub(super) fn retire(&self) -> UseLog {
        self.state.hold();
        std::mem::take(&mut *self.uses.lock())
    }

    /// Ends it, for a caller who gives the memory back. True where it is page-locked; `None` where
    /// another thread is still changing it after a long time.
    pub(super) fn end(&self) -> Option<bool> {
        self.state.hold();
        if !self.wait_for_turn(Instant::now() + TURN_LIMIT) {
            return None;
        }
        self.unpinned_bytes.store(0, Ordering::Relaxed);
        Some(self.state.is_pinned())
    }

    /// Gives a segment of the block's own back; see [`Whole::give_back`].
    pub(super) fn give_back_whole(&self) -> bool {
        match (&self.what, self.end()) {
            (Pinned::Whole(whole), Some(_)) => whole.give_back(),
            (_, ended) => ended.is_some(),
        }
    }

    /// Makes the block ordinary memory, where no device has used it for so long. Bytes that became
    /// so: none where the driver does not let go of them.
    fn unpin_idle(&self, registry: &Registry, idle_for: Duration) -> u64 {
        if thread::captures() {
            // Without the driver it cannot be.
            return 0;
        }
        let Some(seen) = self.state.look() else {
            return 0;
        };
        let last_use = Duration::from_nanos(self.last_use_ns.load(Ordering::Relaxed));
        let idle = self.began.elapsed().saturating_sub(last_use);
        if idle < idle_for || !self.is_done() || !self.state.begin_unpin(seen) {
            return 0;
        }
        let mut change = Change {
            pin: self,
            outcome: Outcome::Unpin(false),
        };
        // Nor may a copy that knows the block as a slice only.
        let Some(_unpinning) = registry.slices.unpinning(&self.range()) else {
            return 0;
        };
        let bytes = match &self.what {
            Pinned::Registered(registered) => registered.unlock(),
            Pinned::Whole(whole) => whole.unpin(),
        };
        self.unpinned_bytes.store(bytes, Ordering::Relaxed);
        change.outcome = Outcome::Unpin(bytes > 0);
        bytes
    }

    fn range(&self) -> Range<usize> {
        match &self.what {
            Pinned::Registered(registered) => registered.range().clone(),
            Pinned::Whole(whole) => whole.host().0..whole.host().0 + whole.held_bytes() as usize,
        }
    }

    /// True where no device uses the block, as far as the driver tells.
    fn is_done(&self) -> bool {
        let pending = self.uses.lock().snapshot();
        let mut pending = pending.into_iter();
        pending.all(|(order, place)| order.is_done(place).unwrap_or(false))
    }
}

/// All pins of a memory manager.
pub(crate) struct Pins {
    options: Option<PinOnUse>,
    list: Mutex<List>,
    began: Instant,
    /// When idle blocks are looked for next, in milliseconds since the beginning.
    next_look_ms: AtomicU64,
}

#[derive(Default)]
struct List {
    pins: Vec<Weak<Pin>>,
    /// How many there may be before those that are gone are taken out.
    due: usize,
}

/// What became ordinary memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpinned {
    /// Buffers.
    pub blocks: u64,
    /// Bytes that they take.
    pub bytes: u64,
}

impl Pins {
    pub(super) fn new(options: Option<PinOnUse>) -> Self {
        Pins {
            options,
            list: Mutex::default(),
            began: Instant::now(),
            next_look_ms: AtomicU64::new(0),
        }
    }

    pub(super) fn add(&self, pin: &Arc<Pin>) {
        let mut list = self.list.lock();
        if list.pins.len() >= list.due {
            list.pins.retain(|pin| pin.strong_count() > 0);
            list.due = (2 * list.pins.len()).max(LIST_MIN);
        }
        list.pins.push(Arc::downgrade(pin));
    }

    fn all(&self) -> Vec<Arc<Pin>> {
        let list = self.list.lock();
        list.pins.iter().filter_map(Weak::upgrade).collect()
    }

    /// Bytes of live blocks that are ordinary memory.
    pub(super) fn unpinned_bytes(&self) -> u64 {
        let all = self.all();
        let bytes = all
            .iter()
            .map(|pin| pin.unpinned_bytes.load(Ordering::Relaxed));
        bytes.sum()
    }

    /// Unpins what has been idle for long. Looks at most every so often.
    pub(super) fn tick(&self, registry: &Registry) {
        let Some(options) = self.options else {
            return;
        };
        let now_ms = self.began.elapsed().as_millis() as u64;
        let due_ms = self.next_look_ms.load(Ordering::Relaxed);
        let next_ms = now_ms + (options.idle_after / LOOKS).as_millis() as u64;
        let claim = (Ordering::Relaxed, Ordering::Relaxed);
        let is_mine = now_ms >= due_ms
            && (self.next_look_ms)
                .compare_exchange(due_ms, next_ms, claim.0, claim.1)
                .is_ok();
        if is_mine {
            self.unpin_idle(registry, options.idle_after);
        }
    }

    fn unpin_idle(&self, registry: &Registry, idle_for: Duration) -> Unpinned {
        let mut unpinned = Unpinned::default();
        for pin in self.all() {
            let bytes = pin.unpin_idle(registry, idle_for);
            unpinned.blocks += u64::from(bytes > 0);
            unpinned.bytes += bytes;
        }
        unpinned
    }
}

impl Memory {
    /// Makes buffers that no device has used for so long ordinary memory, where they lie: those of
    /// memory of the caller's own, and those with a segment of their own
    /// ([`PinOnUse`]), which are also looked at by themselves from time to
    /// time. Each is page-locked again by its next use on a device. A buffer whose memory another
    /// buffer shares stays as it is, and so does one of which a
    /// [`device_pointer`](crate::InFlight::device_pointer) was taken, and any that the driver does
    /// not let go of.
    pub fn unpin_idle(&self, idle_for: Duration) -> Unpinned {
        self.inner.pins.unpin_idle(self.inner.registry(), idle_for)
    }
}
