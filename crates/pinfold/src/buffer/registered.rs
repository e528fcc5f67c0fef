//! Buffers over memory that pinfold does not own: page-locked where it lies.

use super::raw::HostElements;
use super::{
    BlockRef, CopySource, CopyTarget, HostBuffer, InFlight, InPlace, InPlaceWritable, Sealed,
};
use crate::element::Element;
use crate::error::Result;
use crate::graph::thread;
use crate::memory::block::Block;
use crate::memory::{Placement, register};
use pinfold_hal::HostAddr;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// An owner of host memory that stays where it is when the owner moves.
///
/// # Safety
/// [`start`](Self::start) and [`len`](Self::len) describe memory that holds initialised elements,
/// is aligned for them, is valid for reads (and, where `WRITABLE`, for writes) until the owner is
/// dropped, and does not move with the owner. Meanwhile nobody else writes it, nor, where it is
/// `WRITABLE`, reads it. Where owners share memory, all of what any of them describes is valid
/// until the last of them is dropped. The address has had its provenance exposed.
pub unsafe trait HostRange {
    /// What lies in it.
    type Item: Element;
    /// False for memory that must not be written.
    const WRITABLE: bool;
    /// True for memory that may be mapped for reading only, which not every device can page-lock.
    const READ_ONLY: bool = !Self::WRITABLE;

    /// Where it begins.
    fn start(&mut self) -> HostAddr;

    /// Number of elements.
    fn len(&self) -> usize;

    /// True for no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// SAFETY: a vector owns initialised elements on the heap, which do not move with it.
unsafe impl<T: Element> HostRange for Vec<T> {
    type Item = T;
    const WRITABLE: bool = true;

    fn start(&mut self) -> HostAddr {
        HostAddr(self.as_mut_ptr().expose_provenance())
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }
}

// SAFETY: the mapping is page-aligned, initialised, stays in place, and is unmapped by the owner's
// drop; whoever made it promised that nobody else changes the file.
unsafe impl HostRange for memmap2::MmapMut {
    type Item = u8;
    const WRITABLE: bool = true;

    fn start(&mut self) -> HostAddr {
        HostAddr(self.as_mut_ptr().expose_provenance())
    }

    fn len(&self) -> usize {
        <[u8]>::len(self)
    }
}

// SAFETY: as above; the mapping is read-only, and said to be so.
unsafe impl HostRange for memmap2::Mmap {
    type Item = u8;
    const WRITABLE: bool = false;

    fn start(&mut self) -> HostAddr {
        HostAddr(self.as_ptr().expose_provenance())
    }

    fn len(&self) -> usize {
        <[u8]>::len(self)
    }
}

// SAFETY: a shared slice lies on the heap, initialised, until its last owner is dropped; nobody
// writes it while there are two, and here is one that never does.
unsafe impl<T: Element> HostRange for Arc<[T]> {
    type Item = T;
    const WRITABLE: bool = false;
    /// The heap is mapped for writing.
    const READ_ONLY: bool = false;

    fn start(&mut self) -> HostAddr {
        HostAddr(self.as_ptr().expose_provenance())
    }

    fn len(&self) -> usize {
        <[T]>::len(self)
    }
}

// SAFETY: the slice is initialised, and lives and is shared for ever.
unsafe impl<T: Element> HostRange for &'static [T] {
    type Item = T;
    const WRITABLE: bool = false;

    fn start(&mut self) -> HostAddr {
        HostAddr(self.as_ptr().expose_provenance())
    }

    fn len(&self) -> usize {
        <[T]>::len(self)
    }
}

// SAFETY: as above.
unsafe impl HostRange for &'static str {
    type Item = u8;
    const WRITABLE: bool = false;

    fn start(&mut self) -> HostAddr {
        HostAddr(self.as_ptr().expose_provenance())
    }

    fn len(&self) -> usize {
        str::len(self)
    }
}

/// A borrowed slice, page-locked for the time of a closure.
#[derive(Debug)]
pub struct ScopedSlice<'s, T> {
    /// Invariant in the lifetime, so that no longer or shorter one can stand in for it.
    _scope: PhantomData<fn(&'s mut T) -> &'s mut T>,
}

// SAFETY: stands for a slice that is borrowed exclusively until the scope's end, before which the
// buffer over it is closed; `start` and `len` are never asked of it, since no value of the type is
// ever made.
unsafe impl<T: Element> HostRange for ScopedSlice<'_, T> {
    type Item = T;
    const WRITABLE: bool = true;

    fn start(&mut self) -> HostAddr {
        HostAddr(std::mem::align_of::<T>())
    }

    fn len(&self) -> usize {
        0
    }
}

/// Memory of the caller's own, page-locked where it lies.
pub struct RegisteredBuffer<O: HostRange> {
    elements: HostElements<O::Item>,
    _owner: PhantomData<O>,
}

impl<O: HostRange> RegisteredBuffer<O> {
    pub(crate) fn new(block: Arc<Block>, len: usize) -> Self {
        RegisteredBuffer {
            elements: HostElements::new(block, len),
            _owner: PhantomData,
        }
    }

    /// The elements.
    pub fn as_slice(&self) -> &[O::Item] {
        self.elements.as_slice()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// True for no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it is, and why.
    pub fn placement(&self) -> &Placement {
        self.elements.block().placement()
    }

    /// Hands the buffer to devices: the handle can be given to kernels, and gives the buffer back
    /// by [`InFlight::wait`].
    pub fn lend(self) -> InFlight<Self> {
        InFlight::new(self)
    }
}

impl<O: WritableRange> RegisteredBuffer<O> {
    /// The elements, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [O::Item] {
        self.elements.as_mut_slice()
    }
}

impl<O: HostRange + Send + Sync + 'static> RegisteredBuffer<O> {
    /// Makes the memory ordinary again and gives it back to its owner. `None` cannot happen for a
    /// buffer from [`Memory::register`](crate::Memory::register).
    ///
    /// # Errors
    /// Where the driver does not let go of the memory; it then stays page-locked, and the owner is
    /// kept.
    pub fn into_inner(self) -> Result<Option<O>> {
        thread::refuse("making page-locked memory ordinary")?;
        let block = self.elements.into_block();
        let device = block.first_device().clone();
        match Arc::into_inner(block) {
            Some(block) => register::into_owner(&device, block.take()),
            None => Ok(None),
        }
    }
}

impl<O: HostRange> Sealed for RegisteredBuffer<O> {}

impl<O: HostRange> HostBuffer for RegisteredBuffer<O> {
    type Item = O::Item;

    fn len(&self) -> usize {
        self.elements.len()
    }

    fn block(&self) -> BlockRef<'_> {
        BlockRef(self.elements.block())
    }
}

/// An owner of memory that may be written.
///
/// # Safety
/// [`HostRange::WRITABLE`] is true.
pub unsafe trait WritableRange: HostRange {}

// SAFETY: a vector's elements may be written.
unsafe impl<T: Element> WritableRange for Vec<T> {}
// SAFETY: the mapping was made for writing.
unsafe impl WritableRange for memmap2::MmapMut {}
// SAFETY: the slice is borrowed exclusively.
unsafe impl<T: Element> WritableRange for ScopedSlice<'_, T> {}

impl<O: HostRange> CopySource for RegisteredBuffer<O> {}
impl<O: WritableRange> CopyTarget for RegisteredBuffer<O> {}
impl<O: HostRange> InPlace for RegisteredBuffer<O> {}
impl<O: WritableRange> InPlaceWritable for RegisteredBuffer<O> {}

impl<O: HostRange> fmt::Debug for RegisteredBuffer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredBuffer")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
