//! Host memory of every kind that a copy can start from or end in.

use crate::failure::{Check, Failure, ensure};
use crate::fixture::{Context, DeviceMemory};
use pinfold_hal::{DeviceAddr, HostAddr, HostAllocFlags, RegisterFlags, StreamId};
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// The page size that the contract speaks of.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Registered memory starts so far into its allocation, so that nothing rests on page alignment.
const UNALIGNED_BYTES: usize = 24;

/// A kind of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What any allocator gives.
    Pageable,
    /// `host_alloc` without flags.
    Pinned,
    /// `host_alloc`, write-combined: not to be read by the host.
    WriteCombined,
    /// `host_alloc`, mapped.
    Mapped,
    /// Ordinary memory, registered and mapped, at an odd place.
    Registered,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Kind; 5] = [
        Kind::Pageable,
        Kind::Pinned,
        Kind::WriteCombined,
        Kind::Mapped,
        Kind::Registered,
    ];
}

enum Origin {
    Heap {
        base: *mut u8,
        layout: Layout,
        registered: bool,
    },
    Driver,
}

/// Host memory that is released when it drops, after all work of the device.
pub(crate) struct HostMemory<'a> {
    context: &'a Context,
    pub(crate) addr: HostAddr,
    pub(crate) bytes: u64,
    origin: Origin,
}

impl Context {
    /// Host memory of a kind, with a promise to have it on all devices where that is asked for.
    pub(crate) fn host(&self, kind: Kind, bytes: u64) -> Check<HostMemory<'_>> {
        let flags = HostAllocFlags {
            mapped: kind == Kind::Mapped,
            write_combined: kind == Kind::WriteCombined,
            ..HostAllocFlags::default()
        };
        match kind {
            Kind::Pageable => self.heap(bytes, 0),
            Kind::Registered => {
                let mut memory = self.heap(bytes, UNALIGNED_BYTES)?;
                let mapped = RegisterFlags {
                    mapped: true,
                    ..RegisterFlags::default()
                };
                memory.register(mapped)?;
                Ok(memory)
            }
            Kind::Pinned | Kind::WriteCombined | Kind::Mapped => self.pinned(bytes, flags),
        }
    }

    /// Memory of `host_alloc`.
    pub(crate) fn pinned(&self, bytes: u64, flags: HostAllocFlags) -> Check<HostMemory<'_>> {
        let addr = self.driver.host_alloc(self.device, bytes, flags)?;
        Ok(HostMemory {
            context: self,
            addr,
            bytes,
            origin: Origin::Driver,
        })
    }

    /// Ordinary memory, zeroed, so many bytes after the start of a page.
    pub(crate) fn heap(&self, bytes: u64, skip: usize) -> Check<HostMemory<'_>> {
        let size = bytes as usize + skip;
        let layout = Layout::from_size_align(size.max(1), PAGE_BYTES as usize)
            .map_err(|e| Failure::new(e.to_string()))?;
        // SAFETY: the layout has at least one byte.
        let base = unsafe { alloc_zeroed(layout) };
        ensure(!base.is_null(), || format!("no memory for {size} bytes"))?;
        Ok(HostMemory {
            context: self,
            addr: HostAddr(base.expose_provenance() + skip),
            bytes,
            origin: Origin::Heap {
                base,
                layout,
                registered: false,
            },
        })
    }
}

/// A registered range of somebody's memory, unregistered when it drops.
pub(crate) struct Registration<'a> {
    context: &'a Context,
    addr: HostAddr,
}

impl Context {
    /// Registers a range of memory that the caller holds longer than the guard.
    pub(crate) fn register(
        &self,
        addr: HostAddr,
        bytes: u64,
        flags: RegisterFlags,
    ) -> pinfold_hal::Result<Registration<'_>> {
        // SAFETY: the caller holds the memory longer than the guard.
        unsafe { self.driver.host_register(self.device, addr, bytes, flags) }?;
        Ok(Registration {
            context: self,
            addr,
        })
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let context = self.context;
        context.settle();
        // SAFETY: all work of the device is done.
        let result = unsafe { context.driver.host_unregister(context.device, self.addr) };
        context.released("a registration", result);
    }
}

impl HostMemory<'_> {
    /// Registers heap memory; it is unregistered when it drops.
    #[track_caller]
    pub(crate) fn register(&mut self, flags: RegisterFlags) -> Check<()> {
        let (driver, device) = (&self.context.driver, self.context.device);
        if let Origin::Heap { registered, .. } = &mut self.origin {
            // SAFETY: the range is inside this allocation, which is freed after it is unregistered.
            unsafe { driver.host_register(device, self.addr, self.bytes, flags) }?;
            *registered = true;
        }
        Ok(())
    }

    /// Undoes `register`.
    #[track_caller]
    pub(crate) fn unregister(&mut self) -> Check<()> {
        let (driver, device) = (&self.context.driver, self.context.device);
        if let Origin::Heap { registered, .. } = &mut self.origin {
            // SAFETY: the tests wait for their work before they call this.
            unsafe { driver.host_unregister(device, self.addr) }?;
            *registered = false;
        }
        Ok(())
    }

    /// The address of a range, which is checked to be inside.
    #[track_caller]
    pub(crate) fn range(&self, offset: u64, bytes: u64) -> Check<HostAddr> {
        let end = offset.checked_add(bytes);
        ensure(end.is_some_and(|end| end <= self.bytes), || {
            format!("{bytes} bytes at {offset} of {} host bytes", self.bytes)
        })?;
        Ok(self.addr.offset(offset))
    }

    /// The host writes. No operation in flight may use the range.
    #[track_caller]
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Check<()> {
        let to = self.range(offset, bytes.len() as u64)?;
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to.0);
        // SAFETY: the range is inside live memory, and `bytes` is memory of Rust's, so no overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// The host reads. No operation in flight may write the range.
    #[track_caller]
    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Check<Vec<u8>> {
        let from = self.range(offset, bytes)?;
        let from: *const u8 = std::ptr::with_exposed_provenance(from.0);
        let mut read = vec![0; bytes as usize];
        // SAFETY: the range is inside live, initialised memory, and `read` is new, so no overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, read.as_mut_ptr(), read.len()) };
        Ok(read)
    }

    /// All bytes.
    #[track_caller]
    pub(crate) fn contents(&self) -> Check<Vec<u8>> {
        self.read(0, self.bytes)
    }

    /// Enqueues a copy to device memory.
    #[track_caller]
    pub(crate) fn upload(
        &self,
        stream: StreamId,
        offset: u64,
        to: &DeviceMemory<'_>,
        to_offset: u64,
        bytes: u64,
    ) -> Check<()> {
        let from = self.range(offset, bytes)?;
        let to = to.range(to_offset, bytes)?;
        // SAFETY: both ranges are inside allocations of guards, which are freed after all work.
        unsafe { self.context.driver.copy_to_device(stream, to, from, bytes) }?;
        Ok(())
    }

    /// Enqueues a copy from device memory.
    #[track_caller]
    pub(crate) fn download(
        &self,
        stream: StreamId,
        offset: u64,
        from: &DeviceMemory<'_>,
        from_offset: u64,
        bytes: u64,
    ) -> Check<()> {
        let to = self.range(offset, bytes)?;
        let from = from.range(from_offset, bytes)?;
        // SAFETY: both ranges are inside allocations of guards, which are freed after all work.
        unsafe { self.context.driver.copy_to_host(stream, to, from, bytes) }?;
        Ok(())
    }

    /// The address for kernels.
    #[track_caller]
    pub(crate) fn device_address(&self) -> Check<DeviceAddr> {
        let context = self.context;
        Ok(context.driver.device_address(context.device, self.addr)?)
    }
}

impl Drop for HostMemory<'_> {
    fn drop(&mut self) {
        self.context.settle();
        let (driver, device) = (&self.context.driver, self.context.device);
        match self.origin {
            Origin::Driver => {
                // SAFETY: made by `host_alloc`; all work of the device is done.
                let result = unsafe { driver.host_free(device, self.addr) };
                self.context.released("page-locked memory", result);
            }
            Origin::Heap {
                base,
                layout,
                registered,
            } => {
                if registered {
                    // SAFETY: all work of the device is done.
                    let result = unsafe { driver.host_unregister(device, self.addr) };
                    if result.is_err() {
                        // Still page-locked as far as the driver tells: it must not be reused.
                        self.context.released("a registration", result);
                        return;
                    }
                }
                // SAFETY: made by `alloc_zeroed` with this layout.
                unsafe { dealloc(base, layout) };
            }
        }
    }
}
