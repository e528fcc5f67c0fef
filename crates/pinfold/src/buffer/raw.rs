//! Host blocks as slices: the one place where an address becomes a reference.

use super::streaming;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::memory::block::Block;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Elements in host memory that belong to the holder alone while no device uses them. The typed
/// buffers see to that: they are moved into an in-flight handle before a device may.
pub(crate) struct HostElements<T> {
    block: Arc<Block>,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: Element> HostElements<T> {
    /// The block holds at least `len` elements, and nobody else makes references into it.
    pub(crate) fn new(block: Arc<Block>, len: usize) -> Self {
        HostElements {
            block,
            len,
            _elements: PhantomData,
        }
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    pub(crate) fn into_block(self) -> Arc<Block> {
        self.block
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// To be called by buffers only while no device uses the block.
    pub(crate) fn as_slice(&self) -> &[T] {
        let Some(host) = self.block.host().filter(|_| self.len > 0) else {
            return &[];
        };
        // SAFETY: the block is memory aligned for any element (or the caller's own slice of `T`)
        // of `len` elements, initialised from the start; any bit pattern is a valid `T`; it lives
        // as long as `self`. No device writes it: the buffer is not in flight. Nor does anybody
        // else: the block has one buffer, and that is borrowed; owners share only what all of them
        // only read.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(host.0), self.len) }
    }

    /// To be called by buffers only while no device uses the block, and never for read-only memory.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        let Some(host) = self.block.host().filter(|_| self.len > 0) else {
            return &mut [];
        };
        // SAFETY: as in `as_slice`; the buffer is borrowed exclusively, and its memory is writable.
        unsafe {
            std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(host.0), self.len)
        }
    }

    /// Writes in ascending order, without ever making a reference that could be read through:
    /// right for write-combined memory; and past the processor's caches, which is right for memory
    /// that a device reads next.
    pub(crate) fn write(&mut self, at: usize, values: &[T]) -> Result<()> {
        check_range(&(at..at.saturating_add(values.len())), self.len)?;
        if let Some(host) = self.block.host() {
            let to: *mut T = std::ptr::with_exposed_provenance_mut(host.0);
            let bytes = std::mem::size_of_val(values);
            // SAFETY: the range was checked; memory, alignment and exclusiveness as in
            // `as_mut_slice`; the caller's slice cannot overlap memory that this buffer owns.
            unsafe { streaming::copy(values.as_ptr().cast(), to.add(at).cast(), bytes) };
        }
        Ok(())
    }

    /// Writes every element in ascending order, each exactly once.
    pub(crate) fn write_each(&mut self, mut value: impl FnMut(usize) -> T) {
        let Some(host) = self.block.host() else {
            return;
        };
        let to: *mut T = std::ptr::with_exposed_provenance_mut(host.0);
        for at in 0..self.len {
            // SAFETY: `at` is below the length; else as in `as_mut_slice`. `T` has no destructor.
            unsafe { to.add(at).write(value(at)) };
        }
    }
}

/// Four words of host memory that the host and a device use at the same time, by atomic accesses
/// only.
pub(crate) struct SharedWords {
    block: Arc<Block>,
}

impl SharedWords {
    pub(crate) const WORDS: usize = 4;

    /// The block holds four words, and all accesses to it go through this object. They begin as
    /// zeros, whatever earlier use of the memory left there.
    pub(crate) fn new(block: Arc<Block>) -> Self {
        let words = SharedWords { block };
        (0..Self::WORDS).for_each(|word| words.store(word, 0));
        words
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Reads a word; an acquire load sees everything that was written before the value it finds.
    pub(crate) fn load(&self, word: usize, order: Ordering) -> u64 {
        self.word(word).map_or(0, |w| w.load(order))
    }

    /// Writes a word, after all that was written before.
    pub(crate) fn store(&self, word: usize, value: u64) {
        if let Some(word) = self.word(word) {
            word.store(value, Ordering::Release);
        }
    }

    fn word(&self, word: usize) -> Option<&AtomicU64> {
        let host = self.block.host().filter(|_| word < Self::WORDS)?;
        let start: *mut u64 = std::ptr::with_exposed_provenance_mut(host.0);
        // SAFETY: the word lies in memory aligned for it that lives as long as `self`, and which
        // host code reaches only through this function, so only by atomic accesses.
        Some(unsafe { AtomicU64::from_ptr(start.add(word)) })
    }
}

/// # Errors
/// [`Error::OutOfRange`] where the range leaves `0..len`, or ends before it starts.
pub(crate) fn check_range(range: &Range<usize>, len: usize) -> Result<()> {
    if range.start <= range.end && range.end <= len {
        Ok(())
    } else {
        Err(Error::OutOfRange {
            start: range.start,
            end: range.end,
            len,
        })
    }
}
