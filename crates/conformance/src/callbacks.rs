//! Host functions that a stream runs in its turn.

use crate::failure::{Check, ensure, same_bytes};
use crate::fixture::Context;
use crate::host::Kind;
use crate::{Outcome, Test};
use pinfold_hal::StreamKind;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "callbacks/once_and_in_order",
        description: "each host callback runs once, in order, and is dropped",
        finds_closed: false,
        run: once_and_in_order,
    },
    Test {
        name: "callbacks/sees_earlier_work",
        description: "a host callback sees what the stream copied to the host before it",
        finds_closed: false,
        run: sees_earlier_work,
    },
    Test {
        name: "callbacks/later_work_waits",
        description: "later work of the stream sees what a host callback wrote",
        finds_closed: false,
        run: later_work_waits,
    },
];

const BYTES: u64 = 1024;

fn once_and_in_order(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let stream = context.stream(StreamKind::NonBlocking)?;
    kernels.spin(stream.id, 1_000_000)?;
    for number in 0..20 {
        let seen = Arc::clone(&seen);
        let note = move || {
            seen.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(number);
        };
        driver.host_callback(stream.id, Box::new(note))?;
    }
    stream.wait()?;
    let got = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure(got == (0..20).collect::<Vec<_>>(), || {
        format!("ran in the order {got:?}")
    })?;
    let held = Arc::strong_count(&seen);
    ensure(held == 1, || {
        format!("{} callbacks were not dropped", held - 1)
    })?;
    Ok(Outcome::Pass)
}

fn sees_earlier_work(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let device = context.device_memory(BYTES)?;
    let host = context.host(Kind::Pinned, BYTES)?;
    host.write(0, &[0; BYTES as usize])?;
    for round in 1..8 {
        kernels.spin(stream.id, 1_000_000)?;
        device.fill(stream.id, 0, round, BYTES)?;
        host.download(stream.id, 0, &device, 0, BYTES)?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (address, into) = (host.addr.0, Arc::clone(&seen));
        let look = move || {
            let from: *const u8 = std::ptr::with_exposed_provenance(address);
            // SAFETY: the memory is live until the stream was waited for, and the copy into it is
            // done.
            let bytes = unsafe { std::slice::from_raw_parts(from, BYTES as usize) };
            *into.lock().unwrap_or_else(PoisonError::into_inner) = bytes.to_vec();
        };
        driver.host_callback(stream.id, Box::new(look))?;
        // Overwrites what the callback was to see, and therefore has to wait for it.
        device.fill(stream.id, 0, 0x43, BYTES)?;
        host.download(stream.id, 0, &device, 0, BYTES)?;
        stream.wait()?;
        let got = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        same_bytes("what the callback saw", &got, &[round; BYTES as usize])?;
        let after = host.contents()?;
        same_bytes("what came after it", &after, &[0x43; BYTES as usize])?;
    }
    Ok(Outcome::Pass)
}

fn later_work_waits(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let device = context.device_memory(BYTES)?;
    let host = context.host(Kind::Pinned, BYTES)?;
    host.write(0, &[0x10; BYTES as usize])?;
    kernels.spin(stream.id, 1_000_000)?;
    let address = host.addr.0;
    let write = move || {
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the memory is live until the stream was waited for, and nobody else touches it in
        // the callback's turn.
        unsafe { to.write_bytes(0x20, BYTES as usize) };
    };
    driver.host_callback(stream.id, Box::new(write))?;
    host.upload(stream.id, 0, &device, 0, BYTES)?;
    same_bytes(
        "the upload",
        &device.contents(stream.id)?,
        &[0x20; BYTES as usize],
    )?;
    Ok(Outcome::Pass)
}
