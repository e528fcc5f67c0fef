//! Capture and replay, forwarded.

use super::{Hook, Hooked};
use crate::Call;
use pinfold_hal::{CaptureStatus, GraphExecId, GraphId, GraphOps, Result, StreamId};

impl<H: Hook> GraphOps for Hooked<H> {
    fn capture_begin(&self, stream: StreamId) -> Result<()> {
        self.call(Call::CaptureBegin, stream.device, |inner| {
            inner.capture_begin(stream)
        })
    }

    fn capture_end(&self, stream: StreamId) -> Result<GraphId> {
        self.call(Call::CaptureEnd, stream.device, |inner| {
            inner.capture_end(stream)
        })
    }

    fn capture_status(&self, stream: StreamId) -> Result<CaptureStatus> {
        self.call(Call::CaptureStatus, stream.device, |inner| {
            inner.capture_status(stream)
        })
    }

    fn graph_instantiate(&self, graph: GraphId) -> Result<GraphExecId> {
        self.call(Call::GraphInstantiate, graph.device, |inner| {
            inner.graph_instantiate(graph)
        })
    }

    unsafe fn graph_launch(&self, exec: GraphExecId, stream: StreamId) -> Result<()> {
        self.call(Call::GraphLaunch, stream.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.graph_launch(exec, stream) }
        })
    }

    unsafe fn graph_destroy(&self, graph: GraphId) -> Result<()> {
        self.call(Call::GraphDestroy, graph.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.graph_destroy(graph) }
        })
    }

    unsafe fn graph_exec_destroy(&self, exec: GraphExecId) -> Result<()> {
        self.call(Call::GraphExecDestroy, exec.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.graph_exec_destroy(exec) }
        })
    }
}
