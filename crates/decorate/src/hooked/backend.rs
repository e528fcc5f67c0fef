//! The machine, forwarded.

use super::{Hook, Hooked};
use crate::Call;
use pinfold_hal::{BackendInfo, BackendOps, DeviceId, DeviceInfo, Hazard, HostWork, Result};

impl<H: Hook> BackendOps for Hooked<H> {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn device_count(&self) -> Result<u32> {
        self.call_any(Call::DeviceCount, None, |inner| inner.device_count())
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo> {
        self.call(Call::DeviceInfo, device, |inner| inner.device_info(device))
    }

    fn open(&self, device: DeviceId) -> Result<()> {
        self.call(Call::Open, device, |inner| inner.open(device))
    }

    unsafe fn close(&self, device: DeviceId) -> Result<()> {
        self.call(Call::Close, device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.close(device) }
        })
    }

    fn device_memory(&self, device: DeviceId) -> Result<(u64, u64)> {
        self.call(Call::DeviceMemory, device, |inner| {
            inner.device_memory(device)
        })
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn host_work(&self, work: HostWork) {
        self.inner.host_work(work);
    }

    fn pause(&self) {
        self.inner.pause();
    }

    fn hazards(&self) -> Vec<Hazard> {
        self.inner.hazards()
    }
}
