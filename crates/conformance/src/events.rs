//! Events: marks, waits between streams, times.

use crate::failure::{Check, ensure, refused, same_bytes};
use crate::fixture::Context;
use crate::host::Kind;
use crate::{Outcome, Test};
use pinfold_hal::{ErrorCode, EventFlags, StreamKind};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "events/unrecorded",
        description: "an event that was never recorded is done, and a wait for it does nothing",
        finds_closed: false,
        run: unrecorded,
    },
    Test {
        name: "events/marks_what_is_there",
        description: "an event is false while earlier work runs, and does not wait for later work",
        finds_closed: false,
        run: marks_what_is_there,
    },
    Test {
        name: "events/record_again",
        description: "recording again replaces the mark and leaves waits enqueued before alone",
        finds_closed: false,
        run: record_again,
    },
    Test {
        name: "events/orders_streams",
        description: "a wait orders the work of two streams",
        finds_closed: false,
        run: orders_streams,
    },
    Test {
        name: "events/destroyed_after_wait",
        description: "a wait keeps its meaning when the event is destroyed",
        finds_closed: false,
        run: destroyed_after_wait,
    },
    Test {
        name: "events/elapsed",
        description: "the time between two marks is positive where work lies between them",
        finds_closed: false,
        run: elapsed,
    },
    Test {
        name: "events/elapsed_errors",
        description: "no time without marks (InvalidHandle) or before they are reached (NotReady)",
        finds_closed: false,
        run: elapsed_errors,
    },
    Test {
        name: "events/interprocess",
        description: "an interprocess event needs disable_timing, and only such a one is exported",
        finds_closed: false,
        run: interprocess,
    },
];

const BYTES: u64 = 4096;

fn unrecorded(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let stream = context.stream(StreamKind::NonBlocking)?;
    let all = [false, true];
    for (disable_timing, blocking_sync) in all.iter().flat_map(|a| all.map(|b| (*a, b))) {
        let event = context.event_with(EventFlags {
            disable_timing,
            blocking_sync,
            interprocess: false,
        })?;
        ensure(driver.event_query(event.id)?, || "not done".into())?;
        driver.event_synchronize(event.id)?;
        driver.stream_wait_event(stream.id, event.id)?;
        stream.wait()?;
    }
    Ok(Outcome::Pass)
}

fn marks_what_is_there(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let event = context.event()?;
    kernels.catch("the event was done too early or too late", |cycles| {
        kernels.spin(stream.id, cycles)?;
        driver.event_record(event.id, stream.id)?;
        let early = driver.event_query(event.id)?;
        kernels.spin(stream.id, cycles)?;
        driver.event_synchronize(event.id)?;
        let late = driver.stream_query(stream.id)?;
        ensure(driver.event_query(event.id)?, || {
            "not done after a wait".into()
        })?;
        stream.wait()?;
        Ok(!early && !late)
    })?;
    Ok(Outcome::Pass)
}

fn record_again(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let [quick, busy, waiting] = [(); 3].map(|()| context.stream(StreamKind::NonBlocking));
    let (quick, busy, waiting) = (quick?, busy?, waiting?);
    let memory = context.device_memory(BYTES)?;
    let (event, done) = (context.event()?, context.event()?);
    kernels.catch("the first wait moved, or the mark did not", |cycles| {
        driver.event_record(event.id, quick.id)?;
        quick.wait()?;
        ensure(driver.event_query(event.id)?, || {
            "the first mark is not reached".into()
        })?;
        driver.stream_wait_event(waiting.id, event.id)?;
        kernels.spin(busy.id, cycles)?;
        driver.event_record(event.id, busy.id)?;
        let moved = !driver.event_query(event.id)?;
        memory.fill(waiting.id, 0, 1, BYTES)?;
        driver.event_record(done.id, waiting.id)?;
        while !driver.event_query(done.id)? {
            driver.pause();
        }
        let kept = !driver.stream_query(busy.id)?;
        driver.event_synchronize(event.id)?;
        ensure(driver.stream_query(busy.id)?, || {
            "the second mark came early".into()
        })?;
        Ok(moved && kept)
    })?;
    Ok(Outcome::Pass)
}

fn orders_streams(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let writer = context.stream(StreamKind::NonBlocking)?;
    let reader = context.stream(StreamKind::NonBlocking)?;
    let memory = context.device_memory(BYTES)?;
    let out = context.host(Kind::Pinned, BYTES)?;
    let (written, read) = (context.event()?, context.event()?);
    for byte in 1..6 {
        kernels.spin(writer.id, 1_000_000)?;
        memory.fill(writer.id, 0, byte, BYTES)?;
        driver.event_record(written.id, writer.id)?;
        driver.stream_wait_event(reader.id, written.id)?;
        out.download(reader.id, 0, &memory, 0, BYTES)?;
        driver.event_record(read.id, reader.id)?;
        // The next round may overwrite only what was read.
        driver.stream_wait_event(writer.id, read.id)?;
        memory.fill(writer.id, 0, 0, BYTES)?;
        driver.event_synchronize(read.id)?;
        same_bytes("the reader", &out.contents()?, &[byte; BYTES as usize])?;
    }
    Ok(Outcome::Pass)
}

fn destroyed_after_wait(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let writer = context.stream(StreamKind::NonBlocking)?;
    let reader = context.stream(StreamKind::NonBlocking)?;
    let memory = context.device_memory(BYTES)?;
    let out = context.host(Kind::Pinned, BYTES)?;
    memory.fill(writer.id, 0, 1, BYTES)?;
    kernels.spin(writer.id, 5_000_000)?;
    memory.fill(writer.id, 0, 2, BYTES)?;
    let event = context.event()?;
    driver.event_record(event.id, writer.id)?;
    driver.stream_wait_event(reader.id, event.id)?;
    drop(event);
    out.download(reader.id, 0, &memory, 0, BYTES)?;
    reader.wait()?;
    same_bytes("the reader", &out.contents()?, &[2; BYTES as usize])?;
    Ok(Outcome::Pass)
}

fn elapsed(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let marks = [context.event()?, context.event()?, context.event()?];
    driver.event_record(marks[0].id, stream.id)?;
    kernels.spin(stream.id, 5_000_000)?;
    driver.event_record(marks[1].id, stream.id)?;
    kernels.spin(stream.id, 5_000_000)?;
    driver.event_record(marks[2].id, stream.id)?;
    stream.wait()?;
    let first = driver.event_elapsed_ns(marks[0].id, marks[1].id)?;
    let second = driver.event_elapsed_ns(marks[1].id, marks[2].id)?;
    let both = driver.event_elapsed_ns(marks[0].id, marks[2].id)?;
    ensure(first > 0.0 && second > 0.0, || {
        format!("{first} ns and {second} ns")
    })?;
    // Half a microsecond is the resolution that the contract names, for each of the three.
    ensure((both - first - second).abs() <= 1500.0, || {
        format!("{first} ns and {second} ns are not {both} ns")
    })?;
    Ok(Outcome::Pass)
}

fn elapsed_errors(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let (from, to, never) = (context.event()?, context.event()?, context.event()?);
    driver.event_record(from.id, stream.id)?;
    stream.wait()?;
    let invalid = [ErrorCode::InvalidHandle];
    let unset = driver.event_elapsed_ns(from.id, never.id);
    refused("to an event never recorded", unset, &invalid)?;
    let unset = driver.event_elapsed_ns(never.id, from.id);
    refused("from an event never recorded", unset, &invalid)?;

    let untimed = context.event_with(EventFlags {
        disable_timing: true,
        ..EventFlags::default()
    })?;
    driver.event_record(untimed.id, stream.id)?;
    stream.wait()?;
    let unset = driver.event_elapsed_ns(from.id, untimed.id);
    refused("to an event without timing", unset, &invalid)?;

    kernels.catch("no time was ever refused while a kernel ran", |cycles| {
        kernels.spin(stream.id, cycles)?;
        driver.event_record(to.id, stream.id)?;
        let early = driver.event_elapsed_ns(from.id, to.id);
        let running = !driver.event_query(to.id)?;
        stream.wait()?;
        if running {
            refused("before the mark", early, &[ErrorCode::NotReady])?;
        }
        Ok(running)
    })?;
    driver.event_elapsed_ns(from.id, to.id)?;
    Ok(Outcome::Pass)
}

fn interprocess(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    let timed = EventFlags {
        interprocess: true,
        ..EventFlags::default()
    };
    let created = driver.event_create(device, timed);
    refused("with timing", created, &[ErrorCode::InvalidValue])?;
    if !driver.device_info(device)?.capabilities.ipc_events {
        return Ok(Outcome::Skip(
            "the device shares no events between processes".into(),
        ));
    }
    let shared = EventFlags {
        disable_timing: true,
        ..timed
    };
    let (first, second) = (context.event_with(shared)?, context.event_with(shared)?);
    let handles = [
        driver.event_export(first.id)?,
        driver.event_export(second.id)?,
    ];
    ensure(handles[0] != handles[1], || {
        "two events have one handle".into()
    })?;
    let private = context.event()?;
    let codes = [ErrorCode::InvalidHandle, ErrorCode::InvalidValue];
    refused(
        "of a private event",
        driver.event_export(private.id),
        &codes,
    )?;
    context.ensure_clean("exports")?;
    Ok(Outcome::Pass)
}
