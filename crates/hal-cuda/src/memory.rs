//! Page-locked allocation, registration of existing memory, device memory.

use crate::context::{Cuda, call};
use crate::error::size;
use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_WRITECOMBINED,
    CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_READ_ONLY,
};
use pinfold_hal::{
    DeviceAddr, DeviceId, DriverError, ErrorCode, HostAddr, HostAllocFlags, MemoryOps,
    RegisterFlags, Result,
};
use std::ffi::c_uint;

/// The bits for `cuMemHostAlloc`.
fn alloc_bits(flags: HostAllocFlags) -> c_uint {
    let mut bits = 0;
    if flags.portable {
        bits |= CU_MEMHOSTALLOC_PORTABLE;
    }
    if flags.mapped {
        bits |= CU_MEMHOSTALLOC_DEVICEMAP;
    }
    if flags.write_combined {
        bits |= CU_MEMHOSTALLOC_WRITECOMBINED;
    }
    bits
}

/// The bits for `cuMemHostRegister`.
fn register_bits(flags: RegisterFlags) -> c_uint {
    let mut bits = 0;
    if flags.portable {
        bits |= CU_MEMHOSTREGISTER_PORTABLE;
    }
    if flags.mapped {
        bits |= CU_MEMHOSTREGISTER_DEVICEMAP;
    }
    if flags.read_only {
        bits |= CU_MEMHOSTREGISTER_READ_ONLY;
    }
    bits
}

// SAFETY: all addresses come from the driver, which makes these promises: `cuMemHostAlloc` answers
// pages of this process that the system has zeroed or the driver has used before, and their
// provenance is exposed; nothing here changes an address, and only enqueued work touches memory.
unsafe impl MemoryOps for Cuda {
    fn host_alloc(&self, device: DeviceId, bytes: u64, flags: HostAllocFlags) -> Result<HostAddr> {
        let at = self.enter(device)?;
        let bytes = size(bytes, "cuMemHostAlloc")?;
        if bytes == 0 {
            // The driver takes zero for an answer, unlike `cuMemAlloc`; the contract does not.
            return Err(DriverError::new(ErrorCode::InvalidValue, "cuMemHostAlloc"));
        }
        let mut addr = std::ptr::null_mut();
        // SAFETY: `addr` is valid for the write.
        unsafe { call!(at, cuMemHostAlloc(&mut addr, bytes, alloc_bits(flags))) }?;
        Ok(HostAddr(addr.expose_provenance()))
    }

    unsafe fn host_free(&self, device: DeviceId, addr: HostAddr) -> Result<()> {
        let at = self.enter(device)?;
        // SAFETY: the caller promises that this is an allocation that nobody uses.
        unsafe {
            call!(
                at,
                cuMemFreeHost(std::ptr::with_exposed_provenance_mut(addr.0))
            )
        }
    }

    unsafe fn host_register(
        &self,
        device: DeviceId,
        addr: HostAddr,
        bytes: u64,
        flags: RegisterFlags,
    ) -> Result<()> {
        let at = self.enter(device)?;
        let bytes = size(bytes, "cuMemHostRegister_v2")?;
        let start = std::ptr::with_exposed_provenance_mut(addr.0);
        // SAFETY: the caller promises a valid range that stays mapped.
        unsafe { call!(at, cuMemHostRegister_v2(start, bytes, register_bits(flags))) }
    }

    unsafe fn host_unregister(&self, device: DeviceId, addr: HostAddr) -> Result<()> {
        let at = self.enter(device)?;
        // SAFETY: the caller promises that no operation uses the range; an address that starts no
        // registration is refused by the driver.
        unsafe {
            call!(
                at,
                cuMemHostUnregister(std::ptr::with_exposed_provenance_mut(addr.0))
            )
        }
    }

    fn device_address(&self, device: DeviceId, addr: HostAddr) -> Result<DeviceAddr> {
        let at = self.enter(device)?;
        let start = std::ptr::with_exposed_provenance_mut(addr.0);
        let mut found = 0;
        // SAFETY: `found` is valid for the write; the driver looks the address up and does not
        // follow it.
        unsafe { call!(at, cuMemHostGetDevicePointer_v2(&mut found, start, 0)) }?;
        Ok(DeviceAddr(found))
    }

    fn device_alloc(&self, device: DeviceId, bytes: u64) -> Result<DeviceAddr> {
        let at = self.enter(device)?;
        let bytes = size(bytes, "cuMemAlloc_v2")?;
        let mut addr = 0;
        // SAFETY: `addr` is valid for the write.
        unsafe { call!(at, cuMemAlloc_v2(&mut addr, bytes)) }?;
        Ok(DeviceAddr(addr))
    }

    unsafe fn device_free(&self, device: DeviceId, addr: DeviceAddr) -> Result<()> {
        let at = self.enter(device)?;
        // SAFETY: the caller promises that this is an allocation that nobody uses.
        unsafe { call!(at, cuMemFree_v2(addr.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_cudas_bits() {
        assert_eq!(alloc_bits(HostAllocFlags::default()), 0);
        let all = HostAllocFlags {
            portable: true,
            mapped: true,
            write_combined: true,
        };
        assert_eq!(alloc_bits(all), 0x1 | 0x2 | 0x4);
        assert_eq!(register_bits(RegisterFlags::default()), 0);
        let all = RegisterFlags {
            portable: true,
            mapped: true,
            read_only: true,
        };
        assert_eq!(register_bits(all), 0x1 | 0x2 | 0x8);
    }
}
