//! Devices: what they tell, and when they are usable.

use crate::failure::{Check, ensure, refused};
use crate::fixture::Context;
use crate::{Outcome, Test};
use pinfold_hal::{DeviceId, ErrorCode, EventFlags, HostAllocFlags, StreamKind};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "device/closed",
        description: "every call on a device that is not open answers InvalidContext",
        finds_closed: true,
        run: closed,
    },
    Test {
        name: "device/open_nests",
        description: "opens nest: the device stays usable until the last close",
        finds_closed: true,
        run: open_nests,
    },
    Test {
        name: "device/info",
        description: "a device tells a name, memory, multiprocessors and whether it is simulated",
        finds_closed: false,
        run: info,
    },
    Test {
        name: "device/out_of_range",
        description: "a device number out of range answers InvalidDevice",
        finds_closed: false,
        run: out_of_range,
    },
    Test {
        name: "device/clock",
        description: "the clock never runs backwards, and work takes time on it",
        finds_closed: false,
        run: clock,
    },
];

fn closed(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    let codes = [ErrorCode::InvalidContext];
    if driver.device_memory(device).is_ok() {
        return Ok(Outcome::Skip("somebody else holds the device open".into()));
    }
    refused("device_memory", driver.device_memory(device), &codes)?;
    // SAFETY: nothing was made under an opening.
    refused("close", unsafe { driver.close(device) }, &codes)?;
    let flags = HostAllocFlags::default();
    refused("host_alloc", driver.host_alloc(device, 4096, flags), &codes)?;
    refused("device_alloc", driver.device_alloc(device, 4096), &codes)?;
    refused(
        "device_synchronize",
        driver.device_synchronize(device),
        &codes,
    )?;
    let stream = driver.stream_create(device, StreamKind::Blocking);
    refused("stream_create", stream, &codes)?;
    let default = driver.default_stream(device);
    refused("stream_query", driver.stream_query(default), &codes)?;
    let event = driver.event_create(device, EventFlags::default());
    refused("event_create", event, &codes)?;
    Ok(Outcome::Pass)
}

fn open_nests(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    // SAFETY: all that is made under the openings is `ensure_clean`'s, which releases it.
    let close = || unsafe { driver.close(device) };
    driver.open(device)?;
    driver.open(device)?;
    close()?;
    let usable = driver.device_memory(device);
    close()?;
    usable?;
    let closed = driver.device_memory(device);
    refused("after the last close", closed, &[ErrorCode::InvalidContext])?;
    driver.open(device)?;
    let again = context.ensure_clean("a second opening");
    close()?;
    again.map(|()| Outcome::Pass)
}

fn info(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    let backend = driver.info();
    let info = driver.device_info(device)?;
    ensure(backend.driver_version >= 11_000, || {
        format!("driver version {}", backend.driver_version)
    })?;
    ensure(info.simulated == backend.simulated, || {
        "device and backend disagree on being simulated".into()
    })?;
    ensure(!info.name.is_empty(), || "no name".into())?;
    ensure(!info.simulated || info.name.contains("simulated"), || {
        format!("the name `{}` does not say that it is simulated", info.name)
    })?;
    ensure(info.multiprocessors > 0 && info.l2_bytes > 0, || {
        format!("{info:?}")
    })?;
    ensure(info.compute_capability.0 > 0, || format!("{info:?}"))?;
    if let Some(link) = info.link {
        ensure(
            link.generation_now <= link.generation_max && link.width_now <= link.width_max,
            || format!("{link:?}"),
        )?;
    }
    let (free, total) = driver.device_memory(device)?;
    ensure(free <= total && total <= info.memory_bytes, || {
        format!(
            "{free} bytes free of {total}, and the device has {}",
            info.memory_bytes
        )
    })?;
    Ok(Outcome::Pass)
}

fn out_of_range(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let count = driver.device_count()?;
    ensure(context.device.0 < count, || format!("{count} devices"))?;
    for absent in [DeviceId(count), DeviceId(u32::MAX)] {
        let codes = [ErrorCode::InvalidDevice];
        refused("device_info", driver.device_info(absent), &codes)?;
        refused("open", driver.open(absent), &codes)?;
        refused("device_memory", driver.device_memory(absent), &codes)?;
    }
    context.ensure_clean("a wrong device number")?;
    Ok(Outcome::Pass)
}

fn clock(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let before = driver.now_ns();
    kernels.spin(stream.id, 1_000_000)?;
    stream.wait()?;
    let after = driver.now_ns();
    ensure(after > before, || format!("{before} ns, then {after} ns"))?;
    Ok(Outcome::Pass)
}
