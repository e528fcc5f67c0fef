//! The plain allocator: every request goes to the driver or the system, every release gives it
//! back.

use super::source::{BlockSource, Origin, RawBlock, Refusal};
use crate::device::Device;
use crate::error::{Error, Result};
use pinfold_hal::{DeviceAddr, DeviceId, DriverError, ErrorCode, HostAddr, HostAllocFlags};
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
        let mut block = RawBlock {
            origin: Origin::Driver,
            host: Some(host),
            device: SmallVec::new(),
            bytes,
            held_bytes: bytes.next_multiple_of(PAGE_BYTES),
            is_cut: false,
            kind,
            keep: None,
            pin: None,
        };
        match known {
            Ok(device) => Ok(RawBlock { device, ..block }),
            Err(error) => {
                self.release(&mut block);
                Err(error)
            }
        }
    }
}

impl BlockSource for PlainSource {
    fn acquire_host(
        &self,
        kind: MemoryKind,
        _near: u32,
        bytes: u64,
        _reclaim: &dyn Fn(),
    ) -> Result<RawBlock, Refusal> {
        if kind != MemoryKind::Pageable {
            return Ok(self.driver_block(kind, bytes)?);
        }
        let held_bytes = bytes.next_multiple_of(PAGE_BYTES);
        let host = system_alloc(held_bytes)?;
        Ok(RawBlock {
            origin: Origin::System,
            host: Some(host),
            device: SmallVec::new(),
            bytes,
            held_bytes,
            is_cut: false,
            kind,
            keep: None,
            pin: None,
        })
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
            is_cut: false,
            kind: MemoryKind::Device,
            keep: None,
            pin: None,
        })
    }

    fn release(&self, block: &mut RawBlock) -> bool {
        let device = self.first();
        match (&block.origin, block.host) {
            (Origin::System, Some(host)) => {
                system_free(host, block.held_bytes);
                true
            }
            (Origin::Driver, Some(host)) => {
                // SAFETY: the memory came from `host_alloc`, and no host or device uses it any
                // more. On failure it stays allocated: leaked, never used twice.
                unsafe { device.driver().host_free(device.id(), host) }.is_ok()
            }
            (Origin::Registered(_), _) => {
                // On failure the owner is kept for ever, which is all that can be done here.
                super::register::unregister(device, block).is_ok()
            }
            (Origin::Device(addr), _) => {
                let id = block.device.first().map_or(device.id(), |(id, _)| *id);
                // SAFETY: the memory came from `device_alloc` on that device and nothing uses it
                // any more. On failure it stays allocated.
                unsafe { device.driver().device_free(id, *addr) }.is_ok()
            }
            _ => true,
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

/// Zeroed whole pages from the system.
fn system_alloc(bytes: u64) -> Result<HostAddr, DriverError> {
    let no_memory = || {
        let what = "the system has no such memory";
        DriverError::with_detail(ErrorCode::OutOfMemory, "alloc", what)
    };
    let layout = page_layout(bytes).ok_or_else(no_memory)?;
    // SAFETY: the layout is not empty: sources are never asked for zero bytes.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        Err(no_memory())
    } else {
        Ok(HostAddr(start.expose_provenance()))
    }
}

/// Frees memory from [`system_alloc`] of the same size.
fn system_free(host: HostAddr, bytes: u64) {
    if let Some(layout) = page_layout(bytes) {
        // SAFETY: the block came from `system_alloc` with this very layout, its only holder gives
        // it up, and it is not registered.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(host.0), layout) };
    }
}

fn page_layout(bytes: u64) -> Option<Layout> {
    Layout::from_size_align(bytes as usize, PAGE_BYTES as usize).ok()
}
