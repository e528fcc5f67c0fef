//! Allocation and registration, forwarded.

use super::{Hook, Hooked};
use crate::Call;
use pinfold_hal::{
    DeviceAddr, DeviceId, HostAddr, HostAllocFlags, MemoryOps, RegisterFlags, Result,
};

// SAFETY: all addresses are the inner driver's, which makes the same promise; what a hook refuses
// answers no address.
unsafe impl<H: Hook> MemoryOps for Hooked<H> {
    fn host_alloc(&self, device: DeviceId, bytes: u64, flags: HostAllocFlags) -> Result<HostAddr> {
        self.call(Call::HostAlloc, device, |inner| {
            inner.host_alloc(device, bytes, flags)
        })
    }

    unsafe fn host_free(&self, device: DeviceId, addr: HostAddr) -> Result<()> {
        self.call(Call::HostFree, device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.host_free(device, addr) }
        })
    }

    unsafe fn host_register(
        &self,
        device: DeviceId,
        addr: HostAddr,
        bytes: u64,
        flags: RegisterFlags,
    ) -> Result<()> {
        self.call(Call::HostRegister, device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.host_register(device, addr, bytes, flags) }
        })
    }

    unsafe fn host_unregister(&self, device: DeviceId, addr: HostAddr) -> Result<()> {
        self.call(Call::HostUnregister, device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.host_unregister(device, addr) }
        })
    }

    fn device_address(&self, device: DeviceId, addr: HostAddr) -> Result<DeviceAddr> {
        self.call(Call::DeviceAddress, device, |inner| {
            inner.device_address(device, addr)
        })
    }

    fn device_alloc(&self, device: DeviceId, bytes: u64) -> Result<DeviceAddr> {
        self.call(Call::DeviceAlloc, device, |inner| {
            inner.device_alloc(device, bytes)
        })
    }

    unsafe fn device_free(&self, device: DeviceId, addr: DeviceAddr) -> Result<()> {
        self.call(Call::DeviceFree, device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.device_free(device, addr) }
        })
    }
}
