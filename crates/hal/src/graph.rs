//! Graphs: work captured from a stream once, launched many times.

use crate::{DeviceId, Result, StreamId};

/// A captured graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GraphId {
    /// The device it was captured on.
    pub device: DeviceId,
    /// The backend's own handle.
    pub raw: u64,
}

/// A graph made ready to launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GraphExecId {
    /// The device it was captured on.
    pub device: DeviceId,
    /// The backend's own handle.
    pub raw: u64,
}

/// Whether a stream is being captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureStatus {
    /// Work runs as usual.
    None,
    /// Work is being captured.
    Active,
    /// A call that cannot be captured broke the capture; it has to be ended.
    Invalidated,
}

/// Capture and replay.
pub trait GraphOps {
    /// Starts to capture a stream: from here on its work is noted, not run. Capture is
    /// thread-local: calls that cannot be captured fail on the calling thread only, with
    /// `StreamCaptureUnsupported`, and invalidate the capture.
    ///
    /// # Errors
    /// `StreamCaptureUnsupported` for the legacy default stream, `IllegalState` while a capture is
    /// on.
    fn capture_begin(&self, stream: StreamId) -> Result<()>;

    /// Ends a capture, whatever its state.
    ///
    /// # Errors
    /// `IllegalState` without a capture, `StreamCaptureInvalidated` for one that was broken.
    fn capture_end(&self, stream: StreamId) -> Result<GraphId>;

    /// Whether the stream is being captured.
    fn capture_status(&self, stream: StreamId) -> Result<CaptureStatus>;

    /// Makes a graph ready to launch. The graph itself may be destroyed afterwards.
    fn graph_instantiate(&self, graph: GraphId) -> Result<GraphExecId>;

    /// Enqueues one run of the whole graph. Two runs of one executable graph never overlap.
    ///
    /// # Safety
    /// All memory that the captured work uses is still allocated, and stays so, and is not touched
    /// by the host, until the launch was waited for.
    unsafe fn graph_launch(&self, exec: GraphExecId, stream: StreamId) -> Result<()>;

    /// Destroys a graph.
    ///
    /// # Safety
    /// The graph came from this backend and is not used again.
    unsafe fn graph_destroy(&self, graph: GraphId) -> Result<()>;

    /// Destroys an executable graph.
    ///
    /// # Safety
    /// The graph came from this backend, none of its launches is in flight, and it is not used
    /// again.
    unsafe fn graph_exec_destroy(&self, exec: GraphExecId) -> Result<()>;
}
