//! Graphs: capture, what breaks it, and replay.

use crate::common::*;
use pinfold_hal::{
    BackendOps, CaptureStatus, DeviceAddr, ErrorCode, EventOps, GraphExecId, GraphId, GraphOps,
    HostAddr, HostAllocFlags, MemoryOps, Result, StreamId, StreamKind, StreamOps,
};
use pinfold_hal_sim::Policy;

impl Bench {
    fn exec(&self, graph: GraphId) -> GraphExecId {
        self.sim.graph_instantiate(graph).unwrap()
    }

    fn run(&self, exec: GraphExecId, stream: StreamId) -> Result<()> {
        // SAFETY: the tests hold the memory of the graph, or test that it is gone.
        unsafe { self.sim.graph_launch(exec, stream) }
    }

    fn destroy_exec(&self, exec: GraphExecId) {
        // SAFETY: not used again.
        unsafe { self.sim.graph_exec_destroy(exec).unwrap() }
    }

    fn destroy_graph(&self, graph: GraphId) {
        // SAFETY: not used again.
        unsafe { self.sim.graph_destroy(graph).unwrap() }
    }

    fn status(&self, stream: StreamId) -> CaptureStatus {
        self.sim.capture_status(stream).unwrap()
    }

    fn broken(&self) {
        assert_eq!(self.status(self.stream), CaptureStatus::Invalidated);
        let ended = self.sim.capture_end(self.stream).unwrap_err();
        assert_eq!(ended.code, ErrorCode::StreamCaptureInvalidated);
        assert_eq!(self.status(self.stream), CaptureStatus::None);
    }
}

/// Captures a round trip of 64 bytes: up, one more, down.
fn captured(bench: &Bench) -> (GraphId, HostAddr, HostAddr, DeviceAddr) {
    let next = bench.function("next");
    let (from, to) = (bench.host(64), bench.host(64));
    let (x, y) = (bench.device(64), bench.device(64));
    bench.sim.capture_begin(bench.stream).unwrap();
    assert_eq!(bench.status(bench.stream), CaptureStatus::Active);
    bench.up(x, from, 64);
    bench.next(next, x, y, 64);
    bench.down(to, y, 64);
    (bench.sim.capture_end(bench.stream).unwrap(), from, to, x)
}

#[test]
fn captured_work_runs_when_it_is_launched_as_often_as_it_is() {
    for policy in POLICIES {
        let bench = bench(policy);
        let (graph, from, to, _) = captured(&bench);
        bench.sync();
        assert_eq!(read(to, 64), [0; 64], "{policy}");
        let exec = bench.exec(graph);
        bench.destroy_graph(graph);
        for value in [10, 20] {
            write(from, &[value; 64]);
            bench.run(exec, bench.stream).unwrap();
            bench.sync();
            assert_eq!(read(to, 64), [value + 1; 64], "{policy}");
        }
        bench.destroy_exec(exec);
        assert_eq!(bench.sim.live().graphs, 0);
        assert_eq!(bench.sim.hazards(), []);
    }
}

#[test]
fn two_runs_of_one_graph_do_not_overlap() {
    let bench = bench(Policy::Lazy);
    let (graph, _, to, _) = captured(&bench);
    let exec = bench.exec(graph);
    let other = bench.new_stream(StreamKind::NonBlocking);
    bench.run(exec, bench.stream).unwrap();
    bench.run(exec, other).unwrap();
    bench.sim.stream_synchronize(other).unwrap();
    assert!(bench.sim.stream_query(bench.stream).unwrap());
    assert_eq!(read(to, 64), [1; 64]);
}

#[test]
fn another_stream_takes_part_through_events_and_has_to_be_joined() {
    let bench = bench(Policy::Seeded(5));
    let other = bench.new_stream(StreamKind::NonBlocking);
    let (host, x) = (bench.host(64), bench.device(64));
    let (fork, join) = (bench.event(), bench.event());
    let fork_off = || {
        bench.sim.capture_begin(bench.stream).unwrap();
        bench.fill(bench.stream, x, 3, 64).unwrap();
        bench.sim.event_record(fork, bench.stream).unwrap();
        bench.sim.stream_wait_event(other, fork).unwrap();
        bench.try_down(other, host, x, 64).unwrap();
        assert_eq!(bench.status(other), CaptureStatus::Active);
    };
    fork_off();
    let unjoined = bench.sim.capture_end(bench.stream).unwrap_err();
    assert_eq!(unjoined.code, ErrorCode::Other(904));
    assert_eq!(bench.status(other), CaptureStatus::None);

    fork_off();
    bench.sim.event_record(join, other).unwrap();
    bench.sim.stream_wait_event(bench.stream, join).unwrap();
    let graph = bench.sim.capture_end(bench.stream).unwrap();
    bench.run(bench.exec(graph), bench.stream).unwrap();
    bench.sync();
    assert_eq!(read(host, 64), [3; 64]);
    let ended = bench.sim.stream_wait_event(bench.stream, join).unwrap_err();
    assert_eq!(ended.code, ErrorCode::CapturedEvent);
}

#[test]
fn calls_that_cannot_be_captured_break_the_capture() {
    let unsupported = ErrorCode::StreamCaptureUnsupported;
    type Call = fn(&Bench) -> Result<()>;
    let calls: [(Call, ErrorCode); 7] = [
        (|b| b.sim.stream_synchronize(b.stream), unsupported),
        (|b| b.sim.stream_query(b.stream).map(|_| ()), unsupported),
        (|b| b.sim.device_synchronize(DEVICE), unsupported),
        (|b| b.sim.device_alloc(DEVICE, 64).map(|_| ()), unsupported),
        (
            |b| {
                b.sim
                    .host_alloc(DEVICE, 64, HostAllocFlags::default())
                    .map(|_| ())
            },
            unsupported,
        ),
        (
            |b| b.sim.host_callback(b.stream, Box::new(|| ())),
            unsupported,
        ),
        (
            |b| {
                let event = b.event();
                b.sim.event_record(event, b.stream)?;
                b.sim.event_synchronize(event)
            },
            ErrorCode::CapturedEvent,
        ),
    ];
    for (call, code) in calls {
        let bench = bench(Policy::Lazy);
        bench.sim.capture_begin(bench.stream).unwrap();
        assert_eq!(call(&bench).unwrap_err().code, code);
        bench.broken();
        assert_eq!(bench.sim.live().device_bytes, 0);
    }
}

#[test]
fn a_broken_capture_takes_no_more_work() {
    let bench = bench(Policy::Lazy);
    let x = bench.device(64);
    bench.sim.capture_begin(bench.stream).unwrap();
    assert!(bench.sim.device_alloc(DEVICE, 64).is_err());
    let refused = bench.fill(bench.stream, x, 1, 64).unwrap_err();
    assert_eq!(refused.code, ErrorCode::StreamCaptureInvalidated);
    bench.broken();
}

#[test]
fn another_thread_may_allocate_while_this_one_captures() {
    let bench = bench(Policy::Lazy);
    bench.sim.capture_begin(bench.stream).unwrap();
    let sim = &bench.sim;
    std::thread::scope(|scope| {
        scope.spawn(move || sim.device_alloc(DEVICE, 64).unwrap());
    });
    assert_eq!(bench.status(bench.stream), CaptureStatus::Active);
    let end = std::thread::scope(|scope| {
        let ended = scope.spawn(|| sim.capture_end(bench.stream));
        ended.join().unwrap().unwrap_err()
    });
    assert_eq!(end.code, ErrorCode::StreamCaptureWrongThread);
    bench.sim.capture_end(bench.stream).unwrap();
}

#[test]
fn the_default_stream_and_events_from_outside_break_a_capture() {
    let bench = bench(Policy::Lazy);
    let default = bench.sim.default_stream(DEVICE);
    let refused = bench.sim.capture_begin(default).unwrap_err();
    assert_eq!(refused.code, ErrorCode::StreamCaptureUnsupported);

    let blocking = bench.new_stream(StreamKind::Blocking);
    let x = bench.device(64);
    bench.sim.capture_begin(blocking).unwrap();
    let implicit = bench.fill(default, x, 1, 64).unwrap_err();
    assert_eq!(implicit.code, ErrorCode::StreamCaptureImplicit);
    assert_eq!(bench.status(blocking), CaptureStatus::Invalidated);
    assert!(bench.sim.capture_end(blocking).is_err());

    let event = bench.event();
    bench.sim.event_record(event, default).unwrap();
    bench.sim.capture_begin(bench.stream).unwrap();
    let outside = bench
        .sim
        .stream_wait_event(bench.stream, event)
        .unwrap_err();
    assert_eq!(outside.code, ErrorCode::StreamCaptureIsolation);
    bench.broken();
}

#[test]
fn captures_begin_and_end_in_pairs() {
    let bench = bench(Policy::Lazy);
    let ended = bench.sim.capture_end(bench.stream).unwrap_err();
    assert_eq!(ended.code, ErrorCode::IllegalState);
    bench.sim.capture_begin(bench.stream).unwrap();
    let again = bench.sim.capture_begin(bench.stream).unwrap_err();
    assert_eq!(again.code, ErrorCode::IllegalState);
}

#[test]
fn a_graph_whose_memory_is_gone_is_refused_and_noted() {
    let bench = bench(Policy::Lazy);
    let (graph, _, _, x) = captured(&bench);
    let exec = bench.exec(graph);
    bench.free_device(x).unwrap();
    let refused = bench.run(exec, bench.stream).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidValue);
    assert_eq!(bench.sim.hazards().len(), 1);
}

#[test]
fn destroying_a_graph_in_flight_is_a_hazard() {
    let bench = bench(Policy::Lazy);
    let (graph, _, to, _) = captured(&bench);
    let exec = bench.exec(graph);
    bench.run(exec, bench.stream).unwrap();
    bench.destroy_exec(exec);
    assert_eq!(bench.sim.hazards().len(), 1);
    assert_eq!(read(to, 64), [1; 64]);
}
