//! Events: marks, waits, times, and handles for other processes.

use crate::context::{Cuda, call, call_optional};
use crate::stream::{self, ready};
use cudarc::driver::sys::{CUevent, CUevent_flags, CUipcEventHandle};
use pinfold_hal::{DeviceId, EventFlags, EventId, EventOps, IpcEventHandle, Result, StreamId};
use std::ffi::{c_char, c_uint};
use std::ptr;

/// `cuEventElapsedTime` gives milliseconds.
const NS_PER_MS: f64 = 1e6;

/// The driver's handle of an event.
fn handle(event: EventId) -> CUevent {
    ptr::with_exposed_provenance_mut(event.raw as usize)
}

fn id(device: DeviceId, event: CUevent) -> EventId {
    EventId {
        device,
        raw: event.expose_provenance() as u64,
    }
}

/// The bits for `cuEventCreate`.
fn bits(flags: EventFlags) -> c_uint {
    let mut bits = CUevent_flags::CU_EVENT_DEFAULT as c_uint;
    if flags.blocking_sync {
        bits |= CUevent_flags::CU_EVENT_BLOCKING_SYNC as c_uint;
    }
    if flags.disable_timing {
        bits |= CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint;
    }
    if flags.interprocess {
        bits |= CUevent_flags::CU_EVENT_INTERPROCESS as c_uint;
    }
    bits
}

impl EventOps for Cuda {
    fn event_create(&self, device: DeviceId, flags: EventFlags) -> Result<EventId> {
        let at = self.enter(device)?;
        let mut event = ptr::null_mut();
        // SAFETY: `event` is valid for the write.
        unsafe { call!(at, cuEventCreate(&mut event, bits(flags))) }?;
        Ok(id(device, event))
    }

    unsafe fn event_destroy(&self, event: EventId) -> Result<()> {
        let at = self.enter(event.device)?;
        // SAFETY: the caller promises an event of ours that is not used again.
        unsafe { call!(at, cuEventDestroy_v2(handle(event))) }
    }

    fn event_record(&self, event: EventId, stream: StreamId) -> Result<()> {
        let at = self.enter(stream.device)?;
        // SAFETY: ids stand for live objects until these are destroyed; the driver refuses objects
        // of different contexts.
        unsafe { call!(at, cuEventRecord(handle(event), stream::handle(stream))) }
    }

    fn event_query(&self, event: EventId) -> Result<bool> {
        let at = self.enter(event.device)?;
        // SAFETY: an `EventId` stands for a live event until it is destroyed.
        ready(unsafe { call!(at, cuEventQuery(handle(event))) })
    }

    fn event_synchronize(&self, event: EventId) -> Result<()> {
        let at = self.enter(event.device)?;
        // SAFETY: as for `event_query`.
        unsafe { call!(at, cuEventSynchronize(handle(event))) }
    }

    fn stream_wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        let at = self.enter(stream.device)?;
        // SAFETY: ids stand for live objects until these are destroyed. Zero is the only flag
        // outside captures.
        unsafe {
            call!(
                at,
                cuStreamWaitEvent(stream::handle(stream), handle(event), 0)
            )
        }
    }

    fn event_elapsed_ns(&self, from: EventId, to: EventId) -> Result<f64> {
        let at = self.enter(from.device)?;
        let mut elapsed_ms = 0.0;
        // SAFETY: `elapsed_ms` is valid for the write; ids stand for live events.
        unsafe {
            call!(
                at,
                cuEventElapsedTime(&mut elapsed_ms, handle(from), handle(to))
            )
        }?;
        Ok(f64::from(elapsed_ms) * NS_PER_MS)
    }

    fn event_export(&self, event: EventId) -> Result<IpcEventHandle> {
        let at = self.enter(event.device)?;
        let mut exported = CUipcEventHandle { reserved: [0; 64] };
        // SAFETY: `exported` is valid for the write; an `EventId` stands for a live event.
        unsafe { call_optional!(at, cuIpcGetEventHandle(&mut exported, handle(event))) }?;
        Ok(exported.reserved.map(|unit| unit as u8))
    }

    fn event_import(&self, device: DeviceId, exported: IpcEventHandle) -> Result<EventId> {
        let at = self.enter(device)?;
        let reserved = exported.map(|byte| byte as c_char);
        let mut event = ptr::null_mut();
        // SAFETY: `event` is valid for the write; the driver refuses bytes that are no handle.
        unsafe {
            call_optional!(
                at,
                cuIpcOpenEventHandle(&mut event, CUipcEventHandle { reserved })
            )
        }?;
        Ok(id(device, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_cudas_bits() {
        assert_eq!(bits(EventFlags::default()), 0);
        let all = EventFlags {
            disable_timing: true,
            interprocess: true,
            blocking_sync: true,
        };
        assert_eq!(bits(all), 0x1 | 0x2 | 0x4);
    }
}
