//! Blocks that have a segment of their own, so that they can be made ordinary memory and
//! page-locked again where they lie while they are in use.
//!
//! Their page-locked bytes count in the pool's budget, and what is made ordinary memory does not.

use super::core::{Core, Slot, flows, no_such_size};
use super::growth::Problem;
use super::segments::{Pace, Segment};
use crate::memory::source::Refusal;
use parking_lot::Mutex;
use pinfold_hal::{DeviceAddr, DeviceId, HostAddr};
use pinfold_pool::PAGE_BYTES;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A block with a segment of its own. One thread at a time changes it; whoever holds it keeps that
/// rule, and gives it back.
pub(crate) struct Whole {
    core: Arc<Core>,
    slot: Slot,
    /// Not there while a thread changes it, and once it was given back.
    segment: Mutex<Option<Segment>>,
}

impl Core {
    /// True where blocks can have segments of their own.
    pub(crate) fn can_be_whole(&self) -> bool {
        self.maker.registers()
    }

    /// A block of so many bytes, 1 or more, with a segment of its own.
    #[cold]
    pub(crate) fn take_whole(
        self: &Arc<Self>,
        bytes: u64,
        reclaim: &dyn Fn(),
    ) -> Result<Whole, Refusal> {
        let held_bytes = bytes
            .checked_next_multiple_of(PAGE_BYTES)
            .ok_or_else(|| no_such_size(bytes))?;
        let segment = self.until(reclaim, || {
            self.budget.reserve(held_bytes).map_err(Problem::Budget)?;
            match self.maker.make(held_bytes, Pace::Fast) {
                Ok(segment) => Ok(Some(segment)),
                Err(error) => {
                    self.budget.refund(held_bytes);
                    Err(Problem::Driver(error))
                }
            }
        })?;
        let slot = Slot {
            addr: segment.base.0 as u64,
            requested_bytes: bytes,
            held_bytes,
        };
        self.counters.took(flows(&slot));
        Ok(Whole {
            core: self.clone(),
            slot,
            segment: Mutex::new(Some(segment)),
        })
    }
}

/// A segment that a thread changes; put back when dropped, also where a panic unwinds.
struct Out<'w>(&'w Whole, Option<Segment>);

impl Drop for Out<'_> {
    fn drop(&mut self) {
        *self.0.segment.lock() = self.1.take();
    }
}

impl Whole {
    /// Where the host sees it.
    pub(crate) fn host(&self) -> HostAddr {
        HostAddr(self.slot.addr as usize)
    }

    /// Bytes that it takes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.slot.held_bytes
    }

    /// Where a device sees it while it is page-locked.
    pub(crate) fn device_addr(&self, device: DeviceId) -> DeviceAddr {
        let segment = self.segment.lock();
        let elsewhere = segment.iter().flat_map(|segment| &segment.device);
        let there = elsewhere.into_iter().find(|(id, _)| *id == device);
        there.map_or(DeviceAddr(self.slot.addr), |(_, addr)| *addr)
    }

    /// Makes it ordinary memory, as far as the driver lets go of it. Bytes that are so now.
    pub(crate) fn unpin(&self) -> u64 {
        self.change(|segment| {
            let before = segment.pinned_bytes();
            self.core.maker.unpin(segment);
            let gone = before - segment.pinned_bytes();
            self.core.unpinned_bytes.fetch_add(gone, Ordering::Relaxed);
            self.core.budget.refund(gone);
            segment.bytes - segment.pinned_bytes()
        })
        .unwrap_or(0)
    }

    /// Page-locks all of it again, with its contents.
    ///
    /// # Errors
    /// The budget's or the driver's answer; what was ordinary memory still is.
    pub(crate) fn pin(&self, reclaim: &dyn Fn()) -> Result<(), Refusal> {
        let pinned = self.change(|segment| {
            self.core.until(reclaim, || {
                let before = segment.pinned_bytes();
                let wanted = segment.bytes - before;
                self.core.budget.reserve(wanted).map_err(Problem::Budget)?;
                let outcome = self.core.maker.pin(segment);
                let gained = segment.pinned_bytes() - before;
                self.core
                    .unpinned_bytes
                    .fetch_sub(gained, Ordering::Relaxed);
                if gained < wanted {
                    self.core.budget.refund(wanted - gained);
                }
                outcome.map(Some).map_err(Problem::Driver)
            })
        });
        pinned.unwrap_or(Ok(()))
    }

    /// Gives it back. No device uses it any more, nor does the host. False where the driver did not
    /// let go of all of it: it stays mapped, and in the budget, for ever.
    pub(crate) fn give_back(&self) -> bool {
        let Some(segment) = self.segment.lock().take() else {
            return true;
        };
        let pinned_bytes = segment.pinned_bytes();
        let unpinned_bytes = segment.bytes - pinned_bytes;
        let core = &self.core;
        core.counters.gave(flows(&self.slot));
        core.unpinned_bytes
            .fetch_sub(unpinned_bytes, Ordering::Relaxed);
        let unmade = core.maker.unmake(segment);
        if unmade.is_ok() {
            core.budget.refund(pinned_bytes);
        } else {
            core.quarantined_bytes
                .fetch_add(pinned_bytes, Ordering::Relaxed);
        }
        unmade.is_ok()
    }

    /// Changes the segment, under no lock.
    fn change<R>(&self, change: impl FnOnce(&mut Segment) -> R) -> Option<R> {
        let mut out = Out(self, self.segment.lock().take());
        out.1.as_mut().map(change)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // What was not given back may still be page-locked, so it is never unmapped.
        std::mem::forget(self.segment.get_mut().take());
    }
}
