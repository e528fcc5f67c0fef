//! Ordering and timing, forwarded.

use super::{Hook, Hooked};
use crate::Call;
use pinfold_hal::{DeviceId, EventFlags, EventId, EventOps, IpcEventHandle, Result, StreamId};

impl<H: Hook> EventOps for Hooked<H> {
    fn event_create(&self, device: DeviceId, flags: EventFlags) -> Result<EventId> {
        self.call(Call::EventCreate, device, |inner| {
            inner.event_create(device, flags)
        })
    }

    unsafe fn event_destroy(&self, event: EventId) -> Result<()> {
        self.call(Call::EventDestroy, event.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.event_destroy(event) }
        })
    }

    fn event_record(&self, event: EventId, stream: StreamId) -> Result<()> {
        self.call(Call::EventRecord, stream.device, |inner| {
            inner.event_record(event, stream)
        })
    }

    fn event_query(&self, event: EventId) -> Result<bool> {
        self.call(Call::EventQuery, event.device, |inner| {
            inner.event_query(event)
        })
    }

    fn event_synchronize(&self, event: EventId) -> Result<()> {
        self.call(Call::EventSynchronize, event.device, |inner| {
            inner.event_synchronize(event)
        })
    }

    fn stream_wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        self.call(Call::StreamWaitEvent, stream.device, |inner| {
            inner.stream_wait_event(stream, event)
        })
    }

    fn event_elapsed_ns(&self, from: EventId, to: EventId) -> Result<f64> {
        self.call(Call::EventElapsedNs, to.device, |inner| {
            inner.event_elapsed_ns(from, to)
        })
    }

    fn event_export(&self, event: EventId) -> Result<IpcEventHandle> {
        self.call(Call::EventExport, event.device, |inner| {
            inner.event_export(event)
        })
    }

    fn event_import(&self, device: DeviceId, handle: IpcEventHandle) -> Result<EventId> {
        self.call(Call::EventImport, device, |inner| {
            inner.event_import(device, handle)
        })
    }
}
