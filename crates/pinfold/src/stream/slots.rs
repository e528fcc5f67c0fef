//! Copies for the transfer engine: slots whose other side the engine has to itself, and slices of
//! ordinary memory, which are waited for at once.

use super::Stream;
use super::copies::parts;
use crate::buffer::{ExchangeBuffer, HandOver, HostBuffer, InFlight};
use crate::error::{Refused, Result};
use crate::memory::block::Block;
use crate::memory::register::give_up;
use crate::pool::CUT_BYTES;
use pinfold_hal::{DeviceAddr, HostAddr};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

type Slot = InFlight<ExchangeBuffer<u8>>;

impl Stream {
    /// Copies the first bytes of a slot to a place in a block, and notes no use of the block: the
    /// caller has it to himself, keeps its memory until the slot is back, and waits for the slot
    /// before anything else uses the block. Earlier work with the block comes first.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::Driver`]; the slot comes back in the error.
    pub(crate) fn upload_slot(
        &self,
        from: ExchangeBuffer<u8>,
        bytes: u64,
        to: &Arc<Block>,
        at: u64,
    ) -> Result<Slot, Refused<Slot>> {
        self.with_slot(from, bytes, (to, at, true), |host, device, bytes| {
            // SAFETY: the caller keeps both ranges inside their blocks. The slot is in flight, and
            // the block is the caller's alone until he has waited for the slot.
            unsafe {
                self.device()
                    .driver()
                    .copy_to_device(self.id(), device, host, bytes)
            }
        })
    }

    /// Copies a part of a block to the beginning of a slot; else as
    /// [`upload_slot`](Self::upload_slot).
    ///
    /// # Errors
    /// As there.
    pub(crate) fn download_slot(
        &self,
        from: &Arc<Block>,
        at: u64,
        to: ExchangeBuffer<u8>,
        bytes: u64,
    ) -> Result<Slot, Refused<Slot>> {
        self.with_slot(to, bytes, (from, at, false), |host, device, bytes| {
            // SAFETY: as in `upload_slot`.
            unsafe {
                self.device()
                    .driver()
                    .copy_to_host(self.id(), host, device, bytes)
            }
        })
    }

    fn with_slot(
        &self,
        slot: ExchangeBuffer<u8>,
        bytes: u64,
        (block, at, writes): (&Arc<Block>, u64, bool),
        copy: impl Fn(HostAddr, DeviceAddr, u64) -> pinfold_hal::Result<()>,
    ) -> Result<Slot, Refused<Slot>> {
        let slot = slot.hand_over();
        let enqueue = || -> Result<()> {
            let device_addr = block.device_addr(self.device())?.offset(at);
            let staged = slot.buffer().block().0;
            let Some(host) = staged.host().filter(|_| bytes > 0) else {
                return Ok(());
            };
            let _in_use = staged.begin_use()?;
            self.wait_for_earlier(block, writes)?;
            // The device writes the slot where the block is read.
            let uses = [(staged, !writes)];
            let doing = "enqueuing a copy of a slot";
            self.enqueue_parts(&uses, doing, parts(staged, 0, bytes), |part| {
                let device = device_addr.offset(part.start);
                copy(host.offset(part.start), device, part.end - part.start)
            })?;
            staged.want();
            Ok(())
        };
        match enqueue() {
            Ok(()) => Ok(slot),
            Err(error) => Err(Refused::new(error, slot)),
        }
    }

    /// Makes this stream's next operation wait for earlier work with a block.
    fn wait_for_earlier(&self, block: &Block, writes: bool) -> Result<()> {
        let mut earlier = SmallVec::new();
        block.conflicts(self.order(), writes, &mut earlier);
        let mut earlier = earlier.into_iter();
        earlier.try_for_each(|(order, place)| order.make_wait(place, self.order()))
    }

    /// Copies ordinary memory to a place in a block, which must have room, and waits for it.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::Driver`].
    pub(crate) fn upload_slice(&self, from: &[u8], to: &Arc<Block>, at: u64) -> Result<()> {
        let device_addr = to.device_addr(self.device())?.offset(at);
        let start = from.as_ptr().expose_provenance();
        let range = start..start + from.len();
        let doing = "copying ordinary memory to the device";
        self.copy_slice(range, (to, true), doing, |host, done, bytes| {
            // SAFETY: the slice is borrowed until `copy_slice` returns, which it does only once the
            // copy is over; the block has room and notes the use.
            unsafe {
                let to = device_addr.offset(done);
                self.device()
                    .driver()
                    .copy_to_device(self.id(), to, host, bytes)
            }
        })
    }

    /// Copies a part of a block to ordinary memory, and waits for it; else as
    /// [`upload_slice`](Self::upload_slice).
    ///
    /// # Errors
    /// As there.
    pub(crate) fn download_slice(&self, from: &Arc<Block>, at: u64, to: &mut [u8]) -> Result<()> {
        let device_addr = from.device_addr(self.device())?.offset(at);
        let start = to.as_mut_ptr().expose_provenance();
        let range = start..start + to.len();
        let doing = "copying to ordinary memory";
        self.copy_slice(range, (from, false), doing, |host, done, bytes| {
            // SAFETY: as in `upload_slice`, and the slice is borrowed exclusively.
            unsafe {
                let from = device_addr.offset(done);
                self.device()
                    .driver()
                    .copy_to_host(self.id(), host, from, bytes)
            }
        })
    }

    /// Copies a slice of the program's to or from a block, and waits for it. It is cut where a
    /// registration may begin or end, since no copy may cross such a place: a buffer of a pool is a
    /// slice too, and of shared memory a part may be registered.
    fn copy_slice(
        &self,
        slice: Range<usize>,
        block: (&Arc<Block>, bool),
        doing: &'static str,
        copy: impl Fn(HostAddr, u64, u64) -> pinfold_hal::Result<()>,
    ) -> Result<()> {
        if slice.is_empty() {
            return Ok(());
        }
        let registry = &self.device().platform_inner().registry;
        let _copying = registry.slices.copying(&slice)?;
        let mut ends = registry.edges(&slice);
        let cuts = (slice.start as u64 / CUT_BYTES + 1..).map(|n| (n * CUT_BYTES) as usize);
        ends.extend(cuts.take_while(|cut| *cut < slice.end));
        ends.push(slice.end);
        ends.sort_unstable();
        ends.dedup();
        let mut start = slice.start;
        let enqueued = self.enqueue_parts(&[block], doing, ends, |end| {
            let part = std::mem::replace(&mut start, end)..end;
            let done = (part.start - slice.start) as u64;
            copy(HostAddr(part.start), done, part.len() as u64)
        });
        // Where a part is refused those before it are in flight.
        let finished = self.finish_with_borrowed();
        enqueued.and(finished)
    }

    /// Waits for the stream, by whatever means there are, before a borrow ends.
    fn finish_with_borrowed(&self) -> Result<()> {
        let waited = self.synchronize();
        if let Err(error) = &waited
            && !error.device_is_lost()
            && let Err(error) = self.device().settle()
            && !error.device_is_lost()
        {
            give_up(&error);
        }
        waited
    }
}
