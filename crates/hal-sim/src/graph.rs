//! Graphs: work captured from a stream once, launched many times.

use crate::Sim;
use crate::capture::Capture;
use crate::error::{bad_handle, invalid};
use crate::operation::Request;
use crate::world::{Tail, World};
use pinfold_hal::{
    CaptureStatus, DeviceId, DriverError, ErrorCode, GraphExecId, GraphId, GraphOps, Result,
    StreamId,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// `CUDA_ERROR_STREAM_CAPTURE_UNMATCHED`: the capture began in another stream.
const UNMATCHED: ErrorCode = ErrorCode::Other(903);
/// `CUDA_ERROR_STREAM_CAPTURE_UNJOINED`: a stream was not joined back.
const UNJOINED: ErrorCode = ErrorCode::Other(904);

/// All graphs and captures.
#[derive(Default)]
pub(crate) struct Graphs {
    pub(crate) captures: BTreeMap<u64, Capture>,
    graphs: BTreeMap<u64, Graph>,
    execs: BTreeMap<u64, Exec>,
}

#[derive(Clone)]
struct Graph {
    device: DeviceId,
    nodes: Arc<[Request]>,
}

struct Exec {
    graph: Graph,
    /// The end of the last launch.
    tail: Option<Tail>,
}

impl Graphs {
    pub(crate) fn count(&self) -> usize {
        self.graphs.len() + self.execs.len()
    }
}

impl GraphOps for Sim {
    fn capture_begin(&self, stream: StreamId) -> Result<()> {
        let call = "cuStreamBeginCapture_v2";
        let mut world = self.enter(call)?;
        if stream.raw == 0 {
            let what = "the default stream cannot be captured";
            let code = ErrorCode::StreamCaptureUnsupported;
            return Err(DriverError::with_detail(code, call, what));
        }
        if world.stream(stream, call)?.capture.is_some() {
            let what = "the stream is being captured already";
            return Err(DriverError::with_detail(
                ErrorCode::IllegalState,
                call,
                what,
            ));
        }
        let id = world.new_id();
        world.stream(stream, call)?.capture = Some(id);
        world.graphs.captures.insert(id, Capture::new(stream));
        Ok(())
    }

    fn capture_end(&self, stream: StreamId) -> Result<GraphId> {
        let call = "cuStreamEndCapture";
        let mut world = self.enter(call)?;
        let Some(id) = world.stream(stream, call)?.capture else {
            let what = "the stream is not being captured";
            return Err(DriverError::with_detail(
                ErrorCode::IllegalState,
                call,
                what,
            ));
        };
        let nodes = world.finish_capture(id, stream, call)?;
        let raw = world.new_id();
        let graph = Graph {
            device: stream.device,
            nodes: nodes.into(),
        };
        world.graphs.graphs.insert(raw, graph);
        Ok(GraphId {
            device: stream.device,
            raw,
        })
    }

    fn capture_status(&self, stream: StreamId) -> Result<CaptureStatus> {
        let call = "cuStreamIsCapturing";
        let mut world = self.enter(call)?;
        let capture = world.stream(stream, call)?.capture;
        let capture = capture.and_then(|id| world.graphs.captures.get(&id));
        Ok(match capture {
            None => CaptureStatus::None,
            Some(capture) if capture.invalid => CaptureStatus::Invalidated,
            Some(_) => CaptureStatus::Active,
        })
    }

    fn graph_instantiate(&self, graph: GraphId) -> Result<GraphExecId> {
        let call = "cuGraphInstantiateWithFlags";
        let mut world = self.enter(call)?;
        world.usable(graph.device, call)?;
        let Some(held) = world.graphs.graphs.get(&graph.raw).cloned() else {
            return Err(world.no_graph(graph.raw, call));
        };
        let raw = world.new_id();
        let exec = Exec {
            graph: held,
            tail: None,
        };
        world.graphs.execs.insert(raw, exec);
        Ok(GraphExecId {
            device: graph.device,
            raw,
        })
    }

    unsafe fn graph_launch(&self, exec: GraphExecId, stream: StreamId) -> Result<()> {
        let call = "cuGraphLaunch";
        let mut world = self.enter(call)?;
        world.stream(stream, call)?;
        let Some(held) = world.graphs.execs.get(&exec.raw) else {
            return Err(world.no_graph(exec.raw, call));
        };
        let (graph, mut tail) = (held.graph.clone(), held.tail);
        if graph.device != stream.device {
            return Err(invalid(call, "the graph was captured on another device"));
        }
        if world.capture_of(stream, call)?.is_some() {
            let what = "a simulated graph cannot be captured into another one";
            return Err(world.break_capture_of(stream, call, what));
        }
        let cost_ns = world.profile().calls.graph_launch_ns.value;
        world.spend(cost_ns);
        let mut works = Vec::with_capacity(graph.nodes.len());
        for request in graph.nodes.iter() {
            let work = world.prepare(call, graph.device, request);
            works.push(work.inspect_err(|e| world.hazards.note(call, e.detail.clone()))?);
        }
        // Only the first operation waits for the device to notice.
        for (n, mut work) in works.into_iter().enumerate() {
            work.start_ps = if n == 0 { work.start_ps } else { 0 };
            work.blocks_host = false;
            tail = Some(world.submit(stream, work, tail));
        }
        if let Some(held) = world.graphs.execs.get_mut(&exec.raw) {
            held.tail = tail;
        }
        Ok(())
    }

    unsafe fn graph_destroy(&self, graph: GraphId) -> Result<()> {
        let call = "cuGraphDestroy";
        let mut world = self.enter(call)?;
        world.usable(graph.device, call)?;
        match world.graphs.graphs.remove(&graph.raw) {
            Some(_) => Ok(()),
            None => Err(world.no_graph(graph.raw, call)),
        }
    }

    unsafe fn graph_exec_destroy(&self, exec: GraphExecId) -> Result<()> {
        let call = "cuGraphExecDestroy";
        let mut world = self.enter(call)?;
        world.usable(exec.device, call)?;
        let Some(held) = world.graphs.execs.remove(&exec.raw) else {
            return Err(world.no_graph(exec.raw, call));
        };
        if let Some(tail) = held.tail
            && world.operations.contains_key(&tail.id)
        {
            self.hazards
                .note(call, "a launch of the graph is in flight");
            world.wait_for(&[tail]);
        }
        Ok(())
    }
}

impl World {
    fn no_graph(&self, raw: u64, call: &'static str) -> DriverError {
        if self.was_given_out(raw) {
            self.hazards
                .note(call, format!("graph {raw} was destroyed"));
        }
        bad_handle(call, format!("there is no graph {raw}"))
    }

    /// Ends a capture in one of its streams; its work, where it is sound.
    fn finish_capture(
        &mut self,
        id: u64,
        stream: StreamId,
        call: &'static str,
    ) -> Result<Vec<Request>> {
        let fail = |code, what: &str| Err(DriverError::with_detail(code, call, what));
        match self.graphs.captures.get(&id) {
            Some(capture) if capture.thread != std::thread::current().id() => {
                let what = "another thread began the capture";
                return fail(ErrorCode::StreamCaptureWrongThread, what);
            }
            Some(capture) if capture.origin != stream => {
                return fail(UNMATCHED, "the capture began in another stream");
            }
            _ => {}
        }
        match self.end_capture(id) {
            Some(capture) if capture.invalid => fail(
                ErrorCode::StreamCaptureInvalidated,
                "an earlier call broke the capture",
            ),
            Some(capture) if !capture.is_joined() => {
                fail(UNJOINED, "a stream that took part was not joined back")
            }
            capture => Ok(capture.map(|capture| capture.nodes).unwrap_or_default()),
        }
    }
}
