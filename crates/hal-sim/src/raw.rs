//! The only file that touches memory by address: owned bytes, spans of host memory, and the
//! slices that a twin works on.

use pinfold_hal::{Scalar, TwinArg};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Alignment of everything that is allocated here: a page.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Up to this many bytes, aligned words are moved one by one and atomically, in ascending order,
/// so that another thread may poll a flag.
pub(crate) const WORDWISE_BYTES_MAX: usize = 64;

const LONG_BYTES: usize = size_of::<AtomicU64>();
const WORD_BYTES: usize = size_of::<AtomicU32>();

/// What a span is moved in. Long words where they fit, as the program then polls in them too: two
/// threads may race on atomics of one size only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Eight bytes, atomically.
    Long,
    /// Four bytes, atomically.
    Word,
    /// All at once, and not atomically.
    Whole,
}

/// Zeroed bytes on a page boundary. Untouched pages cost nothing: the allocation itself has a small
/// alignment, so that the allocator can take it fresh from the system.
#[derive(Debug)]
pub(crate) struct AlignedBytes {
    allocation: NonNull<u8>,
    layout: Layout,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the bytes are owned and have no ties to a thread.
unsafe impl Send for AlignedBytes {}
// SAFETY: a shared reference only gives shared slices.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `None` for a size that no allocation can have, and where the allocator gives none.
    pub(crate) fn zeroed(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.checked_add(PAGE_BYTES)?, 16).ok()?;
        // SAFETY: the layout has at least PAGE_BYTES bytes.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = allocation.as_ptr().align_offset(PAGE_BYTES);
        // SAFETY: `skip` is below PAGE_BYTES (the alignment of bytes is always reachable), so the
        // result and the `bytes` behind it stay inside the allocation.
        let start = unsafe { allocation.add(skip) };
        Some(AlignedBytes {
            allocation,
            layout,
            start,
            bytes,
        })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` has `bytes` initialised bytes behind it, owned by self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and self is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// The bytes as host memory that the program may use too.
    pub(crate) fn span(&self) -> HostSpan {
        HostSpan {
            addr: self.start.as_ptr().expose_provenance(),
            bytes: self.bytes,
        }
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout and not freed since.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}

/// A range of host memory that the program has lent to the device under the rules of `pinfold-hal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostSpan {
    addr: usize,
    bytes: usize,
}

impl HostSpan {
    /// # Safety
    /// The range is readable memory of this process, and writable where it will be written. It
    /// stays so, and nobody else touches it but as the rules of `pinfold-hal` allow, for as long as
    /// the span is used.
    pub(crate) unsafe fn new(addr: usize, bytes: usize) -> Self {
        HostSpan { addr, bytes }
    }

    pub(crate) fn addr(self) -> usize {
        self.addr
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// The address behind the last byte.
    pub(crate) fn end(self) -> usize {
        self.addr + self.bytes
    }

    /// A part of the span; `None` where it reaches beyond it.
    pub(crate) fn part(self, offset: usize, bytes: usize) -> Option<HostSpan> {
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes).then_some(HostSpan {
            addr: self.addr + offset,
            bytes,
        })
    }

    /// Both spans as one; `None` unless the other one begins where this one ends.
    pub(crate) fn join(self, next: HostSpan) -> Option<HostSpan> {
        (self.end() == next.addr).then_some(HostSpan {
            addr: self.addr,
            bytes: self.bytes + next.bytes,
        })
    }

    fn ptr(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.addr)
    }

    pub(crate) fn is_wordwise(self) -> bool {
        self.unit() != Unit::Whole
    }

    fn unit(self) -> Unit {
        let in_units_of = |bytes: usize| {
            self.bytes <= WORDWISE_BYTES_MAX
                && self.addr.is_multiple_of(bytes)
                && self.bytes.is_multiple_of(bytes)
        };
        if in_units_of(LONG_BYTES) {
            Unit::Long
        } else if in_units_of(WORD_BYTES) {
            Unit::Word
        } else {
            Unit::Whole
        }
    }

    fn long(&self, index: usize) -> &AtomicU64 {
        // SAFETY: only called where the unit is `Long`, with an index inside, so the word is
        // aligned and in memory that the promise of `new` covers; who races on it uses atomics of
        // its size.
        unsafe { AtomicU64::from_ptr(self.ptr().add(index * LONG_BYTES).cast()) }
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: as for `long`, where the unit is `Word`.
        unsafe { AtomicU32::from_ptr(self.ptr().add(index * WORD_BYTES).cast()) }
    }

    /// The memory, to read in place.
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: readable by the promise of `new`, and not written while it is read.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.bytes) }
    }

    /// Copies as many bytes out as `target` has, at most the span's.
    pub(crate) fn load(self, target: &mut [u8]) {
        let bytes = target.len().min(self.bytes);
        let (span, target) = (HostSpan { bytes, ..self }, &mut target[..bytes]);
        match span.unit() {
            Unit::Long => {
                for (index, piece) in target.chunks_exact_mut(LONG_BYTES).enumerate() {
                    let long = span.long(index).load(Ordering::Acquire);
                    piece.copy_from_slice(&long.to_ne_bytes());
                }
            }
            Unit::Word => {
                for (index, piece) in target.chunks_exact_mut(WORD_BYTES).enumerate() {
                    let word = span.word(index).load(Ordering::Acquire);
                    piece.copy_from_slice(&word.to_ne_bytes());
                }
            }
            Unit::Whole => target.copy_from_slice(span.as_slice()),
        }
    }

    /// Copies the bytes in, at most the span's.
    pub(crate) fn store(self, source: &[u8]) {
        let bytes = source.len().min(self.bytes);
        let (span, source) = (HostSpan { bytes, ..self }, &source[..bytes]);
        match span.unit() {
            Unit::Long => {
                for (index, long) in source.as_chunks().0.iter().enumerate() {
                    let long = u64::from_ne_bytes(*long);
                    span.long(index).store(long, Ordering::Release);
                }
            }
            Unit::Word => {
                for (index, word) in source.as_chunks().0.iter().enumerate() {
                    let word = u32::from_ne_bytes(*word);
                    span.word(index).store(word, Ordering::Release);
                }
            }
            // SAFETY: writable by the promise of `new`, `bytes` long, and the source is another
            // borrow, so they may overlap only in broken programs, which `copy` bears.
            Unit::Whole => unsafe { std::ptr::copy(source.as_ptr(), span.ptr(), bytes) },
        }
    }

    /// Sets every byte.
    pub(crate) fn fill(self, byte: u8) {
        if self.is_wordwise() {
            return self.store(&[byte; WORDWISE_BYTES_MAX][..self.bytes]);
        }
        // SAFETY: writable by the promise of `new`.
        unsafe { std::ptr::write_bytes(self.ptr(), byte, self.bytes) }
    }
}

/// An argument of a twin, by the place of its memory.
pub(crate) enum RawArg {
    /// A part of the block of this number.
    Block {
        block: usize,
        offset: usize,
        bytes: usize,
        write: bool,
    },
    /// Host memory that is only read.
    Host(HostSpan),
    /// A value.
    Scalar(Scalar),
}

/// Gives `body` the arguments as slices of the blocks.
///
/// # Errors
/// Where an argument leaves its block, or a written one overlaps another one.
pub(crate) fn with_args<R>(
    blocks: &mut [AlignedBytes],
    args: &[RawArg],
    body: impl FnOnce(Vec<TwinArg<'_>>) -> R,
) -> Result<R, String> {
    check_disjoint(blocks, args)?;
    let mut slices = Vec::with_capacity(args.len());
    for arg in args {
        slices.push(match arg {
            RawArg::Scalar(scalar) => TwinArg::Scalar(*scalar),
            RawArg::Host(span) => TwinArg::Read(span.as_slice()),
            &RawArg::Block {
                block,
                offset,
                bytes,
                write,
            } => {
                // SAFETY: `check_disjoint` found the range inside its block.
                let start = unsafe { blocks[block].start.add(offset).as_ptr() };
                if write {
                    // SAFETY: inside the block, which is borrowed mutably for as long as the slice
                    // lives, and disjoint from every other argument.
                    TwinArg::Write(unsafe { std::slice::from_raw_parts_mut(start, bytes) })
                } else {
                    // SAFETY: inside the block, and disjoint from every written argument.
                    TwinArg::Read(unsafe { std::slice::from_raw_parts(start, bytes) })
                }
            }
        });
    }
    Ok(body(slices))
}

fn check_disjoint(blocks: &[AlignedBytes], args: &[RawArg]) -> Result<(), String> {
    let mut ranges = Vec::with_capacity(args.len());
    for arg in args {
        if let &RawArg::Block {
            block,
            offset,
            bytes,
            write,
        } = arg
        {
            let end = offset.checked_add(bytes);
            let end = end.filter(|&end| blocks.get(block).is_some_and(|b| end <= b.bytes));
            let end = end.ok_or("an argument leaves its memory")?;
            if bytes > 0 {
                ranges.push((block, offset, end, write));
            }
        }
    }
    ranges.sort_unstable();
    // Sorted by start: the furthest end so far, over all arguments and over written ones.
    let (mut block_now, mut end_any, mut end_written) = (usize::MAX, 0, 0);
    for (block, offset, end, write) in ranges {
        if block != block_now {
            (block_now, end_any, end_written) = (block, 0, 0);
        }
        if offset < end_written || (write && offset < end_any) {
            return Err("a written argument overlaps another one".into());
        }
        end_any = end_any.max(end);
        if write {
            end_written = end_written.max(end);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(offset: usize, bytes: usize, write: bool) -> RawArg {
        RawArg::Block {
            block: 0,
            offset,
            bytes,
            write,
        }
    }

    fn accepts(args: &[RawArg]) -> bool {
        with_args(&mut [AlignedBytes::zeroed(64).unwrap()], args, |_| ()).is_ok()
    }

    #[test]
    fn written_arguments_may_not_overlap_anything() {
        assert!(accepts(&[block(0, 32, true), block(32, 32, true)]));
        assert!(accepts(&[block(0, 64, false), block(16, 16, false)]));
        assert!(!accepts(&[block(0, 33, true), block(32, 32, false)]));
        assert!(!accepts(&[
            block(0, 64, false),
            block(8, 4, false),
            block(16, 4, true)
        ]));
        assert!(!accepts(&[block(60, 8, false)]));
    }

    #[test]
    fn memory_is_zeroed_and_on_a_page() {
        let bytes = AlignedBytes::zeroed(10_000).unwrap();
        assert_eq!(bytes.span().addr() % PAGE_BYTES, 0);
        assert!(bytes.as_slice().iter().all(|&b| b == 0));
        assert!(AlignedBytes::zeroed(usize::MAX).is_none());
    }

    #[test]
    fn small_spans_are_moved_in_the_longest_words_that_fit() {
        let memory = AlignedBytes::zeroed(256).unwrap();
        let unit = |start, bytes| memory.span().part(start, bytes).unwrap().unit();
        for (start, bytes) in [(0, 8), (8, 32), (0, WORDWISE_BYTES_MAX)] {
            assert_eq!(unit(start, bytes), Unit::Long);
        }
        for (start, bytes) in [(0, 4), (0, 12), (4, 8), (60, 64)] {
            assert_eq!(unit(start, bytes), Unit::Word);
        }
        for (start, bytes) in [(1, 8), (0, 7), (2, 4), (0, 72)] {
            assert_eq!(unit(start, bytes), Unit::Whole);
        }
    }

    #[test]
    fn a_long_word_is_never_seen_half_written() {
        const ROUNDS: usize = 20_000;
        let memory = AlignedBytes::zeroed(16).unwrap();
        let span = memory.span().part(8, 8).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    span.fill(if round % 2 == 0 { 0xFF } else { 0 });
                }
                span.store(&7u64.to_ne_bytes());
            });
            loop {
                let seen = span.long(0).load(Ordering::Acquire);
                assert!([0, u64::MAX, 7].contains(&seen), "{seen:#x}");
                if seen == 7 {
                    break;
                }
            }
        });
    }

    #[test]
    fn loads_and_stores_agree_for_every_small_size_and_place() {
        let mut memory = AlignedBytes::zeroed(256).unwrap();
        for start in 0..5 {
            for bytes in 0..72 {
                memory.as_mut_slice().fill(0);
                let span = memory.span().part(start, bytes).unwrap();
                let source: Vec<u8> = (1..=bytes as u8).collect();
                span.store(&source);
                let mut back = vec![0; bytes];
                span.load(&mut back);
                assert_eq!(back, source);
                assert_eq!(memory.as_slice()[start + bytes], 0);
            }
        }
    }
}
