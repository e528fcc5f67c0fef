//! What buffers promise, under every effect policy of the simulated device.

use crate::common::{Machine, everywhere, options};
use pinfold::{Error, Memory, MemoryKind};
use pinfold_hal_sim::Policy;

fn numbers(n: usize, salt: u32) -> Vec<u32> {
    (0..n as u32)
        .map(|i| i.wrapping_mul(2_654_435_761) ^ salt)
        .collect()
}

#[test]
fn data_survives_the_round_trip_in_every_kind_of_memory() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        for kind in [
            MemoryKind::Pageable,
            MemoryKind::PageLocked,
            MemoryKind::WriteCombined,
            MemoryKind::Mapped,
            MemoryKind::MappedWriteCombined,
        ] {
            for n in [0, 1, 1000, 100_000] {
                let data = numbers(n, kind as u32);
                let mut up = memory.of_kind(kind).upload(n).unwrap();
                assert_eq!(up.placement().kind(), kind);
                up.write(0, &data).unwrap();
                let mut on_device = memory.device(n).unwrap();
                let up = stream.upload(up, &mut on_device).unwrap();
                let down = memory.download(n).unwrap();
                let down = stream.download(&on_device, down).unwrap().wait().unwrap();
                assert!(
                    down.as_slice() == data,
                    "{kind}, {n} elements, {}",
                    place.name
                );
                drop(up.wait().unwrap());
            }
        }
    });
}

#[test]
fn dropping_a_buffer_in_flight_never_frees_it_early() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let mut kept = Vec::new();
        for round in 0..8 {
            let data = numbers(10_000, round);
            let mut up = memory.upload(data.len()).unwrap();
            up.write(0, &data).unwrap();
            let mut on_device = memory.device(data.len()).unwrap();
            // Neither the source nor, for some, the target is kept.
            drop(stream.upload(up, &mut on_device).unwrap());
            if round % 2 == 0 {
                kept.push((on_device, data));
            }
        }
        for (on_device, data) in kept {
            let down = stream
                .download(&on_device, memory.download(data.len()).unwrap())
                .unwrap();
            assert!(down.wait().unwrap().as_slice() == data, "{}", place.name);
        }
    });
}

#[test]
fn retired_memory_comes_back_once_the_device_is_done() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::unpooled(std::slice::from_ref(&device)).unwrap();
    let stream = device.stream().unwrap();
    let mut on_device = memory.device::<u32>(1 << 20).unwrap();
    drop(
        stream
            .upload(memory.upload(1 << 20).unwrap(), &mut on_device)
            .unwrap(),
    );
    assert_eq!(memory.stats().retired_bytes, 4 << 20);
    assert_eq!(machine.sim.live().host_bytes, 4 << 20);
    stream.synchronize().unwrap();
    memory.collect().unwrap();
    assert_eq!(memory.stats().retired_bytes, 0);
    assert_eq!(machine.sim.live().host_bytes, 0);
    assert_eq!(memory.stats().kinds[&MemoryKind::PageLocked].blocks, 0);
    assert_eq!(
        memory.stats().kinds[&MemoryKind::PageLocked].held_bytes_peak,
        4 << 20
    );
}

#[test]
fn a_leaked_handle_leaks_memory_and_harms_nothing() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::unpooled(std::slice::from_ref(&device)).unwrap();
    let stream = device.stream().unwrap();
    let mut on_device = memory.device::<u32>(1000).unwrap();
    std::mem::forget(
        stream
            .upload(memory.upload(1000).unwrap(), &mut on_device)
            .unwrap(),
    );
    stream.synchronize().unwrap();
    drop((on_device, stream, memory, device));
    assert_eq!(machine.sim.live().host_bytes, 4000);
    assert!(machine.platform.driver().hazards().is_empty());
}

#[test]
fn parts_are_copied_to_their_places() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let data = numbers(100, 5);
        let mut up = memory.upload(100).unwrap();
        up.write(0, &data).unwrap();
        let mut on_device = memory.device(50).unwrap();
        stream.fill(&mut on_device, 0).unwrap();
        let up = stream.upload_part(up, 90..100, &mut on_device, 7).unwrap();
        let up = stream.upload_part(up, 0..3, &mut on_device, 47).unwrap();
        let mut down = memory.exchange(20).unwrap();
        down.fill(0);
        let down = stream
            .download_part(&on_device, 5..20, down, 2)
            .unwrap()
            .wait()
            .unwrap();
        let mut expected = vec![0; 20];
        expected[4..14].copy_from_slice(&data[90..]);
        assert_eq!(down.as_slice(), expected);
        drop(up.wait().unwrap());
    });
}

#[test]
fn ranges_outside_are_refused_and_the_buffer_comes_back() {
    let machine = Machine::new(options(), Policy::Eager);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let mut on_device = memory.device::<u32>(10).unwrap();
    let up = memory.upload::<u32>(20).unwrap();
    let refused = stream.upload(up, &mut on_device).unwrap_err();
    assert!(matches!(
        *refused.error,
        Error::Length {
            got: 10,
            want: 20,
            ..
        }
    ));
    let refused = stream
        .upload_part(refused.buffer, 15..21, &mut on_device, 0)
        .unwrap_err();
    assert!(matches!(
        *refused.error,
        Error::OutOfRange {
            start: 15,
            end: 21,
            len: 20
        }
    ));
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = 8..2;
    let refused = stream
        .upload_part(refused.buffer, backwards, &mut on_device, 0)
        .unwrap_err();
    let refused = stream
        .upload_part(refused.buffer, 0..2, &mut on_device, usize::MAX)
        .unwrap_err();
    let mut up = refused.buffer.wait().unwrap();
    assert!(up.write(19, &[1, 2]).is_err());
    up.write(19, &[1]).unwrap();
}

#[test]
fn a_waiting_handle_gives_up_in_time_and_can_be_waited_for_again() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let mut on_device = memory.device::<u32>(1 << 20).unwrap();
    let flight = stream
        .upload(memory.upload(1 << 20).unwrap(), &mut on_device)
        .unwrap();
    let refused = flight.wait_for(std::time::Duration::ZERO).unwrap_err();
    assert!(
        matches!(*refused.error, Error::Timeout { .. }),
        "{}",
        refused.error
    );
    drop(
        refused
            .buffer
            .wait_for(std::time::Duration::from_secs(60))
            .unwrap(),
    );
}

#[test]
fn absurd_sizes_are_refused_before_anything_is_asked_for() {
    let machine = Machine::new(options(), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    for n in [usize::MAX, usize::MAX / 8, 1 << 60] {
        assert!(
            matches!(memory.upload::<u64>(n), Err(Error::TooLarge { .. })),
            "{n}"
        );
        assert!(
            matches!(memory.device::<u64>(n), Err(Error::TooLarge { .. })),
            "{n}"
        );
    }
    let error = memory.device::<u8>(1 << 45).unwrap_err().to_string();
    assert!(
        error.contains("device memory") && error.contains("buffers.rs"),
        "{error}"
    );
    drop(memory);
    machine.check_clean();
}

#[test]
fn nothing_is_opened_or_pinned_before_first_use() {
    let machine = Machine::new(options(), Policy::Eager);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let driver = machine.platform.driver();
    let error = driver
        .device_alloc(pinfold_hal::DeviceId(0), 1)
        .unwrap_err();
    assert_eq!(error.code, pinfold_hal::ErrorCode::InvalidContext);
    // An empty buffer and pageable memory need no device either.
    drop(memory.upload::<u8>(0).unwrap());
    drop(
        memory
            .of_kind(MemoryKind::Pageable)
            .upload::<u8>(10)
            .unwrap(),
    );
    assert!(driver.device_alloc(pinfold_hal::DeviceId(0), 1).is_err());
    drop(memory.upload::<u8>(1).unwrap());
    drop((memory, device));
    machine.check_clean();
}

#[test]
fn write_combined_memory_is_only_for_uses_that_never_read() {
    let machine = Machine::new(options(), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    for kind in [MemoryKind::WriteCombined, MemoryKind::MappedWriteCombined] {
        let memory = memory.of_kind(kind);
        assert!(matches!(
            memory.download::<u8>(1),
            Err(Error::KindNotAllowed { .. })
        ));
        assert!(matches!(
            memory.exchange::<u8>(1),
            Err(Error::KindNotAllowed { .. })
        ));
        assert!(matches!(
            memory.zero_copy::<u8>(1),
            Err(Error::KindNotAllowed { .. })
        ));
    }
    let error = memory
        .of_kind(MemoryKind::Device)
        .upload::<u8>(1)
        .unwrap_err();
    assert!(matches!(error, Error::KindNotAllowed { .. }));
}
