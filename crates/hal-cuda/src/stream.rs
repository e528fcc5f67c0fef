//! Streams, copies and host callbacks.

use crate::callback;
use crate::context::{Cuda, Current, call, call_optional};
use crate::error::size;
use cudarc::driver::sys::{
    CUdeviceptr, CUmemorytype, CUpointer_attribute, CUstream, CUstream_flags,
};
use pinfold_hal::{
    CaptureStatus, DeviceAddr, DeviceId, DriverError, ErrorCode, GraphOps, HostAddr, HostCallback,
    Result, StreamId, StreamKind, StreamOps,
};
use std::ffi::c_uint;
use std::ptr;

/// The handle that means the legacy default stream of the current context (`CU_STREAM_LEGACY`).
const LEGACY: u64 = 1;

/// The driver's handle of a stream.
pub(crate) fn handle(stream: StreamId) -> CUstream {
    ptr::with_exposed_provenance_mut(stream.raw as usize)
}

/// What `cuStreamQuery` and `cuEventQuery` mean: `NotReady` is no failure.
pub(crate) fn ready(result: Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.code == ErrorCode::NotReady => Ok(false),
        Err(error) => Err(error),
    }
}

/// The device whose memory an address is in; `None` for other memory.
fn owner(at: &Current<'_>, addr: DeviceAddr) -> Option<DeviceId> {
    let mut kind: c_uint = 0;
    let mut ordinal: c_uint = 0;
    let kind_attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as c_uint;
    let ordinal_attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as c_uint;
    // SAFETY: each attribute is written as one 32-bit number; the driver looks the address up and
    // does not follow it.
    unsafe {
        let into = ptr::from_mut(&mut kind).cast();
        call!(at, cuPointerGetAttribute(into, kind_attribute, addr.0)).ok()?;
        let into = ptr::from_mut(&mut ordinal).cast();
        call!(at, cuPointerGetAttribute(into, ordinal_attribute, addr.0)).ok()?;
    }
    (kind == CUmemorytype::CU_MEMORYTYPE_DEVICE as c_uint).then_some(DeviceId(ordinal))
}

impl StreamOps for Cuda {
    fn stream_create(&self, device: DeviceId, kind: StreamKind) -> Result<StreamId> {
        let at = self.enter(device)?;
        let flags = match kind {
            StreamKind::Blocking => CUstream_flags::CU_STREAM_DEFAULT,
            StreamKind::NonBlocking => CUstream_flags::CU_STREAM_NON_BLOCKING,
        };
        let mut stream = ptr::null_mut();
        // SAFETY: `stream` is valid for the write.
        unsafe { call!(at, cuStreamCreate(&mut stream, flags as c_uint)) }?;
        let raw = stream.expose_provenance() as u64;
        Ok(StreamId { device, raw })
    }

    fn default_stream(&self, device: DeviceId) -> StreamId {
        StreamId {
            device,
            raw: LEGACY,
        }
    }

    unsafe fn stream_adopt(&self, device: DeviceId, raw: u64) -> Result<StreamId> {
        let at = self.enter(device)?;
        let stream = StreamId { device, raw };
        let mut context = ptr::null_mut();
        // SAFETY: the caller promises a live stream; `context` is valid for the write.
        unsafe { call_optional!(at, cuStreamGetCtx(handle(stream), &mut context)) }?;
        if context != self.context(device)? {
            return Err(DriverError::with_detail(
                ErrorCode::InvalidContext,
                "cuStreamGetCtx",
                format!("the stream is not of the primary context of device {device}"),
            ));
        }
        Ok(stream)
    }

    unsafe fn stream_destroy(&self, stream: StreamId) -> Result<()> {
        let at = self.enter(stream.device)?;
        // SAFETY: the caller promises a stream of ours that is not used again.
        unsafe { call!(at, cuStreamDestroy_v2(handle(stream))) }
    }

    fn stream_query(&self, stream: StreamId) -> Result<bool> {
        let at = self.enter(stream.device)?;
        // SAFETY: a `StreamId` stands for a live stream until it is destroyed.
        ready(unsafe { call!(at, cuStreamQuery(handle(stream))) })
    }

    fn stream_synchronize(&self, stream: StreamId) -> Result<()> {
        let at = self.enter(stream.device)?;
        // SAFETY: as for `stream_query`.
        unsafe { call!(at, cuStreamSynchronize(handle(stream))) }
    }

    fn device_synchronize(&self, device: DeviceId) -> Result<()> {
        let at = self.enter(device)?;
        // SAFETY: takes nothing.
        unsafe { call!(at, cuCtxSynchronize()) }
    }

    unsafe fn copy_to_device(
        &self,
        stream: StreamId,
        to: DeviceAddr,
        from: HostAddr,
        bytes: u64,
    ) -> Result<()> {
        let at = self.enter(stream.device)?;
        let bytes = size(bytes, "cuMemcpyHtoDAsync_v2")?;
        let from = ptr::with_exposed_provenance(from.0);
        // SAFETY: the caller promises both ranges until the copy was waited for.
        unsafe { call!(at, cuMemcpyHtoDAsync_v2(to.0, from, bytes, handle(stream))) }
    }

    unsafe fn copy_to_host(
        &self,
        stream: StreamId,
        to: HostAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<()> {
        let at = self.enter(stream.device)?;
        let bytes = size(bytes, "cuMemcpyDtoHAsync_v2")?;
        let to = ptr::with_exposed_provenance_mut(to.0);
        // SAFETY: the caller promises both ranges until the copy was waited for.
        unsafe { call!(at, cuMemcpyDtoHAsync_v2(to, from.0, bytes, handle(stream))) }
    }

    unsafe fn copy_on_device(
        &self,
        stream: StreamId,
        to: DeviceAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<()> {
        let at = self.enter(stream.device)?;
        let bytes = size(bytes, "cuMemcpyDtoDAsync_v2")?;
        let (to, from, queue): (CUdeviceptr, CUdeviceptr, _) = (to.0, from.0, handle(stream));
        // Only a machine with several devices pays for the question whose memory it is.
        if self.slots.len() > 1
            && let (Some(target), Some(source)) =
                (owner(&at, DeviceAddr(to)), owner(&at, DeviceAddr(from)))
            && target != source
        {
            let (target, source) = (self.context(target)?, self.context(source)?);
            // SAFETY: the caller promises both ranges; the contexts are those of the ranges'
            // devices.
            return unsafe {
                call!(
                    at,
                    cuMemcpyPeerAsync(to, target, from, source, bytes, queue)
                )
            };
        }
        // SAFETY: the caller promises both ranges until the copy was waited for.
        unsafe { call!(at, cuMemcpyDtoDAsync_v2(to, from, bytes, queue)) }
    }

    unsafe fn fill(&self, stream: StreamId, to: DeviceAddr, byte: u8, bytes: u64) -> Result<()> {
        let at = self.enter(stream.device)?;
        let bytes = size(bytes, "cuMemsetD8Async")?;
        // SAFETY: the caller promises the range until the operation was waited for.
        unsafe { call!(at, cuMemsetD8Async(to.0, byte, bytes, handle(stream))) }
    }

    fn host_callback(&self, stream: StreamId, callback: HostCallback) -> Result<()> {
        let at = self.enter(stream.device)?;
        if self.symbols.cuStreamIsCapturing.is_some()
            && self.capture_status(stream)? != CaptureStatus::None
        {
            // A callback runs once, a captured one as often as its graph. A query is refused in a
            // capture and breaks it, as every call does that cannot be captured.
            self.stream_query(stream)?;
            let code = ErrorCode::StreamCaptureUnsupported;
            return Err(DriverError::new(code, "cuLaunchHostFunc"));
        }
        let Some(launch) = self.symbols.cuLaunchHostFunc else {
            return Err(crate::error::lacking("cuLaunchHostFunc"));
        };
        let ticket = callback::park(self.owner(stream.device), callback);
        let word = ptr::without_provenance_mut(ticket as usize);
        // SAFETY: `run` takes any word, never unwinds, and calls no driver function.
        let status = unsafe { launch(handle(stream), Some(callback::run), word) };
        let result = at.check("cuLaunchHostFunc", status);
        if result.is_err() {
            drop(callback::take(ticket));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_ready_is_an_answer_and_other_codes_are_errors() {
        let failed = |code| Err(DriverError::new(code, "cuStreamQuery"));
        assert_eq!(ready(Ok(())), Ok(true));
        assert_eq!(ready(failed(ErrorCode::NotReady)), Ok(false));
        assert!(ready(failed(ErrorCode::IllegalAddress)).is_err());
    }
}
