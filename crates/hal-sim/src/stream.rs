//! Streams: queues of work on one device, and the copies and callbacks that go onto them.

use crate::Sim;
use crate::error::{bad_handle, invalid};
use crate::hazard::as_callback;
use crate::operation::{Prepared, Request};
use crate::raw::HostSpan;
use crate::world::{Stream, Tail, World};
use pinfold_hal::{
    DeviceAddr, DeviceId, DriverError, ErrorCode, HostAddr, HostCallback, Result, StreamId,
    StreamKind, StreamOps,
};

impl StreamOps for Sim {
    fn stream_create(&self, device: DeviceId, kind: StreamKind) -> Result<StreamId> {
        let call = "cuStreamCreate";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        let cost_ns = world.profile().calls.object_ns.value;
        world.spend(cost_ns);
        let raw = world.new_id();
        let id = StreamId { device, raw };
        world.streams.insert(id, Stream::new(kind));
        Ok(id)
    }

    fn default_stream(&self, device: DeviceId) -> StreamId {
        StreamId { device, raw: 0 }
    }

    unsafe fn stream_adopt(&self, device: DeviceId, _raw: u64) -> Result<StreamId> {
        let call = "cuStreamGetCtx";
        self.enter(call)?.usable(device, call)?;
        let what = "a simulated device has no streams of other code";
        Err(DriverError::with_detail(
            ErrorCode::NotSupported,
            call,
            what,
        ))
    }

    unsafe fn stream_destroy(&self, stream: StreamId) -> Result<()> {
        let call = "cuStreamDestroy";
        let mut world = self.enter(call)?;
        world.stream(stream, call)?;
        if stream.raw == 0 {
            return Err(bad_handle(call, "the default stream cannot be destroyed"));
        }
        let cost_ns = world.profile().calls.object_ns.value;
        world.spend(cost_ns);
        world.leave_capture(stream, call);
        let tail = world.streams.remove(&stream).and_then(|stream| stream.tail);
        let tail = tail.filter(|tail| world.operations.contains_key(&tail.id));
        world.usable(stream.device, call)?.orphans.extend(tail);
        Ok(())
    }

    fn stream_query(&self, stream: StreamId) -> Result<bool> {
        let call = "cuStreamQuery";
        let mut world = self.enter(call)?;
        let ends = world.begin_wait(stream, call)?;
        let over = world.query(&ends);
        world.usable(stream.device, call)?;
        Ok(over)
    }

    fn stream_synchronize(&self, stream: StreamId) -> Result<()> {
        let call = "cuStreamSynchronize";
        let mut world = self.enter(call)?;
        let ends = world.begin_wait(stream, call)?;
        world.wait_for(&ends);
        world.usable(stream.device, call)?;
        Ok(())
    }

    fn device_synchronize(&self, device: DeviceId) -> Result<()> {
        let call = "cuCtxSynchronize";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        world.refuse_in_capture(call)?;
        let cost_ns = world.profile().calls.event_query_ns.value;
        world.spend(cost_ns);
        let tails = world.device_tails(device);
        world.wait_for(&tails);
        world.usable(device, call)?.orphans.clear();
        Ok(())
    }

    unsafe fn copy_to_device(
        &self,
        stream: StreamId,
        to: DeviceAddr,
        from: HostAddr,
        bytes: u64,
    ) -> Result<()> {
        let call = "cuMemcpyHtoDAsync";
        let host_bytes = host_bytes(call, from, bytes)?;
        // SAFETY: the caller of the copy promises the range until it has waited for it.
        let from = unsafe { HostSpan::new(from.0, host_bytes) };
        self.enqueue_copy(call, stream, bytes, Request::ToDevice { to, from })
    }

    unsafe fn copy_to_host(
        &self,
        stream: StreamId,
        to: HostAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<()> {
        let call = "cuMemcpyDtoHAsync";
        let host_bytes = host_bytes(call, to, bytes)?;
        // SAFETY: the caller of the copy promises the range until it has waited for it.
        let to = unsafe { HostSpan::new(to.0, host_bytes) };
        self.enqueue_copy(call, stream, bytes, Request::ToHost { to, from })
    }

    unsafe fn copy_on_device(
        &self,
        stream: StreamId,
        to: DeviceAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<()> {
        let request = Request::OnDevice { to, from, bytes };
        self.enqueue_copy("cuMemcpyDtoDAsync", stream, bytes, request)
    }

    unsafe fn fill(&self, stream: StreamId, to: DeviceAddr, byte: u8, bytes: u64) -> Result<()> {
        let request = Request::Fill { to, byte, bytes };
        self.enqueue_copy("cuMemsetD8Async", stream, bytes, request)
    }

    fn host_callback(&self, stream: StreamId, callback: HostCallback) -> Result<()> {
        // A callback that is refused is dropped after the lock is given back, and as one.
        let mut held = Some(callback);
        let result = self.enqueue_callback(stream, &mut held);
        as_callback(self.callback_clock_ps(), || drop(held));
        result
    }
}

impl Sim {
    /// The common way of copies and fills; nothing happens for zero bytes.
    fn enqueue_copy(
        &self,
        call: &'static str,
        stream: StreamId,
        bytes: u64,
        request: Request,
    ) -> Result<()> {
        let mut world = self.enter(call)?;
        world.stream(stream, call)?;
        let cost_ns = world.profile().calls.copy_call_ns.value;
        world.spend(cost_ns);
        if bytes == 0 {
            return Ok(());
        }
        world.enqueue(call, stream, request)
    }

    fn enqueue_callback(&self, stream: StreamId, held: &mut Option<HostCallback>) -> Result<()> {
        let call = "cuLaunchHostFunc";
        let mut world = self.enter(call)?;
        world.stream(stream, call)?;
        if world.capture_of(stream, call)?.is_some() {
            // A graph runs many times, the callback only once.
            return Err(world.break_capture_of(stream, call, "a callback cannot be captured"));
        }
        let cost_ns = world.profile().calls.callback_call_ns.value;
        world.spend(cost_ns);
        if let Some(callback) = held.take() {
            let work = Prepared::callback(world.profile(), callback);
            world.submit(stream, work, None);
        }
        Ok(())
    }

    fn callback_clock_ps(&self) -> u64 {
        crate::hazard::callback_ps().unwrap_or_else(|| self.world.lock().clock_ps)
    }
}

impl World {
    /// Enqueues work, or notes it where the stream is being captured.
    pub(crate) fn enqueue(
        &mut self,
        call: &'static str,
        stream: StreamId,
        request: Request,
    ) -> Result<()> {
        let work = self.prepare(call, stream.device, &request)?;
        if let Some(capture) = self.capture_of(stream, call)? {
            self.note(capture, stream, request);
            return Ok(());
        }
        let waited = work.blocks_host;
        self.submit(stream, work, None);
        if waited {
            self.usable(stream.device, call)?;
        }
        Ok(())
    }

    /// The checks and the cost of a query or a wait; the ends to look at.
    fn begin_wait(&mut self, stream: StreamId, call: &'static str) -> Result<Vec<Tail>> {
        let captured = self.stream(stream, call)?.capture.is_some();
        if captured {
            return Err(self.break_capture_of(stream, call, "the stream is being captured"));
        }
        let cost_ns = self.profile().calls.event_query_ns.value;
        self.spend(cost_ns);
        if stream.raw == 0 {
            return Ok(self.fences(stream));
        }
        Ok(self.stream(stream, call)?.tail.into_iter().collect())
    }
}

/// A number of bytes as the host counts, where the range fits into the address space.
fn host_bytes(call: &'static str, addr: HostAddr, bytes: u64) -> Result<usize> {
    let host_bytes = usize::try_from(bytes).ok();
    let fits = host_bytes.filter(|&bytes| addr.0.checked_add(bytes).is_some());
    fits.ok_or_else(|| {
        invalid(
            call,
            format!("{bytes} bytes at {addr:?} leave the address space"),
        )
    })
}
