//! One device: opened on first use, closed with the last thing that needs it.

use crate::error::{Error, Result};
use crate::event::{Event, EventKind};
use crate::graph::thread;
use crate::platform::{Platform, PlatformInner};
use crate::stream::Stream;
use parking_lot::Mutex;
use pinfold_hal::{DeviceId, DeviceInfo, Driver, EventFlags, EventId, HostWork, StreamKind};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device. Cheap to clone. Its context is made by the first operation that needs one, never
/// before.
#[derive(Clone)]
pub struct Device {
    inner: Arc<DeviceInner>,
}

struct DeviceInner {
    platform: Arc<PlatformInner>,
    id: DeviceId,
    info: DeviceInfo,
    open: AtomicBool,
    /// Events without timing that no mark uses at the moment.
    spare_events: Mutex<Vec<EventId>>,
}

/// How often a wait that the driver refuses is tried while cleaning up: the reason may pass.
const SETTLE_ATTEMPTS: u32 = 3;

/// Most events that are kept for reuse; more are destroyed.
const SPARE_EVENTS_MAX: usize = 4096;

impl Device {
    pub(crate) fn new(platform: Arc<PlatformInner>, id: DeviceId) -> Result<Self> {
        let info = platform
            .driver
            .device_info(id)
            .map_err(Error::driver("asking for a device"))?;
        let inner = DeviceInner {
            platform,
            id,
            info,
            open: AtomicBool::new(false),
            spare_events: Mutex::new(Vec::new()),
        };
        Ok(Device {
            inner: Arc::new(inner),
        })
    }

    /// Its number.
    pub fn index(&self) -> u32 {
        self.inner.id.0
    }

    /// What it is and can do.
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// The label of every result measured on it.
    pub fn name(&self) -> &str {
        &self.inner.info.name
    }

    /// True where its times mean nothing about real hardware.
    pub fn is_simulated(&self) -> bool {
        self.inner.info.simulated
    }

    /// The platform it belongs to.
    pub fn platform(&self) -> Platform {
        Platform::from_inner(self.inner.platform.clone())
    }

    /// Makes a stream that has no implicit order with the default stream.
    ///
    /// # Errors
    /// Where the context or the stream cannot be made.
    pub fn stream(&self) -> Result<Stream> {
        Stream::create(self, StreamKind::NonBlocking)
    }

    /// Takes in a stream that other code made, such as cudarc or PyTorch: `handle` is the address
    /// in its `CUstream`.
    ///
    /// # Errors
    /// On a simulated device, or where the handle is not one.
    ///
    /// # Safety
    /// `handle` is a live stream of this device's primary context and outlives the result and all
    /// buffers used on it, and it is not captured into a graph meanwhile: work that is only
    /// captured would count as done. Work that the other code enqueues is not seen by pinfold.
    pub unsafe fn adopt_stream(&self, handle: u64) -> Result<Stream> {
        // SAFETY: the caller's promise is the one that the function below asks for.
        unsafe { Stream::adopt(self, handle) }
    }

    /// Makes an event.
    ///
    /// # Errors
    /// Where the context or the event cannot be made, or the kind is not supported.
    pub fn event(&self, kind: EventKind) -> Result<Event> {
        Event::create(self, kind)
    }

    /// Waits until all work of the device is done, whoever enqueued it.
    ///
    /// # Errors
    /// What that work failed with.
    pub fn synchronize(&self) -> Result<()> {
        thread::refuse("waiting for the device")?;
        self.ensure_open()?;
        self.driver()
            .device_synchronize(self.id())
            .map_err(Error::driver("waiting for the device"))
    }

    /// Free and total device memory in bytes.
    ///
    /// # Errors
    /// Where the driver cannot tell.
    pub fn memory_bytes(&self) -> Result<(u64, u64)> {
        self.ensure_open()?;
        self.driver()
            .device_memory(self.id())
            .map_err(Error::driver("asking for free memory"))
    }

    /// Nanoseconds on the clock that results of this device are measured with: virtual where the
    /// device is simulated.
    pub fn now_ns(&self) -> u64 {
        self.driver().now_ns()
    }

    /// Declares host work between two operations, for the virtual clock of a simulated device.
    pub fn declare_host_work(&self, work: HostWork) {
        self.driver().host_work(work);
    }

    /// Waits until the device touches no memory any more, for a caller who is about to let some go.
    ///
    /// # Errors
    /// A lost device touches no memory either: see [`Error::device_is_lost`]. After any other error
    /// work may still be running.
    pub(crate) fn settle(&self) -> Result<()> {
        self.inner.settle()
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.inner.id
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.inner.platform.driver
    }

    pub(crate) fn platform_inner(&self) -> &Arc<PlatformInner> {
        &self.inner.platform
    }

    /// Opens the device on first use. Takes no lock: should two threads come at once, the backend
    /// counts two openings and the second is given back.
    pub(crate) fn ensure_open(&self) -> Result<()> {
        if self.inner.open.load(Ordering::Acquire) {
            return Ok(());
        }
        thread::refuse("making a device's context")?;
        self.driver()
            .open(self.id())
            .map_err(Error::driver("making the device's context"))?;
        if self.inner.open.swap(true, Ordering::AcqRel) {
            // SAFETY: this is one opening of two; the other one is still there.
            unsafe { self.driver().close(self.id()) }
                .map_err(Error::driver("giving back a context"))?;
        }
        Ok(())
    }

    /// An event without timing, from the spare ones or new.
    pub(crate) fn take_event(&self) -> Result<EventId> {
        let spare = self.inner.spare_events.lock().pop();
        if let Some(event) = spare {
            return Ok(event);
        }
        let flags = EventFlags {
            disable_timing: true,
            ..EventFlags::default()
        };
        self.driver()
            .event_create(self.id(), flags)
            .map_err(Error::driver("making an event"))
    }

    /// Takes back an event from [`take_event`](Self::take_event).
    pub(crate) fn return_event(&self, event: EventId) {
        {
            let mut spare = self.inner.spare_events.lock();
            if spare.len() < SPARE_EVENTS_MAX {
                spare.push(event);
                return;
            }
        }
        self.destroy_event(event);
    }

    fn destroy_event(&self, event: EventId) {
        // SAFETY: the event was made by `take_event` and its only holder gave it up. An error can
        // only mean that the context is gone, and the event with it.
        let _ = unsafe { self.driver().event_destroy(event) };
    }
}

impl DeviceInner {
    fn settle(&self) -> Result<()> {
        thread::refuse("waiting for the device")?;
        let wait = || {
            let outcome = self.platform.driver.device_synchronize(self.id);
            outcome.map_err(Error::driver("waiting for the device"))
        };
        let mut outcome = wait();
        for _ in 1..SETTLE_ATTEMPTS {
            match &outcome {
                Err(error) if !error.device_is_lost() => outcome = wait(),
                _ => break,
            }
        }
        outcome
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        if !*self.open.get_mut() {
            return;
        }
        // Work without a buffer, such as a host function, may still be in flight. A context that
        // cannot be waited for stays open.
        if self.settle().is_err_and(|error| !error.device_is_lost()) {
            return;
        }
        for event in std::mem::take(self.spare_events.get_mut()) {
            // SAFETY: nobody but this list knows the event.
            let _ = unsafe { self.platform.driver.event_destroy(event) };
        }
        // SAFETY: everything that uses the device holds this object, so nothing is left that does.
        // A failure has nobody to be told.
        let _ = unsafe { self.platform.driver.close(self.id) };
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}: {})", self.index(), self.name())
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.inner.id == other.inner.id && Arc::ptr_eq(&self.inner.platform, &other.inner.platform)
    }
}

impl Eq for Device {}
