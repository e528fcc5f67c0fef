//! Several devices: memory that all of them reach, copies between them, and order across them.

use crate::failure::{Check, ensure, refused, same_bytes};
use crate::fixture::{Context, noise};
use crate::host::Kind;
use crate::{Outcome, Test};
use pinfold_hal::{DeviceId, ErrorCode, HostAllocFlags, StreamKind};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "several/portable_memory",
        description: "portable memory is copied and mapped by every device",
        finds_closed: false,
        run: portable_memory,
    },
    Test {
        name: "several/copies_between",
        description: "device memory is copied to another device, in a stream of either",
        finds_closed: false,
        run: copies_between,
    },
    Test {
        name: "several/event_across",
        description: "a stream waits for an event of another device",
        finds_closed: false,
        run: event_across,
    },
    Test {
        name: "several/event_of_other_device",
        description: "recording an event in a stream of another device answers InvalidHandle",
        finds_closed: false,
        run: event_of_other_device,
    },
];

const BYTES: u64 = 4 * 3000;

/// Another device, open until this drops.
struct Other(Context);

impl Other {
    /// `None` where there is one device only.
    fn open(context: &Context) -> Check<Option<Self>> {
        let count = context.driver().device_count()?;
        let other = (0..count).map(DeviceId).find(|d| *d != context.device);
        let Some(other) = other else { return Ok(None) };
        context.driver().open(other)?;
        Ok(Some(Other(context.on(other))))
    }

    /// What could not be released on the other device.
    fn ensure_released(&self) -> Check<()> {
        let left = self.0.take_left();
        ensure(left.is_empty(), || left.join("; "))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // A failure was told by the release of what was on the device.
        // SAFETY: whatever a test made on this device borrows from this, so it was released before.
        let _ = unsafe { self.0.driver().close(self.0.device) };
    }
}

/// Runs a test on this and another device, or skips it where there is no other.
fn with_other(context: &Context, test: fn(&Context, &Context) -> Check<()>) -> Check<Outcome> {
    let Some(other) = Other::open(context)? else {
        return Ok(Outcome::Skip("there is one device only".into()));
    };
    test(context, &other.0)?;
    other.ensure_released()?;
    Ok(Outcome::Pass)
}

fn portable_memory(context: &Context) -> Check<Outcome> {
    with_other(context, |context, other| {
        let flags = HostAllocFlags {
            portable: true,
            mapped: true,
            write_combined: false,
        };
        let memory = context.pinned(BYTES, flags)?;
        for (seed, on) in [(100, context), (101, other)] {
            let stream = on.stream(StreamKind::NonBlocking)?;
            let device = on.device_memory(BYTES)?;
            let data = noise(BYTES, seed);
            memory.write(0, &data)?;
            memory.upload(stream.id, 0, &device, 0, BYTES)?;
            same_bytes("an upload", &device.contents(stream.id)?, &data)?;

            let kernels = on.kernels()?;
            let place = crate::launcher::Place {
                addr: on.driver().device_address(on.device, memory.addr)?,
                bytes: BYTES,
            };
            kernels.add(stream.id, place, device.place())?;
            stream.wait()?;
            let wanted = crate::kernels::added(&data, &data);
            same_bytes("a kernel in place", &memory.contents()?, &wanted)?;
        }
        Ok(())
    })
}

fn copies_between(context: &Context) -> Check<Outcome> {
    with_other(context, |context, other| {
        let data = noise(BYTES, 110);
        for on in [context, other] {
            let home = context.stream(StreamKind::NonBlocking)?;
            let source = crate::kernels::filled(context, home.id, &data)?;
            let target = other.device_memory(BYTES)?;
            let stream = on.stream(StreamKind::NonBlocking)?;
            target.fill(stream.id, 0, 0, BYTES)?;
            target.copy_from(stream.id, 5, &source, 3, BYTES - 5)?;
            stream.wait()?;
            let away = other.stream(StreamKind::NonBlocking)?;
            let mut wanted = vec![0; BYTES as usize];
            wanted[5..].copy_from_slice(&data[3..BYTES as usize - 2]);
            same_bytes("the other device", &target.contents(away.id)?, &wanted)?;
        }
        Ok(())
    })
}

fn event_across(context: &Context) -> Check<Outcome> {
    with_other(context, |context, other| {
        let driver = context.driver();
        let flags = HostAllocFlags {
            portable: true,
            ..HostAllocFlags::default()
        };
        let relay = context.pinned(BYTES, flags)?;
        let kernels = context.kernels()?;
        let writer = context.stream(StreamKind::NonBlocking)?;
        let reader = other.stream(StreamKind::NonBlocking)?;
        let source = context.device_memory(BYTES)?;
        let target = other.device_memory(BYTES)?;
        let written = context.event()?;
        relay.write(0, &[0; BYTES as usize])?;
        kernels.spin(writer.id, 5_000_000)?;
        source.fill(writer.id, 0, 0x66, BYTES)?;
        relay.download(writer.id, 0, &source, 0, BYTES)?;
        driver.event_record(written.id, writer.id)?;
        driver.stream_wait_event(reader.id, written.id)?;
        relay.upload(reader.id, 0, &target, 0, BYTES)?;
        let got = target.contents(reader.id)?;
        same_bytes("what the other device read", &got, &[0x66; BYTES as usize])
    })
}

fn event_of_other_device(context: &Context) -> Check<Outcome> {
    with_other(context, |context, other| {
        let event = context.event()?;
        let stream = other.stream(StreamKind::NonBlocking)?;
        let recorded = context.driver().event_record(event.id, stream.id);
        refused("recording", recorded, &[ErrorCode::InvalidHandle])?;
        let place = context.host(Kind::Pinned, 64)?;
        place.write(0, &[1])?;
        context.ensure_clean("a wrong event")?;
        other.ensure_clean("a wrong event")
    })
}
