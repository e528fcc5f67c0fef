//! What a test holds of the device: each thing releases itself, and tells where that fails.

use crate::failure::{Check, ensure};
use pinfold_hal::{
    DeviceAddr, DeviceId, Driver, EventFlags, EventId, Result as DriverResult, StreamId, StreamKind,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Where a test runs.
pub struct Context {
    /// The backend.
    pub driver: Arc<dyn Driver>,
    /// The device.
    pub device: DeviceId,
    /// What could not be released.
    left: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Tests are to run on this device of this backend.
    pub fn new(driver: Arc<dyn Driver>, device: DeviceId) -> Self {
        Context {
            driver,
            device,
            left: Mutex::default(),
        }
    }

    /// The backend, as the tests call it.
    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// The same backend with another device.
    pub(crate) fn on(&self, device: DeviceId) -> Self {
        Context::new(Arc::clone(&self.driver), device)
    }

    /// What could not be released so far, and forgets it.
    pub(crate) fn take_left(&self) -> Vec<String> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes a release that failed.
    pub(crate) fn released(&self, what: &str, result: DriverResult<()>) {
        if let Err(error) = result {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            left.push(format!("{what} could not be released: {error}"));
        }
    }

    /// Waits until the device uses nothing any more, so that things may be released.
    pub(crate) fn settle(&self) {
        self.released("work", self.driver.device_synchronize(self.device));
    }

    /// A stream.
    pub(crate) fn stream(&self, kind: StreamKind) -> Check<Stream<'_>> {
        let id = self.driver.stream_create(self.device, kind)?;
        Ok(Stream { context: self, id })
    }

    /// An event with time stamps.
    pub(crate) fn event(&self) -> Check<Event<'_>> {
        self.event_with(EventFlags::default())
    }

    /// An event.
    pub(crate) fn event_with(&self, flags: EventFlags) -> Check<Event<'_>> {
        let id = self.driver.event_create(self.device, flags)?;
        Ok(Event { context: self, id })
    }

    /// Device memory.
    pub(crate) fn device_memory(&self, bytes: u64) -> Check<DeviceMemory<'_>> {
        let addr = self.driver.device_alloc(self.device, bytes)?;
        Ok(DeviceMemory {
            context: self,
            addr,
            bytes,
        })
    }

    /// The backend still works: it tells its memory, and sets and reads back a byte.
    #[track_caller]
    pub(crate) fn ensure_clean(&self, after: &str) -> Check<()> {
        let one = self.device_memory(1)?;
        let stream = self.stream(StreamKind::NonBlocking)?;
        one.fill(stream.id, 0, 0x5A, 1)?;
        let bytes = one.contents(stream.id)?;
        ensure(bytes == [0x5A], || {
            format!("the device does not work after {after}")
        })
    }
}

/// A stream that is destroyed when it drops.
pub(crate) struct Stream<'a> {
    context: &'a Context,
    pub(crate) id: StreamId,
}

impl Stream<'_> {
    /// Waits for everything enqueued.
    #[track_caller]
    pub(crate) fn wait(&self) -> Check<()> {
        Ok(self.context.driver.stream_synchronize(self.id)?)
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `stream_create`, and the id is not used after the guard.
        let result = unsafe { self.context.driver.stream_destroy(self.id) };
        self.context.released("a stream", result);
    }
}

/// An event that is destroyed when it drops.
pub(crate) struct Event<'a> {
    context: &'a Context,
    pub(crate) id: EventId,
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `event_create`, and the id is not used after the guard.
        let result = unsafe { self.context.driver.event_destroy(self.id) };
        self.context.released("an event", result);
    }
}

/// Device memory that is freed when it drops, after all work of the device.
pub(crate) struct DeviceMemory<'a> {
    context: &'a Context,
    pub(crate) addr: DeviceAddr,
    pub(crate) bytes: u64,
}

impl DeviceMemory<'_> {
    /// The address of a range, which is checked to be inside.
    #[track_caller]
    pub(crate) fn range(&self, offset: u64, bytes: u64) -> Check<DeviceAddr> {
        let end = offset.checked_add(bytes);
        ensure(end.is_some_and(|end| end <= self.bytes), || {
            format!("{bytes} bytes at {offset} of {} device bytes", self.bytes)
        })?;
        Ok(self.addr.offset(offset))
    }

    /// Enqueues a fill of a range.
    #[track_caller]
    pub(crate) fn fill(&self, stream: StreamId, offset: u64, byte: u8, bytes: u64) -> Check<()> {
        let to = self.range(offset, bytes)?;
        // SAFETY: the range is inside this allocation, which is freed after all work of the device.
        unsafe { self.context.driver.fill(stream, to, byte, bytes) }?;
        Ok(())
    }

    /// Enqueues a copy of bytes of other device memory.
    #[track_caller]
    pub(crate) fn copy_from(
        &self,
        stream: StreamId,
        to_offset: u64,
        from: &DeviceMemory<'_>,
        from_offset: u64,
        bytes: u64,
    ) -> Check<()> {
        let to = self.range(to_offset, bytes)?;
        let from = from.range(from_offset, bytes)?;
        // SAFETY: both ranges are inside allocations of two guards, which are freed after all work.
        unsafe { self.context.driver.copy_on_device(stream, to, from, bytes) }?;
        Ok(())
    }

    /// All bytes, by way of pageable memory, after everything in the stream.
    #[track_caller]
    pub(crate) fn contents(&self, stream: StreamId) -> Check<Vec<u8>> {
        let mut bytes = vec![0u8; self.bytes as usize];
        let to = pinfold_hal::HostAddr(bytes.as_mut_ptr().expose_provenance());
        let driver = self.context.driver();
        // SAFETY: `bytes` has room, and nobody touches it before the wait. Should the copy be
        // enqueued and the wait fail, `bytes` is leaked: the device might still write.
        let copied = unsafe { driver.copy_to_host(stream, to, self.addr, self.bytes) };
        if let Err(error) = copied.and_then(|()| driver.stream_synchronize(stream)) {
            std::mem::forget(bytes);
            return Err(error.into());
        }
        Ok(bytes)
    }
}

impl Drop for DeviceMemory<'_> {
    fn drop(&mut self) {
        self.context.settle();
        // SAFETY: made by `device_alloc`; all work of the device is done.
        let result = unsafe {
            self.context
                .driver
                .device_free(self.context.device, self.addr)
        };
        self.context.released("device memory", result);
    }
}

/// Bytes without a pattern, the same for the same seed (the generator is SplitMix64, Steele et al.
/// 2014).
pub(crate) fn noise(bytes: u64, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let words = (0..bytes.div_ceil(8)).flat_map(|_| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)).to_le_bytes()
    });
    words.take(bytes as usize).collect()
}
