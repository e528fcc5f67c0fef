//! Events: marks in a stream that others wait for, and the clock of the device.

use crate::Sim;
use crate::capture::Seen;
use crate::error::{bad_handle, invalid};
use crate::operation::Prepared;
use crate::world::{Tail, World};
use pinfold_hal::{
    DeviceId, DriverError, ErrorCode, EventFlags, EventId, EventOps, IpcEventHandle, Result,
    StreamId,
};
use std::collections::BTreeMap;

/// The first bytes of an exported event.
const IPC_MAGIC: [u8; 8] = *b"pfsimevt";

/// All events: handles, and the states behind them. An imported event is a second handle of a
/// state.
#[derive(Debug, Default)]
pub(crate) struct Events {
    handles: BTreeMap<u64, u64>,
    states: BTreeMap<u64, Event>,
}

/// What an event is and what it marks.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    device: DeviceId,
    flags: EventFlags,
    pub(crate) mark: Mark,
    handles: u32,
}

/// What an event marks.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// It was never recorded.
    Nothing,
    /// The end of an operation.
    Work(Tail),
    /// A place in a capture.
    Captured { capture: u64, seen: Seen },
}

impl Events {
    pub(crate) fn count(&self) -> usize {
        self.handles.len()
    }
}

impl EventOps for Sim {
    fn event_create(&self, device: DeviceId, flags: EventFlags) -> Result<EventId> {
        let call = "cuEventCreate";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        if flags.interprocess && !flags.disable_timing {
            return Err(invalid(call, "an interprocess event must disable timing"));
        }
        let cost_ns = world.profile().calls.object_ns.value;
        world.spend(cost_ns);
        let raw = world.new_id();
        world.events.handles.insert(raw, raw);
        let event = Event {
            device,
            flags,
            mark: Mark::Nothing,
            handles: 1,
        };
        world.events.states.insert(raw, event);
        Ok(EventId { device, raw })
    }

    unsafe fn event_destroy(&self, event: EventId) -> Result<()> {
        let call = "cuEventDestroy";
        let mut world = self.enter(call)?;
        world.event(event, call)?.handles -= 1;
        if let Some(state) = world.events.handles.remove(&event.raw)
            && world
                .events
                .states
                .get(&state)
                .is_some_and(|e| e.handles == 0)
        {
            world.events.states.remove(&state);
        }
        let cost_ns = world.profile().calls.object_ns.value;
        world.spend(cost_ns);
        Ok(())
    }

    fn event_record(&self, event: EventId, stream: StreamId) -> Result<()> {
        let call = "cuEventRecord";
        let mut world = self.enter(call)?;
        world.event(event, call)?;
        world.stream(stream, call)?;
        if event.device != stream.device {
            return Err(bad_handle(
                call,
                "event and stream are of different devices",
            ));
        }
        let cost_ns = world.profile().calls.event_record_ns.value;
        world.spend(cost_ns);
        let mark = match world.capture_of(stream, call)? {
            Some(capture) => Mark::Captured {
                capture,
                seen: world.seen_by(capture, stream),
            },
            None => Mark::Work(world.submit(stream, Prepared::mark(), None)),
        };
        world.event(event, call)?.mark = mark;
        Ok(())
    }

    fn event_query(&self, event: EventId) -> Result<bool> {
        let call = "cuEventQuery";
        let mut world = self.enter(call)?;
        let tail = world.begin_event_wait(event, call)?;
        let over = tail.is_none_or(|tail| world.query(&[tail]));
        world.usable(event.device, call)?;
        Ok(over)
    }

    fn event_synchronize(&self, event: EventId) -> Result<()> {
        let call = "cuEventSynchronize";
        let mut world = self.enter(call)?;
        if let Some(tail) = world.begin_event_wait(event, call)? {
            world.wait_for(&[tail]);
        }
        world.usable(event.device, call)?;
        Ok(())
    }

    fn stream_wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        let call = "cuStreamWaitEvent";
        let mut world = self.enter(call)?;
        world.stream(stream, call)?;
        let mark = world.event(event, call)?.mark.clone();
        let cost_ns = world.profile().calls.event_wait_ns.value;
        world.spend(cost_ns);
        match mark {
            Mark::Nothing => Ok(()),
            Mark::Captured { capture, seen } => world.join_capture(stream, capture, &seen, call),
            Mark::Work(tail) => {
                if world.capture_of(stream, call)?.is_some() {
                    return world.isolate_capture(stream, call);
                }
                world.submit(stream, Prepared::mark(), Some(tail));
                Ok(())
            }
        }
    }

    fn event_elapsed_ns(&self, from: EventId, to: EventId) -> Result<f64> {
        let call = "cuEventElapsedTime";
        let mut world = self.enter(call)?;
        let from_ps = world.time_stamp_ps(from, call)?;
        let to_ps = world.time_stamp_ps(to, call)?;
        Ok((to_ps as f64 - from_ps as f64) / 1e3)
    }

    fn event_export(&self, event: EventId) -> Result<IpcEventHandle> {
        let call = "cuIpcGetEventHandle";
        let mut world = self.enter(call)?;
        if !world.event(event, call)?.flags.interprocess {
            return Err(bad_handle(call, "the event is not interprocess"));
        }
        world.check_ipc(event.device, call)?;
        let state = world.events.handles.get(&event.raw).copied().unwrap_or(0);
        let mut handle = [0; 64];
        handle[..8].copy_from_slice(&IPC_MAGIC);
        handle[8..16].copy_from_slice(&self.ipc_key().to_le_bytes());
        handle[16..24].copy_from_slice(&state.to_le_bytes());
        Ok(handle)
    }

    fn event_import(&self, device: DeviceId, handle: IpcEventHandle) -> Result<EventId> {
        let call = "cuIpcOpenEventHandle";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        world.check_ipc(device, call)?;
        let mut number = [0; 8];
        number.copy_from_slice(&handle[8..16]);
        if handle[..8] != IPC_MAGIC || u64::from_le_bytes(number) != self.ipc_key() {
            return Err(invalid(
                call,
                "the handle is not of an event of this simulation",
            ));
        }
        number.copy_from_slice(&handle[16..24]);
        let state = u64::from_le_bytes(number);
        match world.events.states.get_mut(&state) {
            Some(event) if event.device == device => event.handles += 1,
            Some(_) => return Err(invalid(call, "the event is of another device")),
            None => return Err(invalid(call, "the event was destroyed")),
        }
        let raw = world.new_id();
        world.events.handles.insert(raw, state);
        Ok(EventId { device, raw })
    }
}

impl Sim {
    /// What tells this simulation's exported events from those of others in the process.
    fn ipc_key(&self) -> u64 {
        std::ptr::from_ref(self.hazards.as_ref()).addr() as u64
    }
}

impl World {
    /// The event, if it exists on a usable device.
    pub(crate) fn event(&mut self, id: EventId, call: &'static str) -> Result<&mut Event> {
        self.usable(id.device, call)?;
        let state = self.events.handles.get(&id.raw).copied();
        if state.is_none() && self.was_given_out(id.raw) {
            self.hazards
                .note(call, format!("event {} was destroyed", id.raw));
        }
        let event = state.and_then(|state| self.events.states.get_mut(&state));
        event
            .filter(|event| event.device == id.device)
            .ok_or_else(|| bad_handle(call, format!("there is no event {}", id.raw)))
    }

    /// The checks and the cost of a query or a wait; what to look at.
    fn begin_event_wait(&mut self, event: EventId, call: &'static str) -> Result<Option<Tail>> {
        let mark = self.event(event, call)?.mark.clone();
        let cost_ns = self.profile().calls.event_query_ns.value;
        self.spend(cost_ns);
        match mark {
            Mark::Nothing => Ok(None),
            Mark::Work(tail) => Ok(Some(tail)),
            Mark::Captured { capture, .. } => {
                self.invalidate(capture);
                let what = "the event was recorded in a capture";
                Err(DriverError::with_detail(
                    ErrorCode::CapturedEvent,
                    call,
                    what,
                ))
            }
        }
    }

    fn time_stamp_ps(&mut self, event: EventId, call: &'static str) -> Result<u64> {
        let clock = self.clock_ps;
        let event = self.event(event, call)?;
        if event.flags.disable_timing {
            return Err(bad_handle(call, "the event takes no time stamps"));
        }
        match event.mark {
            Mark::Work(tail) if tail.end_ps <= clock => Ok(tail.end_ps),
            Mark::Work(_) => Err(DriverError::new(ErrorCode::NotReady, call)),
            _ => Err(bad_handle(call, "the event was not recorded")),
        }
    }

    fn check_ipc(&self, device: DeviceId, call: &'static str) -> Result<()> {
        let device = &self.profile().devices[device.0 as usize];
        if device.capabilities.ipc_events {
            return Ok(());
        }
        Err(DriverError::new(ErrorCode::NotSupported, call))
    }
}
