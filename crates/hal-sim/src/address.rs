//! Which addresses are whose: page-locked ranges of host memory, and blocks of device memory.

use crate::raw::{AlignedBytes, HostSpan};
use pinfold_hal::DeviceId;
use std::collections::BTreeMap;

/// Device memory begins here, far above every address that a process can have.
const DEVICE_BASE: u64 = 1 << 62;
/// Addresses of one device; blocks never share an address, not even one after the other.
const DEVICE_SPACE_BYTES: u64 = 1 << 52;
/// Alignment of device memory.
const DEVICE_ALIGN_BYTES: u64 = 512;
/// What no block covers between two of them, so that a step over an edge is seen.
const GUARD_BYTES: u64 = 4096;
/// Distance of a host address and its device address where the two differ.
pub(crate) const SPLIT_OFFSET: u64 = 1 << 60;
/// Host addresses are below this. Where memory moves for devices, it moves by multiples of it, as
/// many as fit below twice the distance above.
pub(crate) const HOST_SPACE_BYTES: u64 = 1 << 48;

/// How a range came to be page-locked.
#[derive(Debug)]
pub(crate) enum HostKind {
    /// The driver allocated it, and the simulation owns it. Held for its `Drop`.
    Allocated {
        write_combined: bool,
        _memory: AlignedBytes,
    },
    /// It was registered, maybe for the device to read only.
    Registered { read_only: bool },
}

/// A page-locked range.
#[derive(Debug)]
pub(crate) struct HostRange {
    pub(crate) span: HostSpan,
    pub(crate) kind: HostKind,
    pub(crate) device: DeviceId,
    pub(crate) portable: bool,
    pub(crate) mapped: bool,
    /// What its device addresses are ahead of its host addresses.
    pub(crate) device_offset: u64,
}

impl HostRange {
    pub(crate) fn is_write_combined(&self) -> bool {
        matches!(
            self.kind,
            HostKind::Allocated {
                write_combined: true,
                ..
            }
        )
    }

    /// True where the device must not write: the memory itself may be read-only.
    fn is_read_only(&self) -> bool {
        matches!(self.kind, HostKind::Registered { read_only: true })
    }

    pub(crate) fn describe(&self) -> String {
        let what = match self.kind {
            HostKind::Allocated { .. } => "allocated",
            HostKind::Registered { .. } => "registered",
        };
        format!("{what} {:#x}..{:#x}", self.span.addr(), self.span.end())
    }
}

/// How a range of host memory stands to the page-locked ones.
pub(crate) enum Cover {
    /// Its first byte is not page-locked.
    Pageable,
    /// All of it is, as far as the question allows.
    PageLocked {
        span: HostSpan,
        write_combined: bool,
        read_only: bool,
    },
    /// It starts in page-locked memory and leaves it.
    Leaves(String),
}

/// The page-locked ranges, by their start. No two share a byte.
#[derive(Debug, Default)]
pub(crate) struct HostMap {
    ranges: BTreeMap<usize, HostRange>,
}

impl HostMap {
    pub(crate) fn insert(&mut self, range: HostRange) {
        self.ranges.insert(range.span.addr(), range);
    }

    pub(crate) fn remove(&mut self, start: usize) -> Option<HostRange> {
        self.ranges.remove(&start)
    }

    pub(crate) fn starting_at(&self, start: usize) -> Option<&HostRange> {
        self.ranges.get(&start)
    }

    pub(crate) fn containing(&self, addr: usize) -> Option<&HostRange> {
        let (_, range) = self.ranges.range(..=addr).next_back()?;
        (addr < range.span.end()).then_some(range)
    }

    /// A range that has a byte in common with this one.
    pub(crate) fn overlapping(&self, addr: usize, bytes: usize) -> Option<&HostRange> {
        let (_, range) = self
            .ranges
            .range(..addr.saturating_add(bytes))
            .next_back()?;
        (range.span.end() > addr).then_some(range)
    }

    /// How the range of a copy stands to the page-locked ones: a copy stays in the one that it
    /// starts in, whatever follows (measured on an H200 with driver 580).
    pub(crate) fn cover(&self, addr: usize, bytes: usize) -> Cover {
        self.cover_with(addr, bytes, |_| None)
    }

    /// How the range of a kernel's argument stands to the page-locked ones that the kernel reaches:
    /// it sees one address space, so those that touch are as one.
    pub(crate) fn cover_touching(
        &self,
        addr: usize,
        bytes: usize,
        reaches: impl Fn(&HostRange) -> bool,
    ) -> Cover {
        let next = |end| self.ranges.get(&end).filter(|range| reaches(range));
        self.cover_with(addr, bytes, next)
    }

    /// `next` gives the range that may go on where another one ends.
    fn cover_with<'a>(
        &'a self,
        addr: usize,
        bytes: usize,
        next: impl Fn(usize) -> Option<&'a HostRange>,
    ) -> Cover {
        let Some(first) = self.containing(addr) else {
            return Cover::Pageable;
        };
        let mut joined = first.span;
        let mut read_only = first.is_read_only();
        let end = addr.saturating_add(bytes);
        while joined.end() < end {
            let next = next(joined.end()).and_then(|n| Some((n, joined.join(n.span)?)));
            let Some((next, longer)) = next else {
                return Cover::Leaves(format!(
                    "{addr:#x}..{end:#x} starts in the page-locked range {} and leaves it at {:#x}",
                    first.describe(),
                    joined.end()
                ));
            };
            joined = longer;
            read_only |= next.is_read_only();
        }
        match joined.part(addr - joined.addr(), bytes) {
            Some(span) => Cover::PageLocked {
                span,
                write_combined: first.is_write_combined(),
                read_only,
            },
            None => Cover::Pageable,
        }
    }

    /// Bytes allocated, bytes registered, and number of registrations.
    pub(crate) fn totals(&self) -> (u64, u64, u64) {
        let mut totals = (0, 0, 0);
        for range in self.ranges.values() {
            let bytes = range.span.bytes() as u64;
            match range.kind {
                HostKind::Allocated { .. } => totals.0 += bytes,
                HostKind::Registered { .. } => {
                    totals.1 += bytes;
                    totals.2 += 1;
                }
            }
        }
        totals
    }
}

/// A part of a block of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceSpan {
    pub(crate) block: u64,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl DeviceSpan {
    /// The address of the first byte.
    pub(crate) fn addr(self) -> u64 {
        self.block + self.offset as u64
    }

    /// The address behind the last byte.
    pub(crate) fn end(self) -> u64 {
        self.addr() + self.bytes as u64
    }

    /// `bytes` from `offset` on. The caller stays inside.
    pub(crate) fn part(self, offset: usize, bytes: usize) -> Self {
        DeviceSpan {
            offset: self.offset + offset,
            bytes,
            ..self
        }
    }
}

/// An allocation of device memory.
#[derive(Debug)]
pub(crate) struct DeviceBlock {
    pub(crate) device: DeviceId,
    pub(crate) bytes: u64,
    /// Absent only while a kernel works on it.
    memory: Option<AlignedBytes>,
    /// Nobody has touched it yet, so poison is still to be put in.
    fresh: bool,
}

/// All device memory, by address.
#[derive(Debug, Default)]
pub(crate) struct DeviceMap {
    blocks: BTreeMap<u64, DeviceBlock>,
    /// Addresses used up, by device.
    used: BTreeMap<DeviceId, u64>,
}

impl DeviceMap {
    /// A new block; `None` where the allocator has no memory for it or the addresses are used up.
    pub(crate) fn allocate(&mut self, device: DeviceId, bytes: u64) -> Option<u64> {
        let used = self.used.get(&device).copied().unwrap_or(0);
        let next = used
            .checked_add(bytes.checked_next_multiple_of(DEVICE_ALIGN_BYTES)?)?
            .checked_add(GUARD_BYTES)?;
        if next > DEVICE_SPACE_BYTES {
            return None;
        }
        let memory = AlignedBytes::zeroed(usize::try_from(bytes).ok()?)?;
        self.used.insert(device, next);
        let addr = DEVICE_BASE + u64::from(device.0) * DEVICE_SPACE_BYTES + used;
        let block = DeviceBlock {
            device,
            bytes,
            memory: Some(memory),
            fresh: true,
        };
        self.blocks.insert(addr, block);
        Some(addr)
    }

    pub(crate) fn free(&mut self, addr: u64) -> Option<DeviceBlock> {
        self.blocks.remove(&addr)
    }

    pub(crate) fn get(&self, addr: u64) -> Option<&DeviceBlock> {
        self.blocks.get(&addr)
    }

    /// The block that holds the whole range.
    pub(crate) fn containing(&self, addr: u64, bytes: u64) -> Option<(DeviceSpan, &DeviceBlock)> {
        let (&start, block) = self.blocks.range(..=addr).next_back()?;
        let offset = addr - start;
        let end = offset.checked_add(bytes)?;
        let span = DeviceSpan {
            block: start,
            offset: usize::try_from(offset).ok()?,
            bytes: usize::try_from(bytes).ok()?,
        };
        (end <= block.bytes).then_some((span, block))
    }

    /// The bytes of a span, poisoned before its block's first use.
    pub(crate) fn bytes_mut(&mut self, span: DeviceSpan, poison: Option<u8>) -> Option<&mut [u8]> {
        let block = self.blocks.get_mut(&span.block)?;
        let memory = block.memory.as_mut()?.as_mut_slice();
        if let (true, Some(byte)) = (std::mem::take(&mut block.fresh), poison) {
            memory.fill(byte);
        }
        memory.get_mut(span.offset..span.offset.checked_add(span.bytes)?)
    }

    /// Takes a block's bytes for a kernel to work on; to be put back.
    pub(crate) fn take(&mut self, addr: u64, poison: Option<u8>) -> Option<AlignedBytes> {
        let block = self.blocks.get_mut(&addr)?;
        if let (true, Some(byte)) = (std::mem::take(&mut block.fresh), poison) {
            block.memory.as_mut()?.as_mut_slice().fill(byte);
        }
        block.memory.take()
    }

    pub(crate) fn put_back(&mut self, addr: u64, memory: AlignedBytes) {
        if let Some(block) = self.blocks.get_mut(&addr) {
            block.memory = Some(memory);
        }
    }

    /// Bytes of all devices.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.blocks.values().map(|block| block.bytes).sum()
    }

    /// Bytes of one device.
    pub(crate) fn used_bytes(&self, device: DeviceId) -> u64 {
        let own = self.blocks.values().filter(|block| block.device == device);
        own.map(|block| block.bytes).sum()
    }
}
