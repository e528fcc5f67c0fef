//! Capture: work that is noted for a graph instead of being run.
//!
//! A capture starts with one stream. Others join it by waiting for an event that was recorded in
//! it, and have to be joined back, by events too, before it ends. What each stream has seen of the
//! others is counted, so that the end can tell.

use crate::operation::Request;
use crate::world::World;
use pinfold_hal::{DriverError, ErrorCode, Result, StreamId};
use std::collections::BTreeMap;
use std::thread::ThreadId;

/// Most operations in one capture.
const NODES_MAX: usize = 1 << 16;

/// For each stream of a capture, how many of its operations come before.
pub(crate) type Seen = BTreeMap<StreamId, usize>;

/// A capture that is going on.
pub(crate) struct Capture {
    pub(crate) origin: StreamId,
    pub(crate) thread: ThreadId,
    pub(crate) invalid: bool,
    /// In the order of the calls, which is an order to run in.
    pub(crate) nodes: Vec<Request>,
    /// What each stream that takes part has seen.
    seen: BTreeMap<StreamId, Seen>,
}

impl Capture {
    pub(crate) fn new(origin: StreamId) -> Self {
        Capture {
            origin,
            thread: std::thread::current().id(),
            invalid: false,
            nodes: Vec::new(),
            seen: BTreeMap::from([(origin, Seen::new())]),
        }
    }

    pub(crate) fn streams(&self) -> Vec<StreamId> {
        self.seen.keys().copied().collect()
    }

    /// True where the first stream has seen all that the others did.
    pub(crate) fn is_joined(&self) -> bool {
        let Some(origin) = self.seen.get(&self.origin) else {
            return false;
        };
        self.seen.iter().all(|(stream, seen)| {
            let done = seen.get(stream).copied().unwrap_or(0);
            origin.get(stream).copied().unwrap_or(0) >= done
        })
    }
}

fn refusal(code: ErrorCode, call: &'static str, what: &str) -> DriverError {
    DriverError::with_detail(code, call, what)
}

impl World {
    /// The capture that work of the stream goes to, if any.
    ///
    /// # Errors
    /// `StreamCaptureInvalidated` where it is broken, and `StreamCaptureImplicit` for work on the
    /// default stream that captured streams would have to wait for.
    pub(crate) fn capture_of(
        &mut self,
        stream: StreamId,
        call: &'static str,
    ) -> Result<Option<u64>> {
        if stream.raw == 0 {
            self.refuse_implicit(stream, call)?;
        }
        let Some(capture) = self.stream(stream, call)?.capture else {
            return Ok(None);
        };
        match self.graphs.captures.get_mut(&capture) {
            Some(Capture { invalid: true, .. }) => {
                let what = "an earlier call broke the capture; it has to be ended";
                Err(refusal(ErrorCode::StreamCaptureInvalidated, call, what))
            }
            Some(held) if held.nodes.len() >= NODES_MAX => {
                held.invalid = true;
                let what = "the capture holds too many operations";
                Err(refusal(ErrorCode::OutOfMemory, call, what))
            }
            _ => Ok(Some(capture)),
        }
    }

    fn refuse_implicit(&mut self, default: StreamId, call: &'static str) -> Result<()> {
        let captured = self.streams.iter().filter_map(|(id, stream)| {
            let blocking = stream.kind == pinfold_hal::StreamKind::Blocking;
            (id.device == default.device && blocking).then_some(stream.capture?)
        });
        let captured: Vec<u64> = captured.collect();
        if captured.is_empty() {
            return Ok(());
        }
        for capture in captured {
            self.invalidate(capture);
        }
        let what = "the default stream would order itself with a stream that is being captured";
        Err(refusal(ErrorCode::StreamCaptureImplicit, call, what))
    }

    pub(crate) fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.graphs.captures.get_mut(&capture) {
            capture.invalid = true;
        }
    }

    /// Notes work.
    pub(crate) fn note(&mut self, capture: u64, stream: StreamId, request: Request) {
        if let Some(capture) = self.graphs.captures.get_mut(&capture) {
            capture.nodes.push(request);
            let seen = capture.seen.entry(stream).or_default();
            *seen.entry(stream).or_default() += 1;
        }
    }

    /// What a stream of a capture has seen so far.
    pub(crate) fn seen_by(&self, capture: u64, stream: StreamId) -> Seen {
        let capture = self.graphs.captures.get(&capture);
        let seen = capture.and_then(|capture| capture.seen.get(&stream));
        seen.cloned().unwrap_or_default()
    }

    /// A stream waits for an event of a capture: it takes part from here on.
    pub(crate) fn join_capture(
        &mut self,
        stream: StreamId,
        capture: u64,
        seen: &Seen,
        call: &'static str,
    ) -> Result<()> {
        let own = self.capture_of(stream, call)?;
        let Some(joined) = self.graphs.captures.get_mut(&capture) else {
            let what = "the event was recorded in a capture that has ended";
            return Err(refusal(ErrorCode::CapturedEvent, call, what));
        };
        if own.is_some_and(|own| own != capture) {
            joined.invalid = true;
            return Err(self.break_capture_of(stream, call, "two captures would become one"));
        }
        if stream.device != joined.origin.device {
            joined.invalid = true;
            let what = "a simulated capture stays on one device";
            return Err(refusal(ErrorCode::StreamCaptureUnsupported, call, what));
        }
        let known = joined.seen.entry(stream).or_default();
        for (&other, &count) in seen {
            let held = known.entry(other).or_default();
            *held = count.max(*held);
        }
        self.stream(stream, call)?.capture = Some(capture);
        Ok(())
    }

    /// A captured stream would wait for work outside of its capture.
    pub(crate) fn isolate_capture(&mut self, stream: StreamId, call: &'static str) -> Result<()> {
        let what = "the event was recorded outside of the capture";
        self.break_capture_of(stream, call, what);
        Err(refusal(ErrorCode::StreamCaptureIsolation, call, what))
    }

    /// Breaks the capture that a stream takes part in; the error to give back.
    pub(crate) fn break_capture_of(
        &mut self,
        stream: StreamId,
        call: &'static str,
        what: &str,
    ) -> DriverError {
        if let Some(capture) = self.streams.get(&stream).and_then(|stream| stream.capture) {
            self.invalidate(capture);
        }
        refusal(ErrorCode::StreamCaptureUnsupported, call, what)
    }

    /// Refuses a call that may not be made while this thread captures, and breaks its captures.
    pub(crate) fn refuse_in_capture(&mut self, call: &'static str) -> Result<()> {
        let thread = std::thread::current().id();
        let mut refused = false;
        for capture in self.graphs.captures.values_mut() {
            if capture.thread == thread {
                capture.invalid = true;
                refused = true;
            }
        }
        if !refused {
            return Ok(());
        }
        let what = "not possible while this thread captures a stream";
        Err(refusal(ErrorCode::StreamCaptureUnsupported, call, what))
    }

    /// A stream is destroyed: a capture that it takes part in is broken, or over where it began
    /// there.
    pub(crate) fn leave_capture(&mut self, stream: StreamId, call: &'static str) {
        let Some(id) = self.streams.get(&stream).and_then(|stream| stream.capture) else {
            return;
        };
        self.hazards.note(call, "the stream is being captured");
        self.invalidate(id);
        let began_here = self
            .graphs
            .captures
            .get(&id)
            .is_some_and(|c| c.origin == stream);
        if began_here {
            self.end_capture(id);
        }
    }

    /// Ends a capture: its streams run again.
    pub(crate) fn end_capture(&mut self, id: u64) -> Option<Capture> {
        let capture = self.graphs.captures.remove(&id)?;
        for stream in capture.streams() {
            if let Some(stream) = self.streams.get_mut(&stream) {
                stream.capture = None;
            }
        }
        Some(capture)
    }
}
