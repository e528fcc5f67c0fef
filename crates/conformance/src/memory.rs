//! Page-locked allocation, device addresses, device memory.

use crate::failure::{Check, ensure, refused, same_bytes};
use crate::fixture::{Context, noise};
use crate::host::{Kind, PAGE_BYTES};
use crate::{Outcome, Test};
use pinfold_hal::{ErrorCode, HostAddr, HostAllocFlags, StreamKind};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "memory/host_alloc_flags",
        description: "all eight flag combinations give page-aligned memory that a copy carries",
        finds_closed: false,
        run: host_alloc_flags,
    },
    Test {
        name: "memory/zero_bytes",
        description: "zero bytes of host or device memory answer InvalidValue",
        finds_closed: false,
        run: zero_bytes,
    },
    Test {
        name: "memory/device_address",
        description: "mapped memory has a device address, also inside of an allocation",
        finds_closed: false,
        run: device_address,
    },
    Test {
        name: "memory/device_address_unknown",
        description: "memory that is not page-locked has no device address: InvalidValue",
        finds_closed: false,
        run: device_address_unknown,
    },
    Test {
        name: "memory/device_alloc",
        description: "device memory is aligned to 256 bytes, and allocations do not overlap",
        finds_closed: false,
        run: device_alloc,
    },
    Test {
        name: "memory/out_of_memory",
        description: "an absurd size of device memory answers OutOfMemory, and no more",
        finds_closed: false,
        run: out_of_memory,
    },
];

/// All eight combinations.
fn all_flags() -> impl Iterator<Item = HostAllocFlags> {
    (0..8u8).map(|bits| HostAllocFlags {
        portable: bits & 1 != 0,
        mapped: bits & 2 != 0,
        write_combined: bits & 4 != 0,
    })
}

fn host_alloc_flags(context: &Context) -> Check<Outcome> {
    let stream = context.stream(StreamKind::NonBlocking)?;
    for (seed, flags) in (0..).zip(all_flags()) {
        for bytes in [1, PAGE_BYTES, 3 * PAGE_BYTES + 17] {
            let memory = context.pinned(bytes, flags)?;
            ensure((memory.addr.0 as u64).is_multiple_of(PAGE_BYTES), || {
                format!("{:?} with {flags:?} is not page-aligned", memory.addr)
            })?;
            let wanted = noise(bytes, seed);
            memory.write(0, &wanted)?;
            let device = context.device_memory(bytes)?;
            memory.upload(stream.id, 0, &device, 0, bytes)?;
            // The host does not read the memory itself, which may be write-combined.
            let got = device.contents(stream.id)?;
            same_bytes(&format!("{bytes} bytes with {flags:?}"), &got, &wanted)?;
        }
    }
    Ok(Outcome::Pass)
}

fn zero_bytes(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    let codes = [ErrorCode::InvalidValue];
    for flags in all_flags() {
        refused("host_alloc(0)", driver.host_alloc(device, 0, flags), &codes)?;
    }
    refused("device_alloc(0)", driver.device_alloc(device, 0), &codes)?;
    context.ensure_clean("zero bytes")?;
    Ok(Outcome::Pass)
}

fn device_address(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    let capabilities = driver.device_info(device)?.capabilities;
    if !capabilities.can_map_host_memory {
        return Ok(Outcome::Skip("the device cannot map host memory".into()));
    }
    for kind in [Kind::Mapped, Kind::Registered] {
        let memory = context.host(kind, 2 * PAGE_BYTES)?;
        let start = memory.device_address()?;
        for offset in [1, 64, PAGE_BYTES, 2 * PAGE_BYTES - 1] {
            let inside = driver.device_address(device, memory.addr.offset(offset))?;
            ensure(inside == start.offset(offset), || {
                format!("{kind:?}: {inside:?} is not {offset} bytes after {start:?}")
            })?;
        }
        if kind == Kind::Registered && capabilities.host_pointer_for_registered {
            ensure(start.0 == memory.addr.0 as u64, || {
                format!(
                    "{start:?} is not {:?}, and the capabilities say so",
                    memory.addr
                )
            })?;
        }
    }
    Ok(Outcome::Pass)
}

fn device_address_unknown(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    let heap = context.heap(2 * PAGE_BYTES, 0)?;
    let codes = [ErrorCode::InvalidValue];
    let never = driver.device_address(device, heap.addr);
    refused("ordinary memory", never, &codes)?;
    let null = driver.device_address(device, HostAddr(0));
    refused("the null address", null, &codes)?;
    let mut registered = context.heap(2 * PAGE_BYTES, 0)?;
    registered.register(pinfold_hal::RegisterFlags {
        mapped: true,
        ..Default::default()
    })?;
    registered.device_address()?;
    registered.unregister()?;
    let gone = driver.device_address(device, registered.addr);
    refused("memory that was unregistered", gone, &codes)?;
    context.ensure_clean("an unknown address")?;
    Ok(Outcome::Pass)
}

fn device_alloc(context: &Context) -> Check<Outcome> {
    let stream = context.stream(StreamKind::NonBlocking)?;
    let sizes = [1, 255, 256, 257, 4095, 100_000];
    let blocks = sizes
        .iter()
        .map(|bytes| context.device_memory(*bytes))
        .collect::<Check<Vec<_>>>()?;
    for (byte, block) in (1..).zip(&blocks) {
        ensure(block.addr.0.is_multiple_of(256), || {
            format!("{:?}", block.addr)
        })?;
        block.fill(stream.id, 0, byte, block.bytes)?;
    }
    for (byte, block) in (1..).zip(&blocks) {
        let wanted = vec![byte; block.bytes as usize];
        same_bytes("a block", &block.contents(stream.id)?, &wanted)?;
    }
    Ok(Outcome::Pass)
}

fn out_of_memory(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    let (_, total) = driver.device_memory(device)?;
    let (before, _) = driver.device_memory(device)?;
    for bytes in [total + 1, 1 << 50] {
        let codes = [ErrorCode::OutOfMemory];
        refused("device_alloc", driver.device_alloc(device, bytes), &codes)?;
    }
    let (after, _) = driver.device_memory(device)?;
    ensure(!driver.info().simulated || after == before, || {
        format!("{before} bytes were free, and {after} after the failures")
    })?;
    context.ensure_clean("running out of memory")?;
    Ok(Outcome::Pass)
}
