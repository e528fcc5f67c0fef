//! Copies and fills: every kind of host memory, odd sizes and offsets, and ranges that are refused.

use crate::failure::{Check, refused, same_bytes};
use crate::fixture::{Context, noise};
use crate::host::{HostMemory, Kind, PAGE_BYTES};
use crate::{Outcome, Test};
use pinfold_hal::{DeviceAddr, ErrorCode, HostAddr, RegisterFlags, StreamId, StreamKind};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "copies/to_device",
        description: "uploads of any size and offset, from every kind of host memory",
        finds_closed: false,
        run: to_device,
    },
    Test {
        name: "copies/to_host",
        description: "downloads of any size and offset, into every kind of host memory",
        finds_closed: false,
        run: to_host,
    },
    Test {
        name: "copies/on_device",
        description: "copies between device ranges of any size and offset",
        finds_closed: false,
        run: on_device,
    },
    Test {
        name: "copies/fill",
        description: "fills of any size and offset leave the bytes around them alone",
        finds_closed: false,
        run: fill,
    },
    Test {
        name: "copies/large",
        description: "a large copy goes up and down unchanged",
        finds_closed: false,
        run: large,
    },
    Test {
        name: "copies/straddling",
        description: "a copy that leaves the page-locked range it starts in answers InvalidValue",
        finds_closed: false,
        run: straddling,
    },
    Test {
        name: "copies/across_registrations",
        description: "a copy over two registrations that touch answers InvalidValue",
        finds_closed: false,
        run: across_registrations,
    },
    Test {
        name: "copies/unallocated",
        description: "a copy or fill of a device range that is not allocated answers InvalidValue",
        finds_closed: false,
        run: unallocated,
    },
];

/// Room for every size at every offset.
const ROOM: u64 = 72 * 1024;

/// Offset of the source, offset of the target, size.
const SHAPES: [(u64, u64, u64); 14] = [
    (0, 0, 1),
    (1, 0, 1),
    (0, 3, 2),
    (7, 5, 3),
    (0, 0, 4),
    (1, 2, 7),
    (64, 0, 64),
    (3, 129, 255),
    (0, 256, 256),
    (255, 1, 257),
    (4095, 4097, 4096),
    (0, 0, 4097),
    (13, 4001, 65_537),
    (4096, 0, 65_536),
];

/// The target after a copy: the bytes around the copied ones stay as they were.
fn expected(before: &[u8], source: &[u8], shape: (u64, u64, u64)) -> Vec<u8> {
    let (from, to, bytes) = (shape.0 as usize, shape.1 as usize, shape.2 as usize);
    let mut after = before.to_vec();
    after[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
    after
}

fn to_device(context: &Context) -> Check<Outcome> {
    let stream = context.stream(StreamKind::NonBlocking)?;
    let target = context.device_memory(ROOM)?;
    let before = vec![0xEE; ROOM as usize];
    for (seed, kind) in (10..).zip(Kind::ALL) {
        let source = context.host(kind, ROOM)?;
        let data = noise(ROOM, seed);
        source.write(0, &data)?;
        for shape in SHAPES {
            target.fill(stream.id, 0, 0xEE, ROOM)?;
            source.upload(stream.id, shape.0, &target, shape.1, shape.2)?;
            let got = target.contents(stream.id)?;
            let what = format!("{kind:?} {shape:?}");
            same_bytes(&what, &got, &expected(&before, &data, shape))?;
        }
    }
    Ok(Outcome::Pass)
}

fn to_host(context: &Context) -> Check<Outcome> {
    let stream = context.stream(StreamKind::NonBlocking)?;
    let data = noise(ROOM, 20);
    let source = context.device_memory(ROOM)?;
    let staging = context.host(Kind::Pinned, ROOM)?;
    staging.write(0, &data)?;
    staging.upload(stream.id, 0, &source, 0, ROOM)?;
    stream.wait()?;
    let before = vec![0xDD; ROOM as usize];
    // Write-combined memory is left out: the host would have to read it.
    for kind in Kind::ALL.into_iter().filter(|k| *k != Kind::WriteCombined) {
        let target = context.host(kind, ROOM)?;
        for shape in SHAPES {
            target.write(0, &before)?;
            target.download(stream.id, shape.1, &source, shape.0, shape.2)?;
            stream.wait()?;
            let what = format!("{kind:?} {shape:?}");
            same_bytes(&what, &target.contents()?, &expected(&before, &data, shape))?;
        }
    }
    Ok(Outcome::Pass)
}

fn on_device(context: &Context) -> Check<Outcome> {
    let stream = context.stream(StreamKind::NonBlocking)?;
    let data = noise(ROOM, 30);
    let staging = context.host(Kind::Pinned, ROOM)?;
    staging.write(0, &data)?;
    let source = context.device_memory(ROOM)?;
    let target = context.device_memory(ROOM)?;
    staging.upload(stream.id, 0, &source, 0, ROOM)?;
    let before = vec![0xCC; ROOM as usize];
    for shape in SHAPES {
        target.fill(stream.id, 0, 0xCC, ROOM)?;
        target.copy_from(stream.id, shape.1, &source, shape.0, shape.2)?;
        let got = target.contents(stream.id)?;
        same_bytes(
            &format!("{shape:?}"),
            &got,
            &expected(&before, &data, shape),
        )?;
    }
    Ok(Outcome::Pass)
}

fn fill(context: &Context) -> Check<Outcome> {
    let stream = context.stream(StreamKind::NonBlocking)?;
    let target = context.device_memory(ROOM)?;
    for (_, offset, bytes) in SHAPES {
        target.fill(stream.id, 0, 0xBB, ROOM)?;
        target.fill(stream.id, offset, 0x11, bytes)?;
        let mut wanted = vec![0xBB; ROOM as usize];
        wanted[offset as usize..(offset + bytes) as usize].fill(0x11);
        let what = format!("{bytes} bytes at {offset}");
        same_bytes(&what, &target.contents(stream.id)?, &wanted)?;
    }
    Ok(Outcome::Pass)
}

fn large(context: &Context) -> Check<Outcome> {
    const BYTES: u64 = (1 << 20) + 3;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let device = context.device_memory(BYTES)?;
    let data = noise(BYTES, 40);
    for kind in [Kind::Pageable, Kind::Pinned, Kind::Registered] {
        let source = context.host(kind, BYTES)?;
        let target = context.host(kind, BYTES)?;
        source.write(0, &data)?;
        source.upload(stream.id, 0, &device, 0, BYTES)?;
        target.download(stream.id, 0, &device, 0, BYTES)?;
        stream.wait()?;
        same_bytes(&format!("{kind:?}"), &target.contents()?, &data)?;
    }
    Ok(Outcome::Pass)
}

/// Fails unless copies from and to these host ranges are refused and change nothing.
fn ensure_copies_refused(
    context: &Context,
    stream: StreamId,
    memory: &HostMemory<'_>,
    ranges: &[(HostAddr, u64)],
) -> Check<()> {
    let driver = context.driver();
    let before = memory.contents()?;
    let device = context.device_memory(memory.bytes)?;
    device.fill(stream, 0, 0x77, memory.bytes)?;
    driver.stream_synchronize(stream)?;
    for &(host, bytes) in ranges {
        // SAFETY: all of the range is allocated; the copy is refused, and if not, guards wait for
        // it.
        let up = unsafe { driver.copy_to_device(stream, device.addr, host, bytes) };
        refused("an upload", up, &[ErrorCode::InvalidValue])?;
        // SAFETY: as above.
        let down = unsafe { driver.copy_to_host(stream, host, device.addr, bytes) };
        refused("a download", down, &[ErrorCode::InvalidValue])?;
    }
    let got = device.contents(stream)?;
    let untouched = vec![0x77; memory.bytes as usize];
    same_bytes("the device memory", &got, &untouched)?;
    same_bytes("the host memory", &memory.contents()?, &before)
}

fn straddling(context: &Context) -> Check<Outcome> {
    let stream = context.stream(StreamKind::NonBlocking)?;
    let (whole, inner) = (6 * PAGE_BYTES, 2 * PAGE_BYTES);
    let memory = context.heap(whole, 0)?;
    memory.write(0, &noise(whole, 50))?;
    let start = memory.addr.offset(2 * PAGE_BYTES);
    let registration = context.register(start, inner, RegisterFlags::default())?;

    // The last byte before the end, and on into memory that is not page-locked.
    let leaving = [(start, inner + 1), (start.offset(inner - 1), 2)];
    ensure_copies_refused(context, stream.id, &memory, &leaving)?;
    drop(registration);
    context.ensure_clean("copies that straddle")?;
    Ok(Outcome::Pass)
}

fn across_registrations(context: &Context) -> Check<Outcome> {
    const HALF: u64 = 2 * PAGE_BYTES;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let memory = context.heap(2 * HALF, 0)?;
    let data = noise(2 * HALF, 51);
    memory.write(0, &data)?;
    let middle = memory.addr.offset(HALF);
    let first = context.register(memory.addr, HALF, RegisterFlags::default())?;
    let second = context.register(middle, HALF, RegisterFlags::default())?;

    let last = memory.addr.offset(HALF - 1);
    let across = [(memory.addr, 2 * HALF), (last, 2), (last, HALF + 1)];
    ensure_copies_refused(context, stream.id, &memory, &across)?;

    // A copy for each registration brings all of it over.
    let device = context.device_memory(2 * HALF)?;
    for offset in [0, HALF] {
        memory.upload(stream.id, offset, &device, offset, HALF)?;
    }
    same_bytes("two copies", &device.contents(stream.id)?, &data)?;
    drop((first, second));
    context.ensure_clean("copies over two registrations")?;
    Ok(Outcome::Pass)
}

fn unallocated(context: &Context) -> Check<Outcome> {
    /// No driver places memory in the first page.
    const NOWHERE: DeviceAddr = DeviceAddr(64);
    let driver = context.driver();
    let stream = context.stream(StreamKind::NonBlocking)?;
    let pinned = context.host(Kind::Pinned, 64)?;
    let device = context.device_memory(64)?;
    let codes = [ErrorCode::InvalidValue];
    // SAFETY: the copies are refused: nothing is at the address, on any device.
    let (up, down, across, fill) = unsafe {
        (
            driver.copy_to_device(stream.id, NOWHERE, pinned.addr, 64),
            driver.copy_to_host(stream.id, pinned.addr, NOWHERE, 64),
            driver.copy_on_device(stream.id, NOWHERE, device.addr, 64),
            driver.fill(stream.id, NOWHERE, 0, 64),
        )
    };
    refused("an upload", up, &codes)?;
    refused("a download", down, &codes)?;
    refused("a copy on the device", across, &codes)?;
    refused("a fill", fill, &codes)?;
    stream.wait()?;
    context.ensure_clean("an address of nothing")?;
    Ok(Outcome::Pass)
}
