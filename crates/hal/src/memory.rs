//! Memory: page-locked allocation, registration of existing memory, device memory.

use crate::{DeviceId, Result};
use serde::Serialize;
use std::fmt;

/// An address in this process's own memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostAddr(pub usize);

/// An address that a kernel may be given. Not an address of this process, even if the number is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceAddr(pub u64);

impl HostAddr {
    /// The address `bytes` further on. Wraps on overflow, which no valid range reaches.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        HostAddr(self.0.wrapping_add(bytes as usize))
    }
}

impl DeviceAddr {
    /// The address `bytes` further on. Wraps on overflow, which no valid range reaches.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        DeviceAddr(self.0.wrapping_add(bytes))
    }
}

impl fmt::Debug for HostAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {:#x}", self.0)
    }
}

impl fmt::Debug for DeviceAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {:#x}", self.0)
    }
}

/// How to allocate page-locked memory (`cuMemHostAlloc`). The default has no flag set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct HostAllocFlags {
    /// Page-locked for every context, not only the current one.
    pub portable: bool,
    /// Mapped for kernels.
    pub mapped: bool,
    /// Write-combined: fast for the host to write in order, very slow to read where it is real.
    pub write_combined: bool,
}

/// How to register existing memory (`cuMemHostRegister`). The default has no flag set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct RegisterFlags {
    /// Page-locked for every context, not only the current one.
    pub portable: bool,
    /// Mapped for kernels.
    pub mapped: bool,
    /// The device will only read: needed for read-only mappings.
    pub read_only: bool,
}

/// Allocation and registration.
///
/// # Safety
/// Callers dereference what an implementation returns, so it promises:
///
/// * The range that [`host_alloc`](Self::host_alloc) answers is memory of this process,
///   page-aligned, initialised, readable and writable, `bytes` long, with exposed provenance. It
///   overlaps no other live memory, and stays so until it is freed, the device is closed for the
///   last time, or the backend is dropped. Nothing but enqueued operations touches it meanwhile.
/// * The range that [`device_alloc`](Self::device_alloc) answers is device memory of that size that
///   overlaps no other, for as long.
/// * An address of [`device_address`](Self::device_address) stands for the host memory that was
///   asked about, and for no other.
/// * A registration leaves contents, address and access rights of the memory as they are.
pub unsafe trait MemoryOps {
    /// Allocates page-locked host memory, page-aligned, readable and writable by the host. What it
    /// holds is not specified: real drivers give memory out again as it was.
    ///
    /// # Errors
    /// `OutOfMemory`, `InvalidValue` for zero bytes, `InvalidContext` where the device is not open.
    fn host_alloc(&self, device: DeviceId, bytes: u64, flags: HostAllocFlags) -> Result<HostAddr>;

    /// Frees memory from [`host_alloc`](Self::host_alloc).
    ///
    /// # Safety
    /// `addr` came from `host_alloc` of this backend and was not freed since; no operation in
    /// flight uses the range, and the host holds no reference into it.
    unsafe fn host_free(&self, device: DeviceId, addr: HostAddr) -> Result<()>;

    /// Page-locks `bytes` of existing memory in place. The driver pins whole pages around the
    /// range; two ranges may share one, as long as they share no byte (measured on driver 580).
    ///
    /// # Errors
    /// `InvalidValue` for zero bytes, for memory of [`host_alloc`](Self::host_alloc), and for a
    /// read-only mapping without `read_only`; `HostMemoryAlreadyRegistered` where a byte of the
    /// range is registered already; `OutOfMemory`, `NotSupported`.
    ///
    /// # Safety
    /// The range is valid memory of this process and stays mapped until it is unregistered.
    unsafe fn host_register(
        &self,
        device: DeviceId,
        addr: HostAddr,
        bytes: u64,
        flags: RegisterFlags,
    ) -> Result<()>;

    /// Undoes [`host_register`](Self::host_register). `addr` is the start of the registered range.
    ///
    /// # Errors
    /// `HostMemoryNotRegistered` for an address that starts no registration, `InvalidValue` for one
    /// inside a registration.
    ///
    /// # Safety
    /// No operation in flight uses the range.
    unsafe fn host_unregister(&self, device: DeviceId, addr: HostAddr) -> Result<()>;

    /// The device address of mapped host memory, which may be inside an allocation.
    ///
    /// # Errors
    /// `InvalidValue` where the address is in no page-locked memory that the device can reach.
    fn device_address(&self, device: DeviceId, addr: HostAddr) -> Result<DeviceAddr>;

    /// Allocates device memory, aligned to at least 256 bytes.
    ///
    /// # Errors
    /// `OutOfMemory`, `InvalidValue` for zero bytes.
    fn device_alloc(&self, device: DeviceId, bytes: u64) -> Result<DeviceAddr>;

    /// Frees memory from [`device_alloc`](Self::device_alloc).
    ///
    /// # Safety
    /// `addr` came from `device_alloc` on this device and was not freed since; no operation in
    /// flight uses the range.
    unsafe fn device_free(&self, device: DeviceId, addr: DeviceAddr) -> Result<()>;
}
