//! The plain allocator: every request goes to the driver or the system, every release gives it
//! back.

use super::source::{BlockSource, Origin, RawBlock};
use crate::device::Device;
use crate::error::{Error, Result};
use pinfold_hal::{
    DeviceAddr, DeviceId, DriverError, ErrorCode, HostAddr, HostAllocFlags, RegisterFlags,
};
use pinfold_model::MemoryKind;
use smallvec::SmallVec;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::panic::Location;

/// Takes memory for a set of devices straight from driver and system.
pub(super) struct PlainSource {
    devices: Vec<Device>,
}

/// Page-locked memory comes in pages of this size.
const PAGE_BYTES: u64 = 4096;
/// Memory that is page-locked in pieces is aligned to huge pages.
const PIECE_ALIGN_BYTES: u64 = 2 << 20;
/// A single registration is at most this long: larger ones fail on real drivers.
const PIECE_BYTES_MAX: u64 = 64 << 30;
/// Smaller pieces than this are not tried.
const PIECE_BYTES_MIN: u64 = 4 << 20;

impl PlainSource {
    pub(super) fn new(devices: &[Device]) -> Self {
        PlainSource {
            devices: devices.to_vec(),
        }
    }

    fn first(&self) -> &Device {
        &self.devices[0]
    }

    fn portable(&self) -> bool {
        self.devices.len() > 1
    }

    /// The device addresses of page-locked memory on every device of the set.
    fn device_addrs(
        &self,
        host: HostAddr,
    ) -> Result<SmallVec<[(DeviceId, DeviceAddr); 1]>, DriverError> {
        let addr = |d: &Device| Ok((d.id(), d.driver().device_address(d.id(), host)?));
        self.devices.iter().map(addr).collect()
    }

    fn driver_block(&self, kind: MemoryKind, bytes: u64) -> Result<RawBlock, DriverError> {
        let mapped = is_mapped(kind);
        let flags = HostAllocFlags {
            portable: self.portable(),
            mapped,
            write_combined: is_write_combined(kind),
        };
        let device = self.first();
        let host = device.driver().host_alloc(device.id(), bytes, flags)?;
        let known = if mapped {
            self.device_addrs(host)
        } else {
            Ok(SmallVec::new())
        };
        let block = RawBlock {
            origin: Origin::Driver,
            host: Some(host),
            device: SmallVec::new(),
            bytes,
            held_bytes: bytes.next_multiple_of(PAGE_BYTES),
            kind,
            keep: None,
        };
        match known {
            Ok(device) => Ok(RawBlock { device, ..block }),
            Err(error) => {
                self.release(block);
                Err(error)
            }
        }
    }

    /// Registers system memory piece by piece, and undoes all of it when one fails.
    fn register_pieces(
        &self,
        host: HostAddr,
        bytes: u64,
        piece_bytes: u64,
        mapped: bool,
    ) -> Result<Vec<HostAddr>, DriverError> {
        let device = self.first();
        let flags = RegisterFlags {
            portable: self.portable(),
            mapped,
            read_only: false,
        };
        let mut starts = Vec::new();
        let mut offset = 0;
        while offset < bytes {
            let piece = host.offset(offset);
            let length = piece_bytes.min(bytes - offset);
            // SAFETY: the range lies in memory that was allocated for this block, and is
            // unregistered before that is freed.
            let outcome = unsafe {
                device
                    .driver()
                    .host_register(device.id(), piece, length, flags)
            };
            if let Err(error) = outcome {
                self.unregister(&starts);
                return Err(error);
            }
            starts.push(piece);
            offset += length;
        }
        Ok(starts)
    }

    /// True where the driver let go of every piece.
    fn unregister(&self, starts: &[HostAddr]) -> bool {
        let device = self.first();
        let one = |piece: &HostAddr| {
            // SAFETY: the piece was registered by this source, and no device uses it any more.
            unsafe { device.driver().host_unregister(device.id(), *piece) }.is_ok()
        };
        // Every piece, also after a failure.
        starts.iter().filter(|piece| !one(piece)).count() == 0
    }

    /// The device addresses of pieces, where they lie side by side for every device.
    fn pieces_in_line(
        &self,
        starts: &[HostAddr],
    ) -> Result<SmallVec<[(DeviceId, DeviceAddr); 1]>, DriverError> {
        let Some(first) = starts.first() else {
            return Ok(SmallVec::new());
        };
        let base = self.device_addrs(*first)?;
        for piece in starts {
            let offset = (piece.0 - first.0) as u64;
            let here = self.device_addrs(*piece)?;
            if here
                .iter()
                .zip(&base)
                .any(|(h, b)| h.1 != b.1.offset(offset))
            {
                return Err(DriverError::with_detail(
                    ErrorCode::NotSupported,
                    "cuMemHostGetDevicePointer",
                    "the pieces are not side by side for the device",
                ));
            }
        }
        Ok(base)
    }
}

impl BlockSource for PlainSource {
    fn acquire_host(
        &self,
        kind: MemoryKind,
        bytes: u64,
        _reclaim: &dyn Fn(),
    ) -> Result<RawBlock, DriverError> {
        if kind != MemoryKind::Pageable {
            return self.driver_block(kind, bytes);
        }
        let held_bytes = bytes.next_multiple_of(PAGE_BYTES);
        let host = system_alloc(held_bytes, PAGE_BYTES)?;
        Ok(RawBlock {
            origin: Origin::System,
            host: Some(host),
            device: SmallVec::new(),
            bytes,
            held_bytes,
            kind,
            keep: None,
        })
    }

    fn acquire_host_in_pieces(
        &self,
        kind: MemoryKind,
        bytes: u64,
    ) -> Result<RawBlock, DriverError> {
        if bytes < 2 * PIECE_BYTES_MIN {
            return Err(DriverError::with_detail(
                ErrorCode::OutOfMemory,
                "cuMemHostRegister",
                "too small to be cut into pieces",
            ));
        }
        let held_bytes = bytes.next_multiple_of(PIECE_ALIGN_BYTES);
        let host = system_alloc(held_bytes, PIECE_ALIGN_BYTES)?;
        let mapped = is_mapped(kind);
        let piece_bytes = (held_bytes / 8)
            .clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
            .next_multiple_of(PIECE_ALIGN_BYTES);
        let registered = self.register_pieces(host, held_bytes, piece_bytes, mapped);
        let starts = match registered {
            Ok(starts) => starts,
            Err(error) => {
                system_free(host, held_bytes, PIECE_ALIGN_BYTES);
                return Err(error);
            }
        };
        let known = if mapped {
            self.pieces_in_line(&starts)
        } else {
            Ok(SmallVec::new())
        };
        let block = RawBlock {
            origin: Origin::Pieces(starts),
            host: Some(host),
            device: SmallVec::new(),
            bytes,
            held_bytes,
            kind,
            keep: None,
        };
        match known {
            Ok(device) => Ok(RawBlock { device, ..block }),
            Err(error) => {
                self.release(block);
                Err(error)
            }
        }
    }

    fn acquire_device(
        &self,
        device: &Device,
        bytes: u64,
        site: &'static Location<'static>,
    ) -> Result<RawBlock> {
        if bytes == 0 {
            return Ok(RawBlock::empty(MemoryKind::Device));
        }
        let addr = match device.driver().device_alloc(device.id(), bytes) {
            Ok(addr) => addr,
            Err(e) if e.code == ErrorCode::OutOfMemory => {
                let (free_bytes, total_bytes) = device.memory_bytes()?;
                let device = device.name().to_owned();
                return Err(Error::DeviceMemory {
                    device,
                    bytes,
                    free_bytes,
                    total_bytes,
                    site,
                });
            }
            Err(e) => return Err(Error::driver("getting device memory")(e)),
        };
        Ok(RawBlock {
            origin: Origin::Device(addr),
            host: None,
            device: SmallVec::from_elem((device.id(), addr), 1),
            bytes,
            held_bytes: bytes,
            kind: MemoryKind::Device,
            keep: None,
        })
    }

    fn release(&self, block: RawBlock) {
        let device = self.first();
        match (&block.origin, block.host) {
            (Origin::System, Some(host)) => system_free(host, block.held_bytes, PAGE_BYTES),
            (Origin::Driver, Some(host)) => {
                // SAFETY: the memory came from `host_alloc`, and no host or device uses it any
                // more. On failure it stays allocated: leaked, never used twice.
                let _ = unsafe { device.driver().host_free(device.id(), host) };
            }
            // Memory that the driver does not let go of must never be unmapped.
            (Origin::Pieces(starts), Some(host)) if self.unregister(starts) => {
                system_free(host, block.held_bytes, PIECE_ALIGN_BYTES);
            }
            (Origin::Registered, Some(host)) => {
                // On failure the owner is kept for ever, which is all that can be done here.
                let _ = super::register::unregister(device, host, block.keep);
            }
            (Origin::Device(addr), _) => {
                let id = block.device.first().map_or(device.id(), |(id, _)| *id);
                // SAFETY: the memory came from `device_alloc` on that device and nothing uses it
                // any more. On failure it stays allocated.
                let _ = unsafe { device.driver().device_free(id, *addr) };
            }
            _ => {}
        }
    }
}

pub(super) fn is_mapped(kind: MemoryKind) -> bool {
    matches!(kind, MemoryKind::Mapped | MemoryKind::MappedWriteCombined)
}

pub(super) fn is_write_combined(kind: MemoryKind) -> bool {
    matches!(
        kind,
        MemoryKind::WriteCombined | MemoryKind::MappedWriteCombined
    )
}

/// Zeroed memory from the system.
fn system_alloc(bytes: u64, align: u64) -> Result<HostAddr, DriverError> {
    let no_memory = || {
        DriverError::with_detail(
            ErrorCode::OutOfMemory,
            "alloc",
            "the system has no such memory",
        )
    };
    let layout =
        Layout::from_size_align(bytes as usize, align as usize).map_err(|_| no_memory())?;
    // SAFETY: the layout is not empty: sources are never asked for zero bytes.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        Err(no_memory())
    } else {
        Ok(HostAddr(start.expose_provenance()))
    }
}

/// Frees memory from [`system_alloc`] with the same size and alignment.
fn system_free(host: HostAddr, bytes: u64, align: u64) {
    if let Ok(layout) = Layout::from_size_align(bytes as usize, align as usize) {
        // SAFETY: the block came from `system_alloc` with this very layout, its only holder gives
        // it up, and it is not registered.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(host.0), layout) };
    }
}
