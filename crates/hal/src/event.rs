//! Events: marks in a stream that others wait for, and the clock of the device.

use crate::{DeviceId, Result, StreamId};

/// An event of one device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventId {
    /// The device it belongs to.
    pub device: DeviceId,
    /// The backend's own handle.
    pub raw: u64,
}

/// What an event is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct EventFlags {
    /// Takes no time stamp: lighter.
    pub disable_timing: bool,
    /// Can be opened by another process. Requires `disable_timing`.
    pub interprocess: bool,
    /// A thread that waits sleeps instead of spinning.
    pub blocking_sync: bool,
}

/// An event as another process can open it.
pub type IpcEventHandle = [u8; 64];

/// Ordering and timing.
pub trait EventOps {
    /// Makes an event, not recorded yet.
    ///
    /// # Errors
    /// `InvalidValue` for `interprocess` without `disable_timing`.
    fn event_create(&self, device: DeviceId, flags: EventFlags) -> Result<EventId>;

    /// Destroys an event. Waits already enqueued keep their meaning.
    ///
    /// # Safety
    /// The event came from this backend and is not used again.
    unsafe fn event_destroy(&self, event: EventId) -> Result<()>;

    /// Marks what the stream holds so far. Recording again replaces the mark, and does not move
    /// waits that were enqueued before.
    ///
    /// # Errors
    /// `InvalidHandle` where event and stream are of different devices.
    fn event_record(&self, event: EventId, stream: StreamId) -> Result<()>;

    /// True once the mark is reached, and for an event that was never recorded. Never waits.
    fn event_query(&self, event: EventId) -> Result<bool>;

    /// Waits until the mark is reached. Returns at once for an event that was never recorded.
    fn event_synchronize(&self, event: EventId) -> Result<()>;

    /// Makes later work of the stream wait for the mark as it stands now. For an event that was
    /// never recorded this does nothing. The stream may be of another device.
    fn stream_wait_event(&self, stream: StreamId, event: EventId) -> Result<()>;

    /// Nanoseconds between two marks; the resolution of a real device is about 500 ns.
    ///
    /// # Errors
    /// `NotReady` where a mark is not reached yet, `InvalidHandle` for events without timing or
    /// never recorded.
    fn event_elapsed_ns(&self, from: EventId, to: EventId) -> Result<f64>;

    /// The handle of an interprocess event.
    ///
    /// # Errors
    /// `InvalidHandle` or `InvalidValue` for an event that is not interprocess.
    fn event_export(&self, event: EventId) -> Result<IpcEventHandle>;

    /// Opens an event of another process.
    fn event_import(&self, device: DeviceId, handle: IpcEventHandle) -> Result<EventId>;
}
