//! Order between streams and devices: buffers bring it with them.

use crate::common::{Machine, everywhere, options};
use pinfold::buffer::HandOver;
use pinfold::{Error, EventKind, Memory, MemoryKind};
use pinfold_hal_sim::Policy;

#[test]
fn work_on_another_stream_waits_for_the_buffer_not_for_the_caller() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let mut on_device = memory.device::<u32>(50_000).unwrap();
        let mut up = memory.upload(50_000).unwrap();
        for round in 0..4u32 {
            up.write_each(|i| i as u32 + round);
            let flight = first.upload(up, &mut on_device).unwrap();
            let down = second
                .download(&on_device, memory.download(50_000).unwrap())
                .unwrap();
            // Back on the first stream: this write must wait for the second stream's read.
            first.fill(&mut on_device, 0xff).unwrap();
            let down = down.wait().unwrap();
            let right = down.iter().enumerate().all(|(i, v)| *v == i as u32 + round);
            assert!(right, "{}", place.name);
            up = flight.wait().unwrap();
        }
    });
}

#[test]
fn device_a_hands_to_device_b_through_host_memory_without_the_host_waiting() {
    everywhere(2, |place| {
        let (a, b) = (place.device(0), place.device(1));
        let memory = Memory::for_devices(&[a.clone(), b.clone()]).unwrap();
        let (on_a, on_b) = (a.stream().unwrap(), b.stream().unwrap());
        let mut from = memory.device_on::<u32>(&a, 20_000).unwrap();
        let mut to = memory.device_on::<u32>(&b, 20_000).unwrap();
        on_a.fill(&mut from, 0x5a).unwrap();
        let host = memory.exchange(20_000).unwrap();
        let host = on_a.download(&from, host).unwrap();
        let host = on_b.upload(host, &mut to).unwrap();
        let down = on_b
            .download(&to, memory.download(20_000).unwrap())
            .unwrap()
            .wait()
            .unwrap();
        assert!(down.iter().all(|v| *v == 0x5a5a_5a5a), "{}", place.name);
        drop(host);
    });
}

#[test]
fn every_device_is_driven_by_its_own_thread_over_portable_memory() {
    let machine = Machine::new(options().devices(4), Policy::Eager);
    let devices = machine.platform.devices().unwrap();
    let memory = Memory::for_devices(&devices).unwrap();
    std::thread::scope(|scope| {
        for device in &devices {
            let memory = memory.clone();
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                for round in 0..20u32 {
                    let mut up = memory.upload(3000).unwrap();
                    up.write_each(|i| i as u32 ^ round);
                    let mut there = memory.device_on(device, 3000).unwrap();
                    drop(stream.upload(up, &mut there).unwrap());
                    let down = stream
                        .download(&there, memory.download(3000).unwrap())
                        .unwrap();
                    let down = down.wait().unwrap();
                    assert!(down.iter().enumerate().all(|(i, v)| *v == i as u32 ^ round));
                }
            });
        }
    });
    drop((memory, devices));
    machine.check_clean();
}

#[test]
fn memory_of_one_device_is_refused_by_another_with_advice() {
    let machine = Machine::new(options().devices(2), Policy::Eager);
    let (a, b) = (machine.device(0), machine.device(1));
    let (of_a, of_b) = (Memory::new(&a), Memory::new(&b));
    let stream = b.stream().unwrap();
    let mut on_b = of_b.device::<u8>(10).unwrap();
    let refused = stream
        .upload(of_a.upload::<u8>(10).unwrap(), &mut on_b)
        .unwrap_err();
    let text = refused.error.to_string();
    assert!(
        text.contains("for_devices") && text.contains("order.rs"),
        "{text}"
    );
    let mut on_a = of_a.device::<u8>(10).unwrap();
    assert!(matches!(
        stream.fill(&mut on_a, 0),
        Err(Error::WrongDevice { .. })
    ));
}

#[test]
fn a_wait_on_an_event_that_was_never_recorded_is_refused() {
    let machine = Machine::new(options(), Policy::Eager);
    let device = machine.device(0);
    let stream = device.stream().unwrap();
    let event = device.event(EventKind::NoTiming).unwrap();
    assert!(matches!(stream.wait(&event), Err(Error::EventNotRecorded)));
    assert!(matches!(event.synchronize(), Err(Error::EventNotRecorded)));
    stream.record(&event).unwrap();
    stream.wait(&event).unwrap();
    event.synchronize().unwrap();
    assert!(event.is_done().unwrap());
}

#[test]
fn events_time_and_order_and_can_be_exported_only_when_interprocess() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let timing = || device.event(EventKind::Timing).unwrap();
    let (start, end) = (timing(), timing());
    let mut buffer = memory.device::<u8>(64 << 20).unwrap();
    stream.record(&start).unwrap();
    stream.fill(&mut buffer, 1).unwrap();
    stream.record(&end).unwrap();
    end.synchronize().unwrap();
    assert!(end.elapsed_ns_since(&start).unwrap().unwrap() > 0.0);
    let plain = device.event(EventKind::NoTiming).unwrap();
    stream.record(&plain).unwrap();
    assert!(plain.elapsed_ns_since(&start).is_err());
    assert!(plain.export().is_err());
    assert!(
        device
            .event(EventKind::Interprocess)
            .unwrap()
            .export()
            .is_ok()
    );
}

#[test]
fn a_host_function_runs_in_its_turn() {
    everywhere(1, |place| {
        let device = place.device(0);
        let stream = device.stream().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        for number in 0..5 {
            let sender = sender.clone();
            stream
                .call_host(move || sender.send(number).unwrap())
                .unwrap();
        }
        stream.synchronize().unwrap();
        assert!(receiver.try_iter().eq(0..5), "{}", place.name);
    });
}

#[test]
fn a_lost_device_gives_errors_and_no_panic_and_nothing_is_freed_early() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let mut on_device = memory.device::<u32>(1000).unwrap();
    let flight = stream
        .upload(memory.upload(1000).unwrap(), &mut on_device)
        .unwrap();
    machine.sim.lose_device(pinfold_hal::DeviceId(0));
    let refused = flight.wait().unwrap_err();
    assert!(
        refused.error.to_string().contains("start it again"),
        "{}",
        refused.error
    );
    drop(refused);
    // Memory may still be had, since the pool has some; nothing can be done with it.
    let up = memory.upload::<u32>(1000).unwrap();
    assert!(stream.upload(up, &mut on_device).is_err());
    drop((on_device, stream, memory, device));
    assert!(machine.platform.driver().hazards().is_empty());
}

#[test]
fn asking_whether_a_buffer_is_free_forgets_no_use_of_another_thread() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    for _ in 0..300 {
        let buffer = memory.upload_in_place::<f32>(1000).unwrap().lend();
        std::thread::scope(|scope| {
            let work = || {
                let stream = device.stream().unwrap();
                let mut dot = pinfold::kernels::dot::Dot::load(&memory, &stream).unwrap();
                let mut cell = memory.device(1).unwrap();
                dot.run(&stream, &buffer, &buffer, &mut cell).unwrap();
            };
            scope.spawn(work);
            for _ in 0..20 {
                buffer.is_done().unwrap();
            }
        });
        drop(buffer.wait().unwrap());
        memory.trim(0).unwrap();
    }
    drop((memory, device));
    machine.check_clean();
}

#[test]
fn a_buffer_that_is_only_read_does_not_keep_the_streams_that_read_it() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let mut targets: Vec<_> = (0..2).map(|_| memory.device::<u8>(64).unwrap()).collect();
    let mut flight = memory.upload::<u8>(64).unwrap().hand_over();
    for n in 0..200 {
        let stream = device.stream().unwrap();
        flight = stream.upload(flight, &mut targets[n % 2]).unwrap();
        stream.synchronize().unwrap();
    }
    assert!(machine.sim.live().streams < 5, "{:?}", machine.sim.live());
}

#[test]
fn what_belongs_to_another_platform_is_refused() {
    let (here, there) = (
        Machine::new(options(), Policy::Eager),
        Machine::new(options(), Policy::Eager),
    );
    let (device, foreign) = (here.device(0), there.device(0));
    let stream = device.stream().unwrap();
    let mut buffer = Memory::new(&foreign).device::<u8>(10).unwrap();
    assert!(matches!(
        stream.fill(&mut buffer, 1),
        Err(Error::WrongDevice { .. })
    ));
    let event = foreign.event(EventKind::Timing).unwrap();
    let foreign_stream = foreign.stream().unwrap();
    foreign_stream.record(&event).unwrap();
    assert!(matches!(
        stream.wait(&event),
        Err(Error::DeviceMismatch { .. })
    ));
    let own = device.event(EventKind::Timing).unwrap();
    stream.record(&own).unwrap();
    assert!(matches!(
        own.elapsed_ns_since(&event),
        Err(Error::DeviceMismatch { .. })
    ));
    assert!(Memory::for_devices(&[device, foreign]).is_none());
}

#[test]
fn a_lost_device_does_not_keep_ordinary_memory_from_others() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let mut on_device = memory.device::<u32>(1000).unwrap();
    drop(
        stream
            .upload(memory.upload(1000).unwrap(), &mut on_device)
            .unwrap(),
    );
    machine.sim.lose_device(pinfold_hal::DeviceId(0));
    let pageable = memory.of_kind(MemoryKind::Pageable).upload::<u32>(10);
    assert!(pageable.is_ok());
    assert_eq!(memory.stats().retired_bytes, 0);
}
