//! Buffers that a device may be using.

use super::HostBuffer;
use crate::error::{Error, Refused, Result};
use crate::memory::Placement;
use crate::memory::block::Block;
use std::fmt;
use std::time::{Duration, Instant};

/// A host buffer that was handed to a device. The host gets it back by [`wait`](Self::wait).
///
/// A handle can be handed on: to a copy on another stream or device, or to any number of kernels.
/// pinfold orders them. Dropping it frees the memory some time after the device is done
/// ([`Memory::collect`](crate::Memory::collect) says when); leaking it leaks the memory; neither
/// lets the device touch memory that is used for something else.
#[must_use = "the device has the buffer: wait for it, or drop it on purpose"]
pub struct InFlight<B: HostBuffer> {
    buffer: B,
}

impl<B: HostBuffer> InFlight<B> {
    pub(crate) fn new(buffer: B) -> Self {
        InFlight { buffer }
    }

    pub(crate) fn buffer(&self) -> &B {
        &self.buffer
    }

    pub(crate) fn buffer_mut(&mut self) -> &mut B {
        &mut self.buffer
    }

    pub(crate) fn into_buffer(self) -> B {
        self.buffer
    }

    /// The block, where no graph may use it at any time.
    fn unbound(&self) -> Result<&Block> {
        let block = self.buffer.block().0;
        block.check_bound_at_most(0)?;
        Ok(block)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// True for no elements.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Where the buffer is, and why.
    pub fn placement(&self) -> &Placement {
        self.buffer.block().0.placement()
    }

    /// Waits until no device uses the buffer, and gives it back to the host.
    ///
    /// # Errors
    /// What the work failed with; [`Error::InGraph`] while a graph has the buffer. The handle comes
    /// back in the error: the device may still have the buffer.
    pub fn wait(self) -> Result<B, Refused<Self>> {
        match self.unbound().and_then(Block::wait) {
            Ok(()) => Ok(self.buffer),
            Err(error) => Err(Refused::new(error, self)),
        }
    }

    /// As [`wait`](Self::wait), but gives up after `limit` (of real time).
    ///
    /// # Errors
    /// [`Error::Timeout`], or as [`wait`](Self::wait). The handle comes back in the error.
    pub fn wait_for(self, limit: Duration) -> Result<B, Refused<Self>> {
        let start = Instant::now();
        let device = self.buffer.block().0.first_device().clone();
        loop {
            match self.is_done() {
                Ok(true) => return Ok(self.buffer),
                Ok(false) if start.elapsed() < limit => device.driver().pause(),
                Ok(false) => {
                    let diagnosis =
                        "the streams that use the buffer still have work; a kernel may \
                                     be waiting for something that never comes"
                            .to_owned();
                    let error = Error::Timeout {
                        what: "the buffer's work",
                        limit,
                        diagnosis,
                    };
                    return Err(Refused::new(error, self));
                }
                Err(error) => return Err(Refused::new(error, self)),
            }
        }
    }

    /// True once no device uses the buffer, so that [`wait`](Self::wait) returns at once. Never
    /// waits.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn is_done(&self) -> Result<bool> {
        self.unbound()?.is_done()
    }
}

impl<B: HostBuffer> fmt::Debug for InFlight<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight")
            .field("len", &self.len())
            .field("kind", &self.placement().kind())
            .finish()
    }
}
