//! Queues, copies and callbacks, forwarded.

use super::{Hook, Hooked};
use crate::Call;
use pinfold_hal::{
    DeviceAddr, DeviceId, HostAddr, HostCallback, Result, StreamId, StreamKind, StreamOps,
};

impl<H: Hook> StreamOps for Hooked<H> {
    fn stream_create(&self, device: DeviceId, kind: StreamKind) -> Result<StreamId> {
        self.call(Call::StreamCreate, device, |inner| {
            inner.stream_create(device, kind)
        })
    }

    fn default_stream(&self, device: DeviceId) -> StreamId {
        self.inner.default_stream(device)
    }

    unsafe fn stream_adopt(&self, device: DeviceId, raw: u64) -> Result<StreamId> {
        self.call(Call::StreamAdopt, device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.stream_adopt(device, raw) }
        })
    }

    unsafe fn stream_destroy(&self, stream: StreamId) -> Result<()> {
        self.call(Call::StreamDestroy, stream.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.stream_destroy(stream) }
        })
    }

    fn stream_query(&self, stream: StreamId) -> Result<bool> {
        self.call(Call::StreamQuery, stream.device, |inner| {
            inner.stream_query(stream)
        })
    }

    fn stream_synchronize(&self, stream: StreamId) -> Result<()> {
        self.call(Call::StreamSynchronize, stream.device, |inner| {
            inner.stream_synchronize(stream)
        })
    }

    fn device_synchronize(&self, device: DeviceId) -> Result<()> {
        self.call(Call::DeviceSynchronize, device, |inner| {
            inner.device_synchronize(device)
        })
    }

    unsafe fn copy_to_device(
        &self,
        stream: StreamId,
        to: DeviceAddr,
        from: HostAddr,
        bytes: u64,
    ) -> Result<()> {
        self.call(Call::CopyToDevice, stream.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.copy_to_device(stream, to, from, bytes) }
        })
    }

    unsafe fn copy_to_host(
        &self,
        stream: StreamId,
        to: HostAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<()> {
        self.call(Call::CopyToHost, stream.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.copy_to_host(stream, to, from, bytes) }
        })
    }

    unsafe fn copy_on_device(
        &self,
        stream: StreamId,
        to: DeviceAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<()> {
        self.call(Call::CopyOnDevice, stream.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.copy_on_device(stream, to, from, bytes) }
        })
    }

    unsafe fn fill(&self, stream: StreamId, to: DeviceAddr, byte: u8, bytes: u64) -> Result<()> {
        self.call(Call::Fill, stream.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.fill(stream, to, byte, bytes) }
        })
    }

    fn host_callback(&self, stream: StreamId, callback: HostCallback) -> Result<()> {
        self.call(Call::HostCallback, stream.device, |inner| {
            inner.host_callback(stream, callback)
        })
    }
}
