//! Copies between host and device, and from device to device.

use super::Stream;
use super::order::{GRAPHS_TURN, StreamOrder};
use crate::buffer::raw::check_range;
use crate::buffer::{CopySource, CopyTarget, DeviceBuffer, HandOver, HostBuffer, InFlight};
use crate::element::Element;
use crate::error::{Error, Refused, Result};
use crate::graph::Recording;
use crate::memory::block::Block;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

impl Stream {
    /// Copies a whole host buffer to a device buffer of the same length. The host buffer, or the
    /// handle of one that is in flight already, is taken over; the result gives it back.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDevice`], [`Error::Driver`]; the buffer comes back in the
    /// error.
    pub fn upload<S: HandOver>(
        &self,
        from: S,
        to: &mut DeviceBuffer<<S::Buffer as HostBuffer>::Item>,
    ) -> Result<InFlight<S::Buffer>, Refused<InFlight<S::Buffer>>>
    where
        S::Buffer: CopySource,
    {
        let from = from.hand_over();
        if from.len() != to.len() {
            let error = Error::Length {
                what: "upload target",
                got: to.len(),
                want: from.len(),
            };
            return Err(Refused::new(error, from));
        }
        let all = 0..from.len();
        self.upload_part(from, all, to, 0)
    }

    /// Copies a range of a host buffer to a place in a device buffer; else as
    /// [`upload`](Self::upload).
    ///
    /// # Errors
    /// [`Error::OutOfRange`], and as there.
    pub fn upload_part<S: HandOver>(
        &self,
        from: S,
        range: Range<usize>,
        to: &mut DeviceBuffer<<S::Buffer as HostBuffer>::Item>,
        at: usize,
    ) -> Result<InFlight<S::Buffer>, Refused<InFlight<S::Buffer>>>
    where
        S::Buffer: CopySource,
    {
        let from = from.hand_over();
        match self.enqueue_upload(&from, range, to, at) {
            Ok(()) => Ok(from),
            Err(error) => Err(Refused::new(error, from)),
        }
    }

    fn enqueue_upload<B: CopySource>(
        &self,
        from: &InFlight<B>,
        range: Range<usize>,
        to: &DeviceBuffer<B::Item>,
        at: usize,
    ) -> Result<()> {
        let copy = Copy::check::<B::Item>(range, from.len(), at, to.len())?;
        let source = from.buffer().block().0;
        source.check_reach(self.device())?;
        let device_addr = to.block().device_addr(self.device())?;
        let Some(host) = source.host().filter(|_| copy.bytes > 0) else {
            return Ok(());
        };
        let _in_use = source.begin_use()?;
        let uses = [(source, false), (to.block(), true)];
        let parts = parts(source, copy.from_bytes, copy.bytes);
        self.enqueue_parts(&uses, "enqueuing a copy to the device", parts, |part| {
            let done = part.start - copy.from_bytes;
            // SAFETY: both ranges were checked against their buffers. The source is in flight:
            // nobody writes it, and its memory is given back only after it was waited for. The
            // same holds for the device buffer, whose uses are noted behind the copy.
            unsafe {
                self.device().driver().copy_to_device(
                    self.id(),
                    device_addr.offset(copy.to_bytes + done),
                    host.offset(part.start),
                    part.end - part.start,
                )
            }
        })?;
        source.want();
        Ok(())
    }

    /// Copies a whole device buffer to a host buffer of the same length. The host buffer is taken
    /// over; the result gives it back.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDevice`], [`Error::Driver`]; the buffer comes back in the
    /// error.
    pub fn download<D: HandOver>(
        &self,
        from: &DeviceBuffer<<D::Buffer as HostBuffer>::Item>,
        to: D,
    ) -> Result<InFlight<D::Buffer>, Refused<InFlight<D::Buffer>>>
    where
        D::Buffer: CopyTarget,
    {
        let to = to.hand_over();
        if from.len() != to.len() {
            let error = Error::Length {
                what: "download target",
                got: to.len(),
                want: from.len(),
            };
            return Err(Refused::new(error, to));
        }
        self.download_part(from, 0..from.len(), to, 0)
    }

    /// Copies a range of a device buffer to a place in a host buffer; else as
    /// [`download`](Self::download).
    ///
    /// # Errors
    /// [`Error::OutOfRange`], and as there.
    pub fn download_part<D: HandOver>(
        &self,
        from: &DeviceBuffer<<D::Buffer as HostBuffer>::Item>,
        range: Range<usize>,
        to: D,
        at: usize,
    ) -> Result<InFlight<D::Buffer>, Refused<InFlight<D::Buffer>>>
    where
        D::Buffer: CopyTarget,
    {
        let to = to.hand_over();
        match self.enqueue_download(from, range, &to, at) {
            Ok(()) => Ok(to),
            Err(error) => Err(Refused::new(error, to)),
        }
    }

    fn enqueue_download<B: CopyTarget>(
        &self,
        from: &DeviceBuffer<B::Item>,
        range: Range<usize>,
        to: &InFlight<B>,
        at: usize,
    ) -> Result<()> {
        let copy = Copy::check::<B::Item>(range, from.len(), at, to.len())?;
        let target = to.buffer().block().0;
        target.check_reach(self.device())?;
        let device_addr = from.block().device_addr(self.device())?;
        let Some(host) = target.host().filter(|_| copy.bytes > 0) else {
            return Ok(());
        };
        let _in_use = target.begin_use()?;
        let uses = [(from.block(), false), (target, true)];
        let parts = parts(target, copy.to_bytes, copy.bytes);
        self.enqueue_parts(&uses, "enqueuing a copy to the host", parts, |part| {
            let done = part.start - copy.to_bytes;
            // SAFETY: as in `enqueue_upload`; the target is in flight, so the host neither reads
            // nor writes it.
            unsafe {
                self.device().driver().copy_to_host(
                    self.id(),
                    host.offset(part.start),
                    device_addr.offset(copy.from_bytes + done),
                    part.end - part.start,
                )
            }
        })?;
        target.want();
        Ok(())
    }

    /// Copies a device buffer to another one of the same length and device.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDevice`], [`Error::Driver`].
    pub fn copy<T: Element>(&self, from: &DeviceBuffer<T>, to: &mut DeviceBuffer<T>) -> Result<()> {
        if from.len() != to.len() {
            return Err(Error::Length {
                what: "copy target",
                got: to.len(),
                want: from.len(),
            });
        }
        let source = from.block().device_addr(self.device())?;
        let target = to.block().device_addr(self.device())?;
        if from.is_empty() {
            return Ok(());
        }
        let bytes = from.block().bytes();
        let uses = [(from.block(), false), (to.block(), true)];
        self.enqueue(&uses, "enqueuing a copy on the device", || {
            // SAFETY: both buffers have this many bytes; they are two buffers, so they do not
            // overlap; their uses are noted behind the copy.
            unsafe {
                self.device()
                    .driver()
                    .copy_on_device(self.id(), target, source, bytes)
            }
        })
    }

    /// Sets every byte of a device buffer.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::Driver`].
    pub fn fill<T: Element>(&self, buffer: &mut DeviceBuffer<T>, byte: u8) -> Result<()> {
        let target = buffer.block().device_addr(self.device())?;
        if buffer.is_empty() {
            return Ok(());
        }
        let bytes = buffer.block().bytes();
        self.enqueue(&[(buffer.block(), true)], "enqueuing a fill", || {
            // SAFETY: the buffer has this many bytes, and its use is noted behind the fill.
            unsafe { self.device().driver().fill(self.id(), target, byte, bytes) }
        })
    }

    /// Enqueues an operation: orders it after conflicting work of other streams, and notes its
    /// uses.
    pub(crate) fn enqueue(
        &self,
        uses: &[(&Arc<Block>, bool)],
        doing: &'static str,
        operation: impl FnOnce() -> pinfold_hal::Result<()>,
    ) -> Result<()> {
        let mut operation = Some(operation);
        self.enqueue_parts(uses, doing, [()], |()| {
            operation.take().map_or(Ok(()), |operation| operation())
        })
    }

    /// Enqueues an operation in parts. Where a part is refused those before it are in flight all
    /// the same, and noted.
    pub(super) fn enqueue_parts<P>(
        &self,
        uses: &[(&Arc<Block>, bool)],
        doing: &'static str,
        parts: impl IntoIterator<Item = P>,
        mut operation: impl FnMut(P) -> pinfold_hal::Result<()>,
    ) -> Result<()> {
        if let Some(recording) = self.recording() {
            return record(recording, uses, doing, parts, operation);
        }
        let in_graphs = uses.iter().any(|(block, _)| block.is_bound());
        let _turn = in_graphs.then(|| GRAPHS_TURN.lock());
        let mut earlier: SmallVec<[(Arc<StreamOrder>, u64); 4]> = SmallVec::new();
        for (block, writes) in uses {
            block.conflicts(self.order(), *writes, &mut earlier);
        }
        self.order().before_enqueue()?;
        for (order, place) in earlier {
            order.make_wait(place, self.order())?;
        }
        let mut place = None;
        let outcome = parts.into_iter().try_for_each(|part| {
            operation(part).map_err(Error::driver(doing))?;
            place = Some(self.order().enqueued());
            Ok(())
        });
        if let Some(place) = place {
            for (block, writes) in uses {
                block.note_use(self.order(), place, *writes);
            }
        }
        outcome
    }
}

/// Has the driver note an operation in parts, and notes what it needs. It is ordered after the
/// work of other streams when it is launched.
fn record<P>(
    recording: &RefCell<Recording>,
    uses: &[(&Arc<Block>, bool)],
    doing: &'static str,
    parts: impl IntoIterator<Item = P>,
    mut operation: impl FnMut(P) -> pinfold_hal::Result<()>,
) -> Result<()> {
    let mut bound = Some(Recording::bind(uses)?);
    parts.into_iter().try_for_each(|part| {
        operation(part).map_err(Error::driver(doing))?;
        if let Some(bound) = bound.take() {
            recording.borrow_mut().note(bound);
        }
        Ok(())
    })
}

/// A range of a block, cut where no copy may cross.
pub(super) fn parts(block: &Block, offset: u64, bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let end = offset + bytes;
    let ends = block.cuts(offset, bytes).chain([end]);
    let mut start = offset;
    ends.map(move |end| std::mem::replace(&mut start, end)..end)
}

/// The ranges of a copy in bytes.
struct Copy {
    from_bytes: u64,
    to_bytes: u64,
    bytes: u64,
}

impl Copy {
    fn check<T>(range: Range<usize>, from_len: usize, at: usize, to_len: usize) -> Result<Self> {
        check_range(&range, from_len)?;
        check_range(&(at..at.saturating_add(range.len())), to_len)?;
        let size = std::mem::size_of::<T>() as u64;
        Ok(Copy {
            from_bytes: range.start as u64 * size,
            to_bytes: at as u64 * size,
            bytes: range.len() as u64 * size,
        })
    }
}
