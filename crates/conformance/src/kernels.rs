//! Kernels: over device and mapped memory, and launches that are refused.

use crate::failure::{Check, Failure, ensure, refused, same_bytes};
use crate::fixture::{Context, DeviceMemory, noise};
use crate::host::{Kind, PAGE_BYTES};
use crate::image::{ADD, BROKEN_PTX, add_result};
use crate::launcher::{Kernels, Place, memory, scalar};
use crate::{Outcome, Test};
use pinfold_hal::{
    Access, ErrorCode, FunctionId, Launch, ModuleImage, RegisterFlags, StreamId, StreamKind,
};
use std::borrow::Cow;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "kernels/device_memory",
        description: "a kernel computes over device memory",
        finds_closed: false,
        run: over_device_memory,
    },
    Test {
        name: "kernels/mapped_memory",
        description: "a kernel computes in place over mapped and over registered host memory",
        finds_closed: false,
        run: over_mapped_memory,
    },
    Test {
        name: "kernels/across_registrations",
        description: "a kernel computes in place over memory of two registrations that touch",
        finds_closed: false,
        run: across_registrations,
    },
    Test {
        name: "kernels/host_sees_publication",
        description: "a host that polls mapped memory sees a kernel's flag, and the data before it",
        finds_closed: false,
        run: host_sees_publication,
    },
    Test {
        name: "kernels/unknown_name",
        description: "a kernel that is not in the module answers NotFound",
        finds_closed: false,
        run: unknown_name,
    },
    Test {
        name: "kernels/bad_shapes",
        description: "an empty or too large grid or block is refused and enqueues nothing",
        finds_closed: false,
        run: bad_shapes,
    },
    Test {
        name: "kernels/broken_ptx",
        description: "PTX that does not compile answers InvalidPtx with the compiler's words",
        finds_closed: false,
        run: broken_ptx,
    },
    Test {
        name: "kernels/two_modules",
        description: "the same kernels load twice, and unloading one leaves the other alone",
        finds_closed: false,
        run: two_modules,
    },
];

/// Numbers of elements, around the size of a block and above it.
const COUNTS: [u64; 5] = [1, 127, 128, 129, 5000];

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| u32::from_ne_bytes(*b))
        .collect()
}

/// What the kernel makes of the bytes.
pub(crate) fn added(dst: &[u8], src: &[u8]) -> Vec<u8> {
    let pairs = words(dst).into_iter().zip(words(src));
    pairs
        .flat_map(|(dst, src)| add_result(dst, src).to_ne_bytes())
        .collect()
}

/// Device memory with these bytes.
pub(crate) fn filled<'a>(
    context: &'a Context,
    stream: StreamId,
    bytes: &[u8],
) -> Check<DeviceMemory<'a>> {
    let staging = context.host(Kind::Pinned, bytes.len() as u64)?;
    staging.write(0, bytes)?;
    let device = context.device_memory(bytes.len() as u64)?;
    staging.upload(stream, 0, &device, 0, bytes.len() as u64)?;
    context.driver().stream_synchronize(stream)?;
    Ok(device)
}

fn over_device_memory(context: &Context) -> Check<Outcome> {
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    for count in COUNTS {
        let (a, b) = (noise(4 * count, count), noise(4 * count, count + 1));
        let dst = filled(context, stream.id, &a)?;
        let src = filled(context, stream.id, &b)?;
        kernels.add(stream.id, dst.place(), src.place())?;
        let once = added(&a, &b);
        same_bytes("one launch", &dst.contents(stream.id)?, &once)?;
        kernels.add(stream.id, dst.place(), src.place())?;
        kernels.add(stream.id, dst.place(), src.place())?;
        let thrice = added(&added(&once, &b), &b);
        same_bytes("three launches", &dst.contents(stream.id)?, &thrice)?;
    }
    Ok(Outcome::Pass)
}

fn over_mapped_memory(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    if !driver.device_info(device)?.capabilities.can_map_host_memory {
        return Ok(Outcome::Skip("the device cannot map host memory".into()));
    }
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    for kind in [Kind::Mapped, Kind::Registered] {
        for count in COUNTS {
            let (a, b) = (noise(4 * count, count + 2), noise(4 * count, count + 3));
            let dst = context.host(kind, 4 * count)?;
            let src = context.host(kind, 4 * count)?;
            dst.write(0, &a)?;
            src.write(0, &b)?;
            kernels.add(stream.id, dst.place()?, src.place()?)?;
            stream.wait()?;
            same_bytes(&format!("{kind:?}"), &dst.contents()?, &added(&a, &b))?;
            // The host changes the source in place, and the next launch sees that.
            src.write(0, &a)?;
            kernels.add(stream.id, dst.place()?, src.place()?)?;
            stream.wait()?;
            let wanted = added(&added(&a, &b), &a);
            same_bytes(&format!("{kind:?} again"), &dst.contents()?, &wanted)?;
        }
    }
    Ok(Outcome::Pass)
}

fn across_registrations(context: &Context) -> Check<Outcome> {
    const FIRST: u64 = PAGE_BYTES;
    const BYTES: u64 = 3 * PAGE_BYTES;
    let (driver, device) = (context.driver(), context.device);
    if !driver.device_info(device)?.capabilities.can_map_host_memory {
        return Ok(Outcome::Skip("the device cannot map host memory".into()));
    }
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let (dst, src) = (context.heap(BYTES, 0)?, context.heap(BYTES, 0)?);
    let (a, b) = (noise(BYTES, 4), noise(BYTES, 5));
    dst.write(0, &a)?;
    src.write(0, &b)?;
    let mapped = RegisterFlags {
        mapped: true,
        ..RegisterFlags::default()
    };
    let mut registrations = Vec::new();
    for memory in [&dst, &src] {
        let middle = memory.addr.offset(FIRST);
        registrations.push(context.register(memory.addr, FIRST, mapped)?);
        registrations.push(context.register(middle, BYTES - FIRST, mapped)?);
        let behind = driver.device_address(device, middle)?;
        if behind != memory.device_address()?.offset(FIRST) {
            let reason = "device addresses of registrations that touch do not touch";
            return Ok(Outcome::Skip(reason.into()));
        }
    }
    kernels.add(stream.id, dst.place()?, src.place()?)?;
    stream.wait()?;
    same_bytes("the memory", &dst.contents()?, &added(&a, &b))?;
    Ok(Outcome::Pass)
}

fn host_sees_publication(context: &Context) -> Check<Outcome> {
    /// More looks than any kernel of this suite takes, at the pace of a host.
    const LOOKS_MAX: u64 = 2_000_000_000;
    const VALUE: u32 = 0xC0DE;
    const COUNT: u64 = 100;
    let (driver, device) = (context.driver(), context.device);
    if !driver.device_info(device)?.capabilities.can_map_host_memory {
        return Ok(Outcome::Skip("the device cannot map host memory".into()));
    }
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let (data, flag) = (
        context.host(Kind::Mapped, 4 * COUNT)?,
        context.host(Kind::Mapped, 4)?,
    );
    data.write(0, &vec![0; 4 * COUNT as usize])?;
    flag.write(0, &[0; 4])?;
    kernels.publish(stream.id, data.place()?, flag.place()?, VALUE)?;
    let published: *const u32 = std::ptr::with_exposed_provenance(flag.addr.0);
    let mut looks = 0;
    // SAFETY: live, aligned memory that only the kernel writes; a volatile read is made each time.
    while unsafe { published.read_volatile() } != VALUE {
        looks += 1;
        ensure(looks < LOOKS_MAX, || "the flag never came".into())?;
        driver.pause();
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
    let got = words(&data.contents()?);
    stream.wait()?;
    ensure(
        got.iter().zip(VALUE..).all(|(got, wanted)| *got == wanted),
        || format!("the data before the flag: {got:x?}"),
    )?;
    Ok(Outcome::Pass)
}

fn unknown_name(context: &Context) -> Check<Outcome> {
    let driver = context.driver();
    let kernels = context.kernels()?;
    let nameless = driver.function(kernels.module, "");
    refused("an empty name", nameless, &[ErrorCode::InvalidValue])?;
    for name in ["conf_absent", "conf_add", "conf_add_u32\0"] {
        let found = driver.function(kernels.module, name);
        refused(&format!("{name:?}"), found, &[ErrorCode::NotFound])?;
    }
    driver.function(kernels.module, ADD)?;
    context.ensure_clean("unknown names")?;
    Ok(Outcome::Pass)
}

/// Launches the add kernel over the place, in this shape.
fn shaped(
    context: &Context,
    (kernels, stream): (&Kernels<'_>, StreamId),
    place: Place,
    grid: [u32; 3],
    block: [u32; 3],
) -> Check<pinfold_hal::Result<()>> {
    let function: FunctionId = kernels.add;
    let args = [
        memory(place, Access::ReadWrite),
        memory(place, Access::Read),
        scalar((place.bytes / 4) as u32)?,
    ];
    let launch = Launch {
        grid,
        block,
        shared_bytes: 0,
        args: &args,
    };
    // SAFETY: the arguments are those of the kernel, over memory of a guard; if the launch is not
    // refused after all, the guard waits for it.
    Ok(unsafe { context.driver().launch(stream, function, &launch) })
}

fn bad_shapes(context: &Context) -> Check<Outcome> {
    let kernels = context.kernels()?;
    let stream = context.stream(StreamKind::NonBlocking)?;
    let before = noise(4 * 64, 60);
    let device = filled(context, stream.id, &before)?;
    let at = (&kernels, stream.id);
    let empty = [
        ([0, 1, 1], [32, 1, 1]),
        ([1, 0, 1], [32, 1, 1]),
        ([1, 1, 1], [0, 1, 1]),
        ([1, 1, 1], [32, 1, 0]),
    ];
    for (grid, block) in empty {
        let launched = shaped(context, at, device.place(), grid, block)?;
        let what = format!("grid {grid:?}, block {block:?}");
        refused(&what, launched, &[ErrorCode::InvalidValue])?;
    }
    // Every compute capability so far allows 1024 threads a block, and 65535 blocks in y and z.
    let large = [
        ([1, 1, 1], [1025, 1, 1]),
        ([1, 1, 1], [64, 64, 1]),
        ([1, 65_536, 1], [32, 1, 1]),
    ];
    for (grid, block) in large {
        let launched = shaped(context, at, device.place(), grid, block)?;
        let what = format!("grid {grid:?}, block {block:?}");
        let codes = [ErrorCode::InvalidValue, ErrorCode::LaunchOutOfResources];
        refused(&what, launched, &codes)?;
    }
    stream.wait()?;
    same_bytes("the memory", &device.contents(stream.id)?, &before)?;
    context.ensure_clean("launches of bad shapes")?;
    Ok(Outcome::Pass)
}

fn broken_ptx(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    let image = ModuleImage {
        name: Cow::Borrowed("broken"),
        ptx: Cow::Borrowed(BROKEN_PTX),
        twins: Vec::new(),
    };
    match driver.module_load(device, &image) {
        Ok(module) => {
            // SAFETY: loaded one line before; no kernel of it was launched.
            unsafe { driver.module_unload(module) }?;
            return Err(Failure::new("broken PTX was loaded"));
        }
        Err(error) => {
            ensure(error.code == ErrorCode::InvalidPtx, || error.to_string())?;
            ensure(error.detail.contains("broken"), || {
                format!("`{}` does not name the module", error.detail)
            })?;
        }
    }
    context.ensure_clean("broken PTX")?;
    Ok(Outcome::Pass)
}

fn two_modules(context: &Context) -> Check<Outcome> {
    let stream = context.stream(StreamKind::NonBlocking)?;
    let first = context.kernels()?;
    let second = context.kernels()?;
    let (a, b) = (noise(400, 70), noise(400, 71));
    let dst = filled(context, stream.id, &a)?;
    let src = filled(context, stream.id, &b)?;
    first.add(stream.id, dst.place(), src.place())?;
    stream.wait()?;
    drop(first);
    second.add(stream.id, dst.place(), src.place())?;
    let wanted = added(&added(&a, &b), &b);
    same_bytes("one launch of each", &dst.contents(stream.id)?, &wanted)?;
    Ok(Outcome::Pass)
}
