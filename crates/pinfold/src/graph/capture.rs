//! Capture: what a closure enqueues is recorded by the driver, and what it needs by us.
//!
//! The closure gets a stream of its own. No other code has that stream, and no block remembers it,
//! so nobody can ask it for progress, record an event in it or order other work after it, all of
//! which would break the capture or be drawn into it.

use super::replay::Replay;
use super::{Graph, Kept, thread};
use crate::device::Device;
use crate::error::{Error, Refused, Result};
use crate::stream::Stream;
use pinfold_hal::{CaptureStatus, GraphExecId, GraphId};
use std::sync::Arc;

/// How often the end of a capture is tried where the driver refuses it.
const END_ATTEMPTS: u32 = 3;

impl Device {
    /// Records what the closure enqueues on the stream that it is given, to be launched later as
    /// often as wanted; see [`graph`](crate::graph). Nothing runs now. What the closure returns
    /// stays with the graph.
    ///
    /// While the closure runs this thread cannot wait for a device or ask one for progress, and
    /// page-locked memory comes only from what its pool has free: see
    /// [`Memory::reserve`](crate::Memory::reserve).
    ///
    /// # Errors
    /// The closure's; [`Error::Capturing`] inside of another capture; [`Error::Driver`]. What the
    /// closure returned, where it did, comes back in the error, and all buffers are as before.
    pub fn capture<K: Kept>(
        &self,
        record: impl FnOnce(&Stream) -> Result<K>,
    ) -> Result<Graph<K>, Refused<Option<K>>> {
        let refused = |error| Refused::new(error, None);
        let capture = Capture::begin(self).map_err(refused)?;
        let kept = record(&capture.stream).map_err(refused)?;
        match capture.finish() {
            Ok(replay) => Ok(Graph::new(kept, replay)),
            Err(error) => Err(Refused::new(error, Some(kept))),
        }
    }
}

/// A capture that is going on, and ends in any case.
struct Capture {
    stream: Stream,
    is_on: bool,
}

impl Capture {
    fn begin(device: &Device) -> Result<Self> {
        thread::refuse("beginning another capture")?;
        let stream = Stream::recorder(device)?;
        let begun = device.driver().capture_begin(stream.id());
        begun.map_err(Error::driver("beginning a capture"))?;
        thread::begin();
        Ok(Capture {
            stream,
            is_on: true,
        })
    }

    fn finish(mut self) -> Result<Replay> {
        let graph = self.end()?;
        let exec = instantiate(self.stream.device(), graph)?;
        let device = self.stream.device().clone();
        Ok(Replay::new(device, exec, self.stream.take_recording()))
    }

    /// Ends the capture. A stream that the driver does not let go of is leaked.
    fn end(&mut self) -> Result<GraphId> {
        self.is_on = false;
        let (driver, id) = (self.stream.device().driver(), self.stream.id());
        let is_over = || driver.capture_status(id) == Ok(CaptureStatus::None);
        let mut ended = driver.capture_end(id);
        let mut attempts = 1;
        while ended.is_err() && !is_over() {
            if attempts == END_ATTEMPTS {
                std::mem::forget(Arc::clone(self.stream.order()));
                break;
            }
            attempts += 1;
            ended = driver.capture_end(id);
        }
        thread::end();
        ended.map_err(Error::driver("ending a capture"))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if self.is_on
            && let Ok(graph) = self.end()
        {
            destroy(self.stream.device(), graph);
        }
    }
}

fn instantiate(device: &Device, graph: GraphId) -> Result<GraphExecId> {
    let exec = device.driver().graph_instantiate(graph);
    destroy(device, graph);
    exec.map_err(Error::driver("making a graph ready"))
}

fn destroy(device: &Device, graph: GraphId) {
    // SAFETY: the graph came from the end of a capture, and its only holder gives it up. Where this
    // is refused it is leaked.
    let _ = unsafe { device.driver().graph_destroy(graph) };
}
