//! Events for users: order between streams, and time on the device's own clock.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::thread;
use pinfold_hal::{ErrorCode, EventFlags, EventId, IpcEventHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Takes time stamps.
    Timing,
    /// Only orders: lighter.
    NoTiming,
    /// Only orders, and can be opened by another process.
    Interprocess,
}

/// A mark in a stream. Recording it again replaces the mark; waits already made keep the old one.
#[derive(Debug)]
pub struct Event {
    device: Device,
    id: EventId,
    kind: EventKind,
    recorded: AtomicBool,
}

impl Event {
    pub(crate) fn create(device: &Device, kind: EventKind) -> Result<Self> {
        device.ensure_open()?;
        let flags = EventFlags {
            disable_timing: kind != EventKind::Timing,
            interprocess: kind == EventKind::Interprocess,
            blocking_sync: false,
        };
        let id = device
            .driver()
            .event_create(device.id(), flags)
            .map_err(Error::driver("making an event"))?;
        Ok(Event {
            device: device.clone(),
            id,
            kind,
            recorded: AtomicBool::new(false),
        })
    }

    /// What it was made for.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// True once the work before the mark is done. Never waits.
    ///
    /// # Errors
    /// [`Error::EventNotRecorded`], or what the work failed with.
    pub fn is_done(&self) -> Result<bool> {
        thread::refuse("asking for an event")?;
        self.check_recorded()?;
        self.device
            .driver()
            .event_query(self.id)
            .map_err(Error::driver("asking for an event"))
    }

    /// Waits until the work before the mark is done.
    ///
    /// # Errors
    /// [`Error::EventNotRecorded`], or what the work failed with.
    pub fn synchronize(&self) -> Result<()> {
        thread::refuse("waiting for an event")?;
        self.check_recorded()?;
        self.device
            .driver()
            .event_synchronize(self.id)
            .map_err(Error::driver("waiting for an event"))
    }

    /// Nanoseconds from `earlier`'s mark to this one, on the device's clock (resolution about 500
    /// ns on real devices). `None` while one of the marks is not reached.
    ///
    /// # Errors
    /// [`Error::EventNotRecorded`], or `InvalidHandle` for events that take no time stamps.
    pub fn elapsed_ns_since(&self, earlier: &Event) -> Result<Option<f64>> {
        thread::refuse("reading the time between events")?;
        self.check_recorded()?;
        earlier.check_recorded()?;
        earlier.check_platform(&self.device)?;
        match self.device.driver().event_elapsed_ns(earlier.id, self.id) {
            Ok(elapsed) => Ok(Some(elapsed)),
            Err(e) if e.code == ErrorCode::NotReady => Ok(None),
            Err(e) => Err(Error::driver("reading the time between events")(e)),
        }
    }

    /// Opens an event that another process exported. It counts as recorded.
    ///
    /// # Errors
    /// Where the driver cannot open it.
    pub fn import(device: &Device, handle: IpcEventHandle) -> Result<Self> {
        device.ensure_open()?;
        let id = device
            .driver()
            .event_import(device.id(), handle)
            .map_err(Error::driver("opening another process's event"))?;
        Ok(Event {
            device: device.clone(),
            id,
            kind: EventKind::Interprocess,
            recorded: AtomicBool::new(true),
        })
    }

    /// The handle with which another process can open the event.
    ///
    /// # Errors
    /// For events of another kind than [`EventKind::Interprocess`].
    pub fn export(&self) -> Result<IpcEventHandle> {
        self.device
            .driver()
            .event_export(self.id)
            .map_err(Error::driver("exporting an event"))
    }

    pub(crate) fn id(&self) -> EventId {
        self.id
    }

    pub(crate) fn set_recorded(&self) {
        self.recorded.store(true, Ordering::Release);
    }

    /// Refuses to be used with a device of another platform, whose handles mean something else.
    pub(crate) fn check_platform(&self, device: &Device) -> Result<()> {
        if Arc::ptr_eq(self.device.platform_inner(), device.platform_inner()) {
            return Ok(());
        }
        Err(Error::DeviceMismatch {
            what: "the event (of another platform)",
            got: self.device.index(),
            want: device.index(),
        })
    }

    pub(crate) fn check_recorded(&self) -> Result<()> {
        if self.recorded.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err(Error::EventNotRecorded)
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event was made in `create` and nobody can name it any more; waits that were
        // enqueued keep their meaning. A failure can only mean that the context is gone.
        let _ = unsafe { self.device.driver().event_destroy(self.id) };
    }
}
