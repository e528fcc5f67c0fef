//! Streams: queues of work on one device, and the copies and callbacks that go onto them.

use crate::{DeviceAddr, DeviceId, HostAddr, Result};

/// A stream of one device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct StreamId {
    /// The device it belongs to.
    pub device: DeviceId,
    /// The backend's own handle.
    pub raw: u64,
}

/// How a stream stands to the legacy default stream of its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamKind {
    /// Work waits for earlier work of the default stream, and that stream's for this one's.
    Blocking,
    /// No implicit order with the default stream.
    NonBlocking,
}

/// A host function that a stream runs in its turn. It must not call the driver.
pub type HostCallback = Box<dyn FnOnce() + Send>;

/// Queues and what goes onto them.
pub trait StreamOps {
    /// Makes a stream.
    fn stream_create(&self, device: DeviceId, kind: StreamKind) -> Result<StreamId>;

    /// The legacy default stream of a device. Never to be destroyed.
    fn default_stream(&self, device: DeviceId) -> StreamId;

    /// Takes in a stream that other code made: `raw` is the address in a `CUstream`. It stays the
    /// other code's to destroy.
    ///
    /// # Errors
    /// `NotSupported` on a backend that has no such handles.
    ///
    /// # Safety
    /// `raw` is a live `CUstream` of the device's primary context, and outlives the id.
    unsafe fn stream_adopt(&self, device: DeviceId, raw: u64) -> Result<StreamId>;

    /// Destroys a stream. Work already enqueued still runs to its end.
    ///
    /// # Safety
    /// The stream came from [`stream_create`](Self::stream_create) and is not used again.
    unsafe fn stream_destroy(&self, stream: StreamId) -> Result<()>;

    /// True once everything enqueued so far is done. Never waits.
    fn stream_query(&self, stream: StreamId) -> Result<bool>;

    /// Waits until everything enqueued so far is done.
    fn stream_synchronize(&self, stream: StreamId) -> Result<()>;

    /// Waits until everything enqueued on any stream of the device is done.
    fn device_synchronize(&self, device: DeviceId) -> Result<()>;

    /// Copies host memory to device memory. From page-locked memory it returns at once; from
    /// pageable memory the driver may block while it stages.
    ///
    /// One copy stays inside one page-locked range: one registration, or one allocation. A range
    /// that goes on into the next one, even where the two touch, takes a copy for each (measured on
    /// driver 580). Kernels are not bound by this: see [`launch`](crate::ModuleOps::launch).
    ///
    /// # Errors
    /// `InvalidValue` where the host range leaves the page-locked range that it starts in, whatever
    /// follows there, or the device range is not allocated.
    ///
    /// # Safety
    /// Both ranges stay allocated, the source is not written and the target neither read nor
    /// written, until the copy was waited for.
    unsafe fn copy_to_device(
        &self,
        stream: StreamId,
        to: DeviceAddr,
        from: HostAddr,
        bytes: u64,
    ) -> Result<()>;

    /// Copies device memory to host memory; else as [`copy_to_device`](Self::copy_to_device).
    ///
    /// # Safety
    /// As there.
    unsafe fn copy_to_host(
        &self,
        stream: StreamId,
        to: HostAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<()>;

    /// Copies device memory to device memory, of this device or another one.
    ///
    /// # Safety
    /// Both ranges stay allocated until the copy was waited for, and do not overlap.
    unsafe fn copy_on_device(
        &self,
        stream: StreamId,
        to: DeviceAddr,
        from: DeviceAddr,
        bytes: u64,
    ) -> Result<()>;

    /// Sets device memory to one byte value.
    ///
    /// # Safety
    /// The range stays allocated until the operation was waited for.
    unsafe fn fill(&self, stream: StreamId, to: DeviceAddr, byte: u8, bytes: u64) -> Result<()>;

    /// Runs a host function in the stream's turn, on a thread of the driver's. It does not run if
    /// the context is lost before; it is dropped in any case.
    fn host_callback(&self, stream: StreamId, callback: HostCallback) -> Result<()>;
}
