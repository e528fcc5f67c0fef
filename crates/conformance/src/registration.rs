//! Registration of existing memory.

use crate::failure::{Check, Failure, refused, same_bytes};
use crate::fixture::{Context, noise};
use crate::host::{HostMemory, PAGE_BYTES};
use crate::{Outcome, Test};
use memmap2::Mmap;
use pinfold_hal::{ErrorCode, HostAddr, HostAllocFlags, RegisterFlags, StreamKind};
use std::fs::{self, File};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "registration/flags",
        description: "an unaligned range registers with any flags and copies both ways",
        finds_closed: false,
        run: flags,
    },
    Test {
        name: "registration/zero_bytes",
        description: "registering zero bytes answers InvalidValue",
        finds_closed: false,
        run: zero_bytes,
    },
    Test {
        name: "registration/twice",
        description: "registering registered memory answers HostMemoryAlreadyRegistered",
        finds_closed: false,
        run: twice,
    },
    Test {
        name: "registration/neighbours",
        description: "two ranges may share a page, and unregistering one leaves the other",
        finds_closed: false,
        run: neighbours,
    },
    Test {
        name: "registration/unknown",
        description: "unregistering what is not registered answers HostMemoryNotRegistered",
        finds_closed: false,
        run: unknown,
    },
    Test {
        name: "registration/interior",
        description: "unregistering an address inside a registration changes nothing",
        finds_closed: false,
        run: interior,
    },
    Test {
        name: "registration/read_only",
        description: "a read-only mapping registers with READ_ONLY only, and then uploads",
        finds_closed: false,
        run: read_only,
    },
    Test {
        name: "registration/contents_stay",
        description: "contents stay through registering and unregistering",
        finds_closed: false,
        run: contents_stay,
    },
];

const BYTES: u64 = 4 * PAGE_BYTES;

fn unregister(context: &Context, addr: HostAddr) -> pinfold_hal::Result<()> {
    // SAFETY: the callers have waited for all their work.
    unsafe { context.driver().host_unregister(context.device, addr) }
}

/// Memory still registered as a whole: registering any part again is refused.
fn ensure_registered(context: &Context, memory: &HostMemory<'_>) -> Check<()> {
    for (offset, bytes) in [(0, memory.bytes), (PAGE_BYTES, PAGE_BYTES)] {
        let again = context.register(memory.addr.offset(offset), bytes, RegisterFlags::default());
        refused(
            "registering again",
            again,
            &[ErrorCode::HostMemoryAlreadyRegistered],
        )?;
    }
    Ok(())
}

fn round_trip(context: &Context, memory: &HostMemory<'_>, what: &str, seed: u64) -> Check<()> {
    let stream = context.stream(StreamKind::NonBlocking)?;
    let device = context.device_memory(memory.bytes)?;
    let wanted = noise(memory.bytes, seed);
    memory.write(0, &wanted)?;
    memory.upload(stream.id, 0, &device, 0, memory.bytes)?;
    stream.wait()?;
    memory.write(0, &vec![0; memory.bytes as usize])?;
    memory.download(stream.id, 0, &device, 0, memory.bytes)?;
    stream.wait()?;
    same_bytes(what, &memory.contents()?, &wanted)
}

fn flags(context: &Context) -> Check<Outcome> {
    for bits in 0..4u8 {
        let flags = RegisterFlags {
            portable: bits & 1 != 0,
            mapped: bits & 2 != 0,
            read_only: false,
        };
        for (bytes, skip) in [(1, 0), (100, 24), (BYTES, 0), (BYTES + 333, 1000)] {
            let mut memory = context.heap(bytes, skip)?;
            memory.register(flags)?;
            let what = format!("{bytes} bytes at {skip} with {flags:?}");
            round_trip(context, &memory, &what, bytes)?;
            memory.unregister()?;
            // Registering again shows that nothing was left of the first time.
            memory.register(flags)?;
        }
    }
    Ok(Outcome::Pass)
}

fn zero_bytes(context: &Context) -> Check<Outcome> {
    let memory = context.heap(BYTES, 0)?;
    let none = context.register(memory.addr, 0, RegisterFlags::default());
    refused("zero bytes", none, &[ErrorCode::InvalidValue])?;
    let gone = unregister(context, memory.addr);
    refused(
        "unregistering it",
        gone,
        &[ErrorCode::HostMemoryNotRegistered],
    )?;
    context.ensure_clean("registering zero bytes")?;
    Ok(Outcome::Pass)
}

fn twice(context: &Context) -> Check<Outcome> {
    let mut memory = context.heap(BYTES, 0)?;
    memory.register(RegisterFlags::default())?;
    ensure_registered(context, &memory)?;
    round_trip(context, &memory, "after the refusals", 1)?;
    memory.unregister()?;

    let codes = [ErrorCode::InvalidValue];
    let pinned = context.pinned(BYTES, HostAllocFlags::default())?;
    let again = context.register(pinned.addr, BYTES, RegisterFlags::default());
    refused("memory of host_alloc", again, &codes)?;
    round_trip(context, &pinned, "after the refusal", 2)?;
    context.ensure_clean("registering twice")?;
    Ok(Outcome::Pass)
}

fn neighbours(context: &Context) -> Check<Outcome> {
    let memory = context.heap(BYTES, 0)?;
    let flags = RegisterFlags::default();
    let stream = context.stream(StreamKind::NonBlocking)?;
    let device = context.device_memory(BYTES)?;
    let wanted = noise(BYTES, 6);
    memory.write(0, &wanted)?;
    let first = context.register(memory.addr, 100, flags)?;
    let second = context.register(memory.addr.offset(100), PAGE_BYTES, flags)?;
    let third = context.register(memory.addr.offset(PAGE_BYTES + 500), 100, flags)?;
    drop(first);
    memory.upload(stream.id, 100, &device, 100, PAGE_BYTES)?;
    drop(second);
    memory.upload(stream.id, PAGE_BYTES + 500, &device, PAGE_BYTES + 500, 100)?;
    let got = device.contents(stream.id)?;
    drop(third);
    let ranges = [
        100..PAGE_BYTES as usize + 100,
        PAGE_BYTES as usize + 500..PAGE_BYTES as usize + 600,
    ];
    for range in ranges {
        same_bytes(
            &format!("bytes {range:?}"),
            &got[range.clone()],
            &wanted[range],
        )?;
    }
    Ok(Outcome::Pass)
}

fn unknown(context: &Context) -> Check<Outcome> {
    let mut memory = context.heap(BYTES, 0)?;
    let codes = [ErrorCode::HostMemoryNotRegistered];
    refused("never registered", unregister(context, memory.addr), &codes)?;
    memory.register(RegisterFlags::default())?;
    memory.unregister()?;
    refused(
        "unregistered twice",
        unregister(context, memory.addr),
        &codes,
    )?;
    context.ensure_clean("unregistering in vain")?;
    Ok(Outcome::Pass)
}

fn interior(context: &Context) -> Check<Outcome> {
    let mut memory = context.heap(BYTES, 0)?;
    memory.register(RegisterFlags::default())?;
    let codes = [ErrorCode::InvalidValue, ErrorCode::HostMemoryNotRegistered];
    for offset in [1, PAGE_BYTES, BYTES - 1] {
        let inside = unregister(context, memory.addr.offset(offset));
        refused(&format!("an address {offset} bytes inside"), inside, &codes)?;
    }
    ensure_registered(context, &memory)?;
    round_trip(context, &memory, "after the refusals", 3)?;
    memory.unregister()?;
    Ok(Outcome::Pass)
}

/// A file that is removed when it drops.
struct TemporaryFile(std::path::PathBuf);

impl TemporaryFile {
    fn new(contents: &[u8]) -> Check<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinfold-conformance-{}-{number}", std::process::id());
        let file = TemporaryFile(std::env::temp_dir().join(name));
        fs::write(&file.0, contents).map_err(|e| Failure::new(e.to_string()))?;
        Ok(file)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // One that cannot be removed is left to whoever cleans the folder of temporary files.
        let _ = fs::remove_file(&self.0);
    }
}

fn read_only(context: &Context) -> Check<Outcome> {
    let (driver, device) = (context.driver(), context.device);
    let capabilities = driver.device_info(device)?.capabilities;
    let wanted = noise(BYTES, 4);
    let path = TemporaryFile::new(&wanted)?;
    let file = File::open(&path.0).map_err(|e| Failure::new(e.to_string()))?;
    // SAFETY: the file has a name of its own and is changed by nobody.
    let mapping = unsafe { Mmap::map(&file) }.map_err(|e| Failure::new(e.to_string()))?;
    let addr = HostAddr(mapping.as_ptr().expose_provenance());

    let plain = context.register(addr, BYTES, RegisterFlags::default());
    refused("without READ_ONLY", plain, &[ErrorCode::InvalidValue])?;
    context.ensure_clean("a refused read-only mapping")?;
    if !capabilities.host_register_read_only {
        return Ok(Outcome::Skip(
            "the device registers no read-only memory".into(),
        ));
    }
    let flags = RegisterFlags {
        read_only: true,
        ..RegisterFlags::default()
    };
    let registration = context.register(addr, BYTES, flags)?;
    let uploaded = upload(context, addr)?;
    drop(registration);
    same_bytes("an upload from a read-only mapping", &uploaded, &wanted)?;
    Ok(Outcome::Pass)
}

/// What arrives on the device of `BYTES` bytes at the address.
fn upload(context: &Context, from: HostAddr) -> Check<Vec<u8>> {
    let stream = context.stream(StreamKind::NonBlocking)?;
    let memory = context.device_memory(BYTES)?;
    // SAFETY: the caller holds the source until this returns, and `contents` waits for the copy.
    unsafe {
        context
            .driver()
            .copy_to_device(stream.id, memory.addr, from, BYTES)
    }?;
    memory.contents(stream.id)
}

fn contents_stay(context: &Context) -> Check<Outcome> {
    let mut memory = context.heap(BYTES, 8)?;
    let wanted = noise(BYTES, 5);
    memory.write(0, &wanted)?;
    memory.register(RegisterFlags::default())?;
    same_bytes("while registered", &memory.contents()?, &wanted)?;
    memory.unregister()?;
    same_bytes("after that", &memory.contents()?, &wanted)?;
    Ok(Outcome::Pass)
}
