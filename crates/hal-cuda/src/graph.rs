//! Capture of a stream's work, and its replay.

use crate::context::{Cuda, call_optional};
use crate::stream;
use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstreamCaptureMode, CUstreamCaptureStatus};
use pinfold_hal::{CaptureStatus, GraphExecId, GraphId, GraphOps, Result, StreamId};
use std::ffi::c_uint;
use std::ptr;

fn graph_handle(graph: GraphId) -> CUgraph {
    ptr::with_exposed_provenance_mut(graph.raw as usize)
}

fn exec_handle(exec: GraphExecId) -> CUgraphExec {
    ptr::with_exposed_provenance_mut(exec.raw as usize)
}

/// The state that a number means. One that is not known yet is no capture that could go on.
fn status_of(number: c_uint) -> CaptureStatus {
    const NONE: c_uint = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as c_uint;
    const ACTIVE: c_uint = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE as c_uint;
    match number {
        NONE => CaptureStatus::None,
        ACTIVE => CaptureStatus::Active,
        _ => CaptureStatus::Invalidated,
    }
}

impl GraphOps for Cuda {
    fn capture_begin(&self, stream: StreamId) -> Result<()> {
        let at = self.enter(stream.device)?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: a `StreamId` stands for a live stream.
        unsafe { call_optional!(at, cuStreamBeginCapture_v2(stream::handle(stream), mode)) }
    }

    fn capture_end(&self, stream: StreamId) -> Result<GraphId> {
        let at = self.enter(stream.device)?;
        let mut graph = ptr::null_mut();
        // SAFETY: `graph` is valid for the write. A broken capture gives an error and no graph.
        unsafe { call_optional!(at, cuStreamEndCapture(stream::handle(stream), &mut graph)) }?;
        Ok(GraphId {
            device: stream.device,
            raw: graph.expose_provenance() as u64,
        })
    }

    fn capture_status(&self, stream: StreamId) -> Result<CaptureStatus> {
        let at = self.enter(stream.device)?;
        let mut number: c_uint = 0;
        let into = ptr::from_mut(&mut number).cast::<CUstreamCaptureStatus>();
        // SAFETY: the driver writes one 32-bit number, which is read back as a number.
        unsafe { call_optional!(at, cuStreamIsCapturing(stream::handle(stream), into)) }?;
        Ok(status_of(number))
    }

    fn graph_instantiate(&self, graph: GraphId) -> Result<GraphExecId> {
        let at = self.enter(graph.device)?;
        let mut exec = ptr::null_mut();
        // SAFETY: `exec` is valid for the write; a `GraphId` stands for a live graph.
        unsafe {
            call_optional!(
                at,
                cuGraphInstantiateWithFlags(&mut exec, graph_handle(graph), 0)
            )
        }?;
        Ok(GraphExecId {
            device: graph.device,
            raw: exec.expose_provenance() as u64,
        })
    }

    unsafe fn graph_launch(&self, exec: GraphExecId, stream: StreamId) -> Result<()> {
        let at = self.enter(stream.device)?;
        // SAFETY: the caller promises the memory that the captured work uses.
        unsafe { call_optional!(at, cuGraphLaunch(exec_handle(exec), stream::handle(stream))) }
    }

    unsafe fn graph_destroy(&self, graph: GraphId) -> Result<()> {
        let at = self.enter(graph.device)?;
        // SAFETY: the caller promises a graph of ours that is not used again.
        unsafe { call_optional!(at, cuGraphDestroy(graph_handle(graph))) }
    }

    unsafe fn graph_exec_destroy(&self, exec: GraphExecId) -> Result<()> {
        let at = self.enter(exec.device)?;
        // SAFETY: the caller promises an executable graph of ours that is not in flight.
        unsafe { call_optional!(at, cuGraphExecDestroy(exec_handle(exec))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_states_are_told_apart_and_new_ones_are_safe() {
        assert_eq!(status_of(0), CaptureStatus::None);
        assert_eq!(status_of(1), CaptureStatus::Active);
        assert_eq!(status_of(2), CaptureStatus::Invalidated);
        assert_eq!(status_of(77), CaptureStatus::Invalidated);
    }
}
