//! Streams: order inside of one, waiting, and the rule of the legacy default stream.

use crate::failure::{Check, Failure, ensure, same_bytes};
use crate::fixture::Context;
use crate::host::Kind;
use crate::{Outcome, Test};
use pinfold_hal::{ErrorCode, StreamKind};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "streams/order",
        description: "work of one stream takes effect in the order in which it was enqueued",
        finds_closed: false,
        run: order,
    },
    Test {
        name: "streams/host_memory_in_order",
        description: "an upload sees host memory as it is in its turn, whatever comes after it",
        finds_closed: false,
        run: host_memory_in_order,
    },
    Test {
        name: "streams/query",
        description: "a query is false while work runs, never waits, and is true after a wait",
        finds_closed: false,
        run: query,
    },
    Test {
        name: "streams/device_synchronize",
        description: "waiting for the device waits for all of its streams",
        finds_closed: false,
        run: device_synchronize,
    },
    Test {
        name: "streams/default_blocks",
        description: "the default stream waits for blocking streams, and they for it",
        finds_closed: false,
        run: default_blocks,
    },
    Test {
        name: "streams/default_does_not_block",
        description: "the default stream does not wait for non-blocking streams",
        finds_closed: false,
        run: default_does_not_block,
    },
    Test {
        name: "streams/destroy_while_busy",
        description: "work of a stream that is destroyed still runs to its end",
        finds_closed: false,
        run: destroy_while_busy,
    },
    Test {
        name: "streams/adopt",
        description: "a handle that other code made works like a stream made here",
        finds_closed: false,
        run: adopt,
    },
];

const BYTES: u64 = 4096;

fn order(context: &Context) -> Check<Outcome> {
    for kind in [StreamKind::Blocking, StreamKind::NonBlocking] {
        let stream = context.stream(kind)?;
        let host = context.host(Kind::Pinned, BYTES)?;
        let out = context.host(Kind::Pinned, BYTES)?;
        host.write(0, &[1; BYTES as usize])?;
        let a = context.device_memory(BYTES)?;
        let b = context.device_memory(BYTES)?;
        // Each step overwrites a part of what the step before wrote.
        a.fill(stream.id, 0, 9, BYTES)?;
        host.upload(stream.id, 0, &a, 0, BYTES - 1)?;
        b.copy_from(stream.id, 0, &a, 0, BYTES)?;
        a.fill(stream.id, 0, 2, 100)?;
        b.copy_from(stream.id, 200, &a, 0, 200)?;
        a.fill(stream.id, 0, 3, BYTES)?;
        out.download(stream.id, 0, &b, 0, BYTES)?;
        b.fill(stream.id, 0, 4, BYTES)?;
        stream.wait()?;
        let mut wanted = vec![1; BYTES as usize];
        wanted[200..300].fill(2);
        wanted[BYTES as usize - 1] = 9;
        same_bytes("after six steps", &out.contents()?, &wanted)?;
        let [a, b] = [a.contents(stream.id)?, b.contents(stream.id)?];
        same_bytes("the first block", &a, &[3; BYTES as usize])?;
        same_bytes("the second block", &b, &[4; BYTES as usize])?;
    }
    Ok(Outcome::Pass)
}

fn host_memory_in_order(context: &Context) -> Check<Outcome> {
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let host = context.host(Kind::Pinned, BYTES)?;
    let a = context.device_memory(BYTES)?;
    let b = context.device_memory(BYTES)?;
    host.write(0, &[1; BYTES as usize])?;
    a.fill(stream.id, 0, 2, BYTES)?;
    kernels.spin(stream.id, 1_000_000)?;
    host.upload(stream.id, 0, &b, 0, BYTES)?;
    // Overwrites what the upload before it was to read, and then is read itself.
    host.download(stream.id, 0, &a, 0, BYTES)?;
    host.upload(stream.id, 0, &a, 0, BYTES / 2)?;
    a.fill(stream.id, 0, 3, BYTES / 4)?;
    stream.wait()?;
    same_bytes("the download", &host.contents()?, &[2; BYTES as usize])?;
    let [a, b] = [a.contents(stream.id)?, b.contents(stream.id)?];
    same_bytes("the first upload", &b, &[1; BYTES as usize])?;
    let mut wanted = vec![2; BYTES as usize];
    wanted[..BYTES as usize / 4].fill(3);
    same_bytes("the second upload", &a, &wanted)?;
    Ok(Outcome::Pass)
}

fn query(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let stream = context.stream(StreamKind::NonBlocking)?;
    ensure(driver.stream_query(stream.id)?, || {
        "an empty stream is not done".into()
    })?;
    let kernels = context.kernels()?;
    kernels.catch("a query was never false while a kernel ran", |cycles| {
        kernels.spin(stream.id, cycles)?;
        let busy = !driver.stream_query(stream.id)?;
        while !driver.stream_query(stream.id)? {
            driver.pause();
        }
        stream.wait()?;
        ensure(driver.stream_query(stream.id)?, || {
            "not done after a wait".into()
        })?;
        Ok(busy)
    })?;
    Ok(Outcome::Pass)
}

fn device_synchronize(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let kinds = [StreamKind::Blocking, StreamKind::NonBlocking];
    let streams = kinds.map(|kind| context.stream(kind));
    let streams = streams.into_iter().collect::<Check<Vec<_>>>()?;
    let memory = context.device_memory(BYTES)?;
    let out = context.host(Kind::Pinned, BYTES)?;
    for stream in &streams {
        kernels.spin(stream.id, 1_000_000)?;
    }
    memory.fill(streams[1].id, 0, 6, BYTES)?;
    out.download(streams[1].id, 0, &memory, 0, BYTES)?;
    driver.device_synchronize(context.device)?;
    for stream in &streams {
        ensure(driver.stream_query(stream.id)?, || {
            "a stream is not done".into()
        })?;
    }
    same_bytes("a download", &out.contents()?, &[6; BYTES as usize])?;
    Ok(Outcome::Pass)
}

fn default_blocks(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let default = driver.default_stream(context.device);
    let kernels = context.kernels()?;
    let first = context.stream(StreamKind::Blocking)?;
    let last = context.stream(StreamKind::Blocking)?;
    let memory = context.device_memory(BYTES)?;
    let out = context.host(Kind::Pinned, BYTES)?;
    kernels.spin(first.id, 5_000_000)?;
    memory.fill(first.id, 0, 1, BYTES)?;
    // Waits for `first`, though nothing says so.
    memory.fill(default, 0, 2, BYTES / 2)?;
    // Waits for the default stream.
    out.download(last.id, 0, &memory, 0, BYTES)?;
    last.wait()?;
    let mut wanted = vec![1; BYTES as usize];
    wanted[..BYTES as usize / 2].fill(2);
    same_bytes("blocking, default, blocking", &out.contents()?, &wanted)?;
    Ok(Outcome::Pass)
}

fn default_does_not_block(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let default = driver.default_stream(context.device);
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let memory = context.device_memory(BYTES)?;
    let done = context.event()?;
    kernels.catch(
        "the default stream waited for a non-blocking one",
        |cycles| {
            kernels.spin(stream.id, cycles)?;
            memory.fill(default, 0, 1, BYTES)?;
            driver.event_record(done.id, default)?;
            while !driver.event_query(done.id)? {
                driver.pause();
            }
            let overtaken = !driver.stream_query(stream.id)?;
            stream.wait()?;
            Ok(overtaken)
        },
    )?;
    Ok(Outcome::Pass)
}

fn destroy_while_busy(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let memory = context.device_memory(BYTES)?;
    let out = context.host(Kind::Pinned, BYTES)?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    memory.fill(stream.id, 0, 1, BYTES)?;
    kernels.spin(stream.id, 5_000_000)?;
    memory.fill(stream.id, 0, 8, BYTES)?;
    out.download(stream.id, 0, &memory, 0, BYTES)?;
    drop(stream);
    driver.device_synchronize(context.device)?;
    same_bytes("the last copy", &out.contents()?, &[8; BYTES as usize])?;
    Ok(Outcome::Pass)
}

fn adopt(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let stream = context.stream(StreamKind::NonBlocking)?;
    // SAFETY: a stream of this backend, which outlives the adopted id.
    let adopted = match unsafe { driver.stream_adopt(context.device, stream.id.raw) } {
        Ok(adopted) => adopted,
        Err(error) if error.code == ErrorCode::NotSupported => {
            return Ok(Outcome::Skip(
                "the backend has no handles of other code".into(),
            ));
        }
        Err(error) => return Err(Failure::from(error)),
    };
    let memory = context.device_memory(BYTES)?;
    memory.fill(adopted, 0, 5, BYTES)?;
    same_bytes("a fill", &memory.contents(adopted)?, &[5; BYTES as usize])?;
    ensure(driver.stream_query(stream.id)?, || {
        "the stream is not done".into()
    })?;
    Ok(Outcome::Pass)
}
