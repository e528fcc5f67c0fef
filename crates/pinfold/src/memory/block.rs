//! A block of memory in use: where it is, why it is there, and which streams use it.

use super::pin_on_use::InUse;
use super::retire::RetiredBlock;
use super::source::{Origin, RawBlock};
use super::{MemoryInner, Placement, register};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::thread;
use crate::pool::CUT_BYTES;
use crate::stream::order::{StreamOrder, UseLog};
use crate::track::books::Entry;
use parking_lot::Mutex;
use pinfold_hal::{DeviceAddr, HostAddr};
use pinfold_model::MemoryKind;
use smallvec::SmallVec;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A block in use. Dropping it hands the memory back once the device is done with it.
pub(crate) struct Block {
    memory: Arc<MemoryInner>,
    placement: Placement,
    raw: RawBlock,
    /// What the table of live blocks knows it by.
    number: Option<NonZeroU64>,
    /// True once the memory was given back.
    closed: AtomicBool,
    /// How many graphs may use it at any time.
    bound: AtomicU32,
    /// Of a block without a pin, which has its own.
    uses: Mutex<UseLog>,
}

impl Block {
    pub(crate) fn new(memory: Arc<MemoryInner>, raw: RawBlock, placement: Placement) -> Arc<Self> {
        let entry = entry(&raw, &placement);
        memory.books.taken(&entry);
        if let Some(pin) = &raw.pin {
            memory.pins.add(pin);
        }
        let number = memory.live.remember(&entry);
        // Made in place: a block is a few cache lines, and moving it costs more than making it.
        let mut block = Arc::<Block>::new_uninit();
        if let Some(place) = Arc::get_mut(&mut block) {
            place.write(Block {
                memory,
                placement,
                raw,
                number,
                closed: AtomicBool::new(false),
                bound: AtomicU32::new(0),
                uses: Mutex::default(),
            });
        }
        // SAFETY: nobody else has the new place yet, so that it was written in the lines above.
        unsafe { block.assume_init() }
    }

    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.raw.bytes
    }

    /// Where copies of a range of it have to be cut: no copy may cross two registrations. Offsets,
    /// ascending, without the ends.
    pub(crate) fn cuts(&self, offset: u64, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let host = self.raw.host.map_or(0, |host| host.0 as u64);
        let every = match self.raw.is_cut {
            true => CUT_BYTES,
            false => u64::MAX,
        };
        let first = (host + offset) / every + 1;
        let cuts = (first..).map_while(move |n| n.checked_mul(every));
        cuts.map(move |addr| addr - host)
            .take_while(move |cut| *cut < offset + bytes)
    }

    /// Where the host sees it; `None` for device memory and for an empty block.
    pub(crate) fn host(&self) -> Option<HostAddr> {
        self.raw.host
    }

    /// The device whose first use made the block possible, to declare host work to.
    pub(crate) fn first_device(&self) -> &Device {
        &self.memory.devices[0]
    }

    /// Begins a use by a device: until the use ends, memory that may be page-locked only while it
    /// is used is so. To be called before device addresses are asked for, and kept until the use is
    /// noted. `None` for memory that always is as it is.
    ///
    /// # Errors
    /// As [`Pin::begin_use`](super::pin_on_use::Pin::begin_use).
    #[inline]
    pub(crate) fn begin_use(&self) -> Result<Option<InUse<'_>>> {
        match &self.raw.pin {
            None => Ok(None),
            Some(pin) => pin.begin_use(&self.memory).map(Some),
        }
    }

    /// Page-locks it for as long as it lives: somebody has an address of it.
    ///
    /// # Errors
    /// As [`begin_use`](Self::begin_use).
    pub(crate) fn keep_pinned(&self) -> Result<()> {
        match &self.raw.pin {
            None => Ok(()),
            Some(pin) => pin.keep(&self.memory),
        }
    }

    /// True where it is host memory that is page-locked at this moment.
    pub(crate) fn is_pinned(&self) -> bool {
        match &self.raw.pin {
            None => self.raw.host.is_some() && self.raw.kind != MemoryKind::Pageable,
            Some(pin) => pin.is_pinned(),
        }
    }

    fn uses(&self) -> &Mutex<UseLog> {
        match &self.raw.pin {
            None => &self.uses,
            Some(pin) => &pin.uses,
        }
    }

    /// Where the device sees it.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::NotMapped`].
    pub(crate) fn device_addr(&self, device: &Device) -> Result<DeviceAddr> {
        self.check_reach(device)?;
        let id = device.id();
        let addr = match &self.raw.pin {
            None => self.raw.device.iter().find(|d| d.0 == id).map(|d| d.1),
            Some(pin) => pin.device_addr(id),
        };
        match addr {
            Some(addr) => Ok(addr),
            None if self.bytes() == 0 => Ok(DeviceAddr(0)),
            None if self.raw.host.is_some() => Err(Error::NotMapped {
                kind: self.placement.kind(),
                site: self.placement.site(),
            }),
            None => Err(self.out_of_reach(device)),
        }
    }

    /// Checks that copies by the device may use the block.
    pub(crate) fn check_reach(&self, device: &Device) -> Result<()> {
        if self.memory.devices.contains(device) {
            Ok(())
        } else {
            Err(self.out_of_reach(device))
        }
    }

    fn out_of_reach(&self, device: &Device) -> Error {
        Error::WrongDevice {
            kind: self.placement.kind(),
            device: device.index(),
            site: self.placement.site(),
        }
    }

    /// One graph more may use it at any time, for which it stays page-locked.
    ///
    /// # Errors
    /// As [`begin_use`](Self::begin_use).
    pub(crate) fn bind(&self) -> Result<()> {
        if let Some(in_use) = self.begin_use()? {
            // Ended by `unbind`.
            std::mem::forget(in_use);
        }
        self.bound.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// One graph less. The uses of its launches have been noted.
    pub(crate) fn unbind(&self) {
        self.bound.fetch_sub(1, Ordering::AcqRel);
        if let Some(pin) = &self.raw.pin {
            pin.end_use();
        }
    }

    /// True where a graph uses it.
    pub(crate) fn is_bound(&self) -> bool {
        self.bound.load(Ordering::Acquire) > 0
    }

    /// Checks that no more than so many graphs may use it at any time.
    ///
    /// # Errors
    /// [`Error::InGraph`].
    pub(crate) fn check_bound_at_most(&self, graphs: u32) -> Result<()> {
        match self.bound.load(Ordering::Acquire) > graphs {
            true => Err(Error::InGraph {
                site: self.placement.site(),
            }),
            false => Ok(()),
        }
    }

    /// True for memory that goes back to its owner at the end of a scope, whoever still holds the
    /// block.
    pub(crate) fn is_borrowed(&self) -> bool {
        matches!(self.raw.origin, Origin::Registered(_)) && self.raw.keep.is_none()
    }

    /// What a new operation on the stream has to wait for.
    pub(crate) fn conflicts(
        &self,
        stream: &Arc<StreamOrder>,
        writes: bool,
        found: &mut SmallVec<[(Arc<StreamOrder>, u64); 4]>,
    ) {
        self.uses().lock().conflicts(stream, writes, found);
    }

    /// Notes a use.
    pub(crate) fn note_use(&self, stream: &Arc<StreamOrder>, place: u64, writes: bool) {
        let old = self.uses().lock().note(stream, place, writes);
        drop(old);
    }

    /// Says that somebody will wait for the uses so far.
    pub(crate) fn want(&self) {
        self.uses().lock().want();
    }

    /// Waits for all uses so far. No lock is held meanwhile.
    pub(crate) fn wait(&self) -> Result<()> {
        let pending = self.uses().lock().snapshot();
        for (order, place) in pending {
            order.wait_for(place)?;
        }
        self.forget_done();
        Ok(())
    }

    /// True once all uses so far are done. Never waits.
    pub(crate) fn is_done(&self) -> Result<bool> {
        let pending = self.uses().lock().snapshot();
        for (order, place) in pending {
            if !order.is_done(place)? {
                return Ok(false);
            }
        }
        self.forget_done();
        Ok(true)
    }

    fn forget_done(&self) {
        let done = self.uses().lock().take_done();
        drop(done);
    }

    /// Waits for all uses by whatever means there are, for a caller who is about to let the memory
    /// go.
    ///
    /// # Errors
    /// As [`UseLog::settle`].
    pub(crate) fn settle(&self) -> Result<()> {
        let log = std::mem::take(&mut *self.uses().lock());
        log.settle()
    }

    /// Ends the registration of a block although others may still hold it, which they must not
    /// use any more. The caller has settled it.
    ///
    /// # Errors
    /// Where the driver does not let go of the memory.
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.given_back();
        register::end_scoped(self.first_device(), &self.raw)
    }

    fn given_back(&self) {
        self.memory.live.forget(self.number);
        self.memory
            .books
            .given_back(&entry(&self.raw, &self.placement));
    }

    /// Takes the memory out of a block that no device uses, for a caller who gives it back himself.
    pub(crate) fn take(mut self) -> RawBlock {
        self.closed.store(true, Ordering::Release);
        self.given_back();
        let empty = RawBlock::empty(self.raw.kind);
        std::mem::replace(&mut self.raw, empty)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if !*self.closed.get_mut() {
            let site = self.placement.site();
            self.memory.live.forget(self.number);
            if let Some(pin) = &self.raw.pin {
                *self.uses.get_mut() = pin.retire();
            }
            let put_off = self.raw.is_the_drivers() && thread::captures();
            if self.uses.get_mut().is_known_gone() && !put_off {
                self.memory.release(&mut self.raw, site);
                return;
            }
            let empty = RawBlock::empty(self.raw.kind);
            self.memory.retire(RetiredBlock {
                raw: std::mem::replace(&mut self.raw, empty),
                uses: std::mem::take(self.uses.get_mut()),
                site,
            });
        }
    }
}

fn entry(raw: &RawBlock, placement: &Placement) -> Entry {
    Entry {
        site: placement.site(),
        kind: raw.kind,
        bytes: raw.bytes,
        held_bytes: raw.held_bytes,
    }
}
