//! Streams: the queue of one device, and everything that can be put onto it.
//!
//! [`order`] knows when what was enqueued is done · [`copies`] upload, download, device to device ·
//! [`slots`] copies for the transfer engine · kernel launches are in [`launch`](crate::launch).

pub(crate) mod copies;
pub(crate) mod order;
mod slots;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::graph::Recording;
use order::StreamOrder;
use pinfold_hal::{StreamId, StreamKind};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A queue of work on one device, used by one thread at a time (it may move between threads).
///
/// Work takes effect in order. Buffers remember which streams use them, so that work on another
/// stream that needs the same buffer waits for the right moment by itself, also across devices.
pub struct Stream {
    order: Arc<StreamOrder>,
    /// Where what is enqueued does not run, but is recorded for a graph.
    recording: Option<RefCell<Recording>>,
    /// Makes the type `!Sync`: what is enqueued and its place in the order must not come apart.
    _one_thread: PhantomData<Cell<()>>,
}

impl Stream {
    pub(crate) fn create(device: &Device, kind: StreamKind) -> Result<Self> {
        device.ensure_open()?;
        let id = device
            .driver()
            .stream_create(device.id(), kind)
            .map_err(Error::driver("making a stream"))?;
        Ok(Self::with_order(StreamOrder::new(device.clone(), id, true)))
    }

    /// # Safety
    /// As for [`Device::adopt_stream`].
    pub(crate) unsafe fn adopt(device: &Device, handle: u64) -> Result<Self> {
        device.ensure_open()?;
        // SAFETY: the caller's promise about `handle` is the one that the driver asks for.
        let id = unsafe { device.driver().stream_adopt(device.id(), handle) }
            .map_err(Error::driver("taking in a stream"))?;
        Ok(Self::with_order(StreamOrder::new(
            device.clone(),
            id,
            false,
        )))
    }

    /// A stream whose work is recorded, once its capture has begun.
    pub(crate) fn recorder(device: &Device) -> Result<Self> {
        Ok(Stream {
            recording: Some(RefCell::default()),
            ..Self::create(device, StreamKind::NonBlocking)?
        })
    }

    /// What was recorded so far, where this stream records.
    pub(crate) fn recording(&self) -> Option<&RefCell<Recording>> {
        self.recording.as_ref()
    }

    /// Takes out what was recorded.
    pub(crate) fn take_recording(&mut self) -> Recording {
        let taken = self.recording.take().map(RefCell::into_inner);
        taken.unwrap_or_default()
    }

    /// # Errors
    /// [`Error::Capturing`] where this stream records.
    fn refuse_recorded(&self, doing: &'static str) -> Result<()> {
        match &self.recording {
            Some(_) => Err(Error::Capturing { doing }),
            None => Ok(()),
        }
    }

    fn with_order(order: StreamOrder) -> Self {
        Stream {
            order: Arc::new(order),
            recording: None,
            _one_thread: PhantomData,
        }
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        self.order.device()
    }

    /// Records an event: it marks what the stream holds so far.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] for an event of another device.
    pub fn record(&self, event: &Event) -> Result<()> {
        self.refuse_recorded("recording an event on the stream of the capture")?;
        if event.device() != self.device() {
            return Err(Error::DeviceMismatch {
                what: "the event",
                got: event.device().index(),
                want: self.device().index(),
            });
        }
        self.device()
            .driver()
            .event_record(event.id(), self.id())
            .map_err(Error::driver("recording an event"))?;
        event.set_recorded();
        Ok(())
    }

    /// Makes later work wait for the event's mark as it stands now. The event may be of another
    /// device.
    ///
    /// # Errors
    /// [`Error::EventNotRecorded`]: the driver would let such a wait pass at once;
    /// [`Error::DeviceMismatch`] for an event of another platform.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.refuse_recorded("a wait on the stream of the capture")?;
        event.check_recorded()?;
        event.check_platform(self.device())?;
        self.device()
            .driver()
            .stream_wait_event(self.id(), event.id())
            .map_err(Error::driver("waiting for an event on a stream"))
    }

    /// Waits until everything enqueued so far is done.
    ///
    /// # Errors
    /// What that work failed with.
    pub fn synchronize(&self) -> Result<()> {
        self.order.synchronize()
    }

    /// True once everything enqueued so far is done. Never waits.
    ///
    /// # Errors
    /// What that work failed with.
    pub fn is_idle(&self) -> Result<bool> {
        self.order.is_idle()
    }

    /// Runs a function on a thread of the driver's, after what was enqueued before. The function
    /// must not use the device: such calls fail.
    ///
    /// # Errors
    /// Where the driver refuses.
    pub fn call_host(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        self.refuse_recorded("a host function on the stream of the capture")?;
        self.order.before_enqueue()?;
        self.device()
            .driver()
            .host_callback(self.id(), Box::new(function))
            .map_err(Error::driver("enqueuing a host function"))?;
        self.order.enqueued();
        Ok(())
    }

    pub(crate) fn id(&self) -> StreamId {
        self.order.id()
    }

    pub(crate) fn order(&self) -> &Arc<StreamOrder> {
        &self.order
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("device", self.device())
            .finish_non_exhaustive()
    }
}
