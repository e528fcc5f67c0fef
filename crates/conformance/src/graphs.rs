//! Graphs: capture, replay, and calls that break a capture.

use crate::failure::{Check, Failure, ensure, refused, same_bytes};
use crate::fixture::{Context, Event, noise};
use crate::host::Kind;
use crate::kernels::{added, filled};
use crate::{Outcome, Test};
use pinfold_hal::{CaptureStatus, ErrorCode, GraphExecId, StreamId, StreamKind};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "graphs/replay",
        description: "captured work runs at each launch, not at capture, and reads its input anew",
        finds_closed: false,
        run: replay,
    },
    Test {
        name: "graphs/launches_do_not_overlap",
        description: "two launches of one graph in two streams run one after the other",
        finds_closed: false,
        run: launches_do_not_overlap,
    },
    Test {
        name: "graphs/states",
        description: "a capture begins once and ends once; the default stream has none",
        finds_closed: false,
        run: states,
    },
    Test {
        name: "graphs/broken_by_calls",
        description: "a call that cannot be captured fails and breaks the capture only",
        finds_closed: false,
        run: broken_by_calls,
    },
    Test {
        name: "graphs/captured_event",
        description: "an event recorded in a capture cannot be waited for by the host",
        finds_closed: false,
        run: captured_event,
    },
];

const BYTES: u64 = 4 * 1000;

/// A capture that is ended when it drops, so that a failing test leaves a usable stream.
struct Capture<'a> {
    context: &'a Context,
    stream: StreamId,
    ended: bool,
}

impl<'a> Capture<'a> {
    #[track_caller]
    fn begin(context: &'a Context, stream: StreamId) -> Check<Self> {
        context.driver().capture_begin(stream)?;
        Ok(Capture {
            context,
            stream,
            ended: false,
        })
    }

    /// Ends the capture and makes its graph ready; the graph itself is destroyed at once.
    #[track_caller]
    fn finish(mut self) -> Check<Exec<'a>> {
        let driver = self.context.driver();
        self.ended = true;
        let graph = driver.capture_end(self.stream)?;
        let exec = driver.graph_instantiate(graph);
        // SAFETY: made two lines before and used by nobody else.
        unsafe { driver.graph_destroy(graph) }?;
        Ok(Exec {
            context: self.context,
            id: exec?,
        })
    }

    /// Ends a capture that has to be broken.
    #[track_caller]
    fn finish_broken(mut self, by: &str) -> Check<()> {
        self.ended = true;
        let ended = self.context.driver().capture_end(self.stream);
        refused(by, ended, &[ErrorCode::StreamCaptureInvalidated])
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let driver = self.context.driver();
        // An error only says that the capture was broken, and the test has failed already.
        if let Ok(graph) = driver.capture_end(self.stream) {
            // SAFETY: made one line before.
            let result = unsafe { driver.graph_destroy(graph) };
            self.context.released("a graph", result);
        }
    }
}

/// An executable graph, destroyed when it drops, after all work of the device.
struct Exec<'a> {
    context: &'a Context,
    id: GraphExecId,
}

impl Exec<'_> {
    #[track_caller]
    fn launch(&self, stream: StreamId) -> Check<()> {
        // SAFETY: the memory of the captured work belongs to guards that wait before they free it.
        unsafe { self.context.driver().graph_launch(self.id, stream) }?;
        Ok(())
    }
}

impl Drop for Exec<'_> {
    fn drop(&mut self) {
        self.context.settle();
        // SAFETY: made by `graph_instantiate`; all work of the device is done.
        let result = unsafe { self.context.driver().graph_exec_destroy(self.id) };
        self.context.released("an executable graph", result);
    }
}

fn replay(context: &Context) -> Check<Outcome> {
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let input = context.host(Kind::Pinned, BYTES)?;
    let output = context.host(Kind::Pinned, BYTES)?;
    let base = noise(BYTES, 80);
    let src = context.device_memory(BYTES)?;
    let dst = filled(context, stream.id, &base)?;
    output.write(0, &[0xAB; BYTES as usize])?;
    input.write(0, &[0; BYTES as usize])?;

    let capture = Capture::begin(context, stream.id)?;
    input.upload(stream.id, 0, &src, 0, BYTES)?;
    kernels.add(stream.id, dst.place(), src.place())?;
    output.download(stream.id, 0, &dst, 0, BYTES)?;
    let exec = capture.finish()?;
    stream.wait()?;
    same_bytes(
        "after the capture",
        &output.contents()?,
        &[0xAB; BYTES as usize],
    )?;

    let mut wanted = base;
    for seed in 81..84 {
        let data = noise(BYTES, seed);
        input.write(0, &data)?;
        exec.launch(stream.id)?;
        stream.wait()?;
        wanted = added(&wanted, &data);
        same_bytes("a launch", &output.contents()?, &wanted)?;
    }
    Ok(Outcome::Pass)
}

fn launches_do_not_overlap(context: &Context) -> Check<Outcome> {
    let kernels = context.kernels()?;
    let first = context.stream(StreamKind::NonBlocking)?;
    let second = context.stream(StreamKind::NonBlocking)?;
    let (a, b) = (noise(BYTES, 90), noise(BYTES, 91));
    let dst = filled(context, first.id, &a)?;
    let src = filled(context, first.id, &b)?;
    let capture = Capture::begin(context, first.id)?;
    kernels.spin(first.id, 1_000_000)?;
    kernels.add(first.id, dst.place(), src.place())?;
    let exec = capture.finish()?;
    // The spin comes before the add, so overlapping launches would lose or tear one of them.
    exec.launch(first.id)?;
    exec.launch(second.id)?;
    exec.launch(first.id)?;
    second.wait()?;
    let wanted = added(&added(&added(&a, &b), &b), &b);
    same_bytes("three launches", &dst.contents(first.id)?, &wanted)?;
    Ok(Outcome::Pass)
}

fn states(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let stream = context.stream(StreamKind::NonBlocking)?;
    let status = |wanted: CaptureStatus| {
        let got = driver.capture_status(stream.id)?;
        ensure(got == wanted, || format!("{got:?}, not {wanted:?}"))
    };
    status(CaptureStatus::None)?;
    refused(
        "ending without a capture",
        driver.capture_end(stream.id),
        &[ErrorCode::IllegalState],
    )?;
    refused(
        "capturing the default stream",
        driver.capture_begin(driver.default_stream(context.device)),
        &[ErrorCode::StreamCaptureUnsupported],
    )?;
    let capture = Capture::begin(context, stream.id)?;
    status(CaptureStatus::Active)?;
    let twice = driver.capture_begin(stream.id);
    refused("beginning twice", twice, &[ErrorCode::IllegalState])?;
    drop(capture);
    status(CaptureStatus::None)?;
    stream.wait()?;
    context.ensure_clean("captures")?;
    Ok(Outcome::Pass)
}

/// A call that cannot be captured, by name, and what it answered in a capture of the stream.
type Breaker = (
    &'static str,
    fn(&Context, StreamId) -> pinfold_hal::Result<()>,
);

const BREAKERS: [Breaker; 4] = [
    ("stream_query", |context, stream| {
        context.driver().stream_query(stream).map(drop)
    }),
    ("stream_synchronize", |context, stream| {
        context.driver().stream_synchronize(stream)
    }),
    ("host_callback", |context, stream| {
        context.driver().host_callback(stream, Box::new(|| ()))
    }),
    ("device_alloc", |context, _| {
        let (driver, device) = (context.driver(), context.device);
        let addr = driver.device_alloc(device, 256)?;
        // SAFETY: allocated one line before, and used by nobody.
        unsafe { driver.device_free(device, addr) }
    }),
];

fn broken_by_calls(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let stream = context.stream(StreamKind::NonBlocking)?;
    let memory = context.device_memory(BYTES)?;
    memory.fill(stream.id, 0, 1, BYTES)?;
    stream.wait()?;
    for (name, call) in BREAKERS {
        let capture = Capture::begin(context, stream.id)?;
        memory.fill(stream.id, 0, 2, BYTES)?;
        let answer = call(context, stream.id);
        refused(name, answer, &[ErrorCode::StreamCaptureUnsupported])?;
        let status = driver.capture_status(stream.id)?;
        ensure(status == CaptureStatus::Invalidated, || {
            format!("{status:?} after {name}")
        })?;
        capture.finish_broken(name)?;
        let got = memory.contents(stream.id)?;
        same_bytes("what the capture was to write", &got, &[1; BYTES as usize])?;
    }
    context.ensure_clean("broken captures")?;
    Ok(Outcome::Pass)
}

fn captured_event(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let stream = context.stream(StreamKind::NonBlocking)?;
    let memory = context.device_memory(BYTES)?;
    let event: Event<'_> = context.event()?;
    let capture = Capture::begin(context, stream.id)?;
    memory.fill(stream.id, 0, 2, BYTES)?;
    driver.event_record(event.id, stream.id)?;
    let codes = [
        ErrorCode::CapturedEvent,
        ErrorCode::StreamCaptureUnsupported,
    ];
    let waited = driver.event_synchronize(event.id);
    refused("waiting for it", waited, &codes)?;
    drop(capture);
    // Recording again outside of the capture makes it an ordinary event.
    driver.event_record(event.id, stream.id)?;
    driver.event_synchronize(event.id)?;
    if !driver.event_query(event.id)? {
        return Err(Failure::new("not done after a wait"));
    }
    Ok(Outcome::Pass)
}
