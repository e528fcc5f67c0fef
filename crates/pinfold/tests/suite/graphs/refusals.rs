//! What breaks a capture is refused before it can, and what goes wrong leaves all as it was.

use super::{LEN, counting, of, one};
use crate::common::{Place, everywhere, under_every_policy};
use pinfold::kernels::dot::Dot;
use pinfold::transfer::Engine;
use pinfold::{Device, Error, EventKind, Memory, Result, Stream};
use pinfold_hal::{DeviceId, StreamOps};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn is_capturing<T>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(Error::Capturing { .. }))
}

/// The machine works as ever.
fn works(device: &Device, memory: &Memory, stream: &Stream) {
    let mut on_device = memory.device::<u32>(LEN).unwrap();
    stream.fill(&mut on_device, 3).unwrap();
    let down = memory.download(LEN).unwrap();
    let mut graph = device
        .capture(|recorder| Ok(recorder.download(&on_device, down)?))
        .unwrap();
    graph.launch(stream).unwrap();
    assert!(graph.host().unwrap().iter().all(|v| *v == 0x0303_0303));
    stream.synchronize().unwrap();
}

#[test]
fn r14_allocation_during_a_capture_is_served_from_the_reserve_without_the_driver() {
    let (driver, platform) = counting();
    let (device, memory, stream) = of(&platform);
    memory.reserve(8 << 20).unwrap();
    let mut on_device = memory.device::<u32>(LEN).unwrap();
    let mut graph = device
        .capture(|recorder| {
            let before = driver.hook().total();
            let (up, down) = (memory.upload::<u32>(LEN)?, memory.download::<u32>(LEN)?);
            // Large ones too; and what is dropped goes back.
            drop(memory.exchange::<u8>(2 << 20)?);
            drop(memory.zero_copy::<u8>(3 << 20)?);
            memory.collect()?;
            assert_eq!(driver.hook().total(), before);
            let up = recorder.upload(up, &mut on_device)?;
            Ok((up, recorder.download(&on_device, down)?))
        })
        .unwrap();
    graph.host().unwrap().0.write_each(|i| i as u32);
    graph.launch(&stream).unwrap();
    assert_eq!(graph.host().unwrap().1[17], 17);
}

#[test]
fn r14_a_request_that_needs_the_driver_is_refused_and_the_capture_goes_on() {
    fn check(place: &Place, memory: &Memory) {
        let device = place.device(0);
        let stream = device.stream().unwrap();
        let (up, down) = (memory.upload(LEN).unwrap(), memory.download(LEN).unwrap());
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let spare = memory.device::<u32>(LEN).unwrap();
        let owned = memory.register(vec![0u8; 100]).unwrap();
        let mut graph = device
            .capture(|recorder| {
                let up = recorder.upload(up, &mut on_device)?;
                assert!(is_capturing(memory.upload::<u8>(1 << 30)));
                assert!(is_capturing(memory.zero_copy::<u8>(1 << 30)));
                assert!(is_capturing(memory.device::<u8>(10)));
                assert!(is_capturing(memory.reserve(1 << 30)));
                assert!(is_capturing(memory.trim(0)));
                assert!(is_capturing(owned.into_inner()));
                let refused = memory.register(vec![1u8; 10]).unwrap_err();
                assert!(refused.error.to_string().contains("before or after"));
                let mut slice = [0u8; 10];
                let scope = memory.with_registered(&mut slice[..], |_| ());
                assert!(is_capturing(scope));
                // Given back when the capture is over.
                drop(spare);
                memory.collect()?;
                Ok((up, recorder.download(&on_device, down)?))
            })
            .unwrap();
        graph.host().unwrap().0.write_each(|i| i as u32);
        graph.launch(&stream).unwrap();
        assert_eq!(graph.host().unwrap().1[LEN - 1], LEN as u32 - 1);
    }
    everywhere(1, |place| {
        let device = place.device(0);
        check(place, &Memory::new(&device));
        check(place, &Memory::unpooled(&[device]).unwrap());
    });
}

#[test]
fn waits_and_questions_are_refused_and_the_capture_goes_on() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let mut busy = memory.device::<u8>(LEN).unwrap();
        let flight = stream
            .upload(memory.upload(LEN).unwrap(), &mut busy)
            .unwrap();
        let (event, other) = (
            device.event(EventKind::Timing).unwrap(),
            device.event(EventKind::Timing).unwrap(),
        );
        stream.record(&event).unwrap();
        let mut dot = Dot::load(&memory, &stream).unwrap();
        let mut cell = memory.scalar_cell().unwrap();
        let mut earlier = device
            .capture(|recorder| recorder.fill(&mut on_device, 1))
            .unwrap();
        let numbers = memory.device::<f32>(LEN).unwrap();
        let engine = Engine::new(&memory, &device).unwrap();
        let mut graph = device
            .capture(|recorder| {
                recorder.fill(&mut on_device, 0x44)?;
                for stream in [recorder, &stream] {
                    assert!(is_capturing(stream.synchronize()));
                    assert!(is_capturing(stream.is_idle()));
                    assert!(is_capturing(earlier.launch(stream)));
                }
                assert!(is_capturing(recorder.record(&other)));
                assert!(is_capturing(recorder.wait(&event)));
                assert!(is_capturing(recorder.call_host(|| ())));
                assert!(is_capturing(device.synchronize()));
                assert!(is_capturing(event.synchronize()));
                assert!(is_capturing(event.is_done()));
                assert!(is_capturing(Dot::load(&memory, &stream)));
                assert!(is_capturing(engine.upload(&[1; LEN], &mut busy)));
                let nested = device.capture(|_| Ok(()));
                assert!(is_capturing(nested.map_err(Error::from)));
                let expected = dot.run(recorder, &numbers, &numbers, &mut cell)?;
                assert!(is_capturing(cell.wait(&expected, super::LIMIT)));
                // Other streams work as ever.
                stream.fill(&mut busy, 2)?;
                stream.record(&other)
            })
            .unwrap();
        graph.launch(&stream).unwrap();
        let down = memory.download(LEN).unwrap();
        let down = stream.download(&on_device, down).unwrap().wait().unwrap();
        assert!(down.iter().all(|v| *v == 0x4444_4444), "{}", place.name);
        drop(flight.wait().unwrap());
    });
}

#[test]
fn an_error_in_the_closure_leaves_all_as_it_was() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let mut short = memory.device::<u32>(1).unwrap();
        let up = memory.upload(LEN).unwrap();
        let mut smuggled = None;
        let captured = device.capture(|recorder| {
            smuggled = Some(recorder.upload(up, &mut on_device)?);
            recorder.copy(&on_device, &mut short)
        });
        let refused = captured.unwrap_err();
        assert!(matches!(*refused.error, Error::Length { .. }));
        assert!(refused.buffer.is_none());
        // The handle came back usable, and nothing had run.
        let mut up = smuggled.unwrap().wait().unwrap();
        up.write_each(|_| 6);
        drop(stream.upload(up, &mut on_device).unwrap());
        works(&device, &memory, &stream);
    });
}

#[test]
fn a_panic_in_the_closure_leaves_all_as_it_was() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let up = memory.upload(LEN).unwrap();
        let mut smuggled = None;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            device.capture(|recorder| -> Result<()> {
                smuggled = Some(recorder.upload(up, &mut on_device)?);
                std::panic::resume_unwind(Box::new("on purpose"))
            })
        }));
        assert!(outcome.is_err());
        smuggled.unwrap().wait().unwrap();
        works(&device, &memory, &stream);
    });
}

#[test]
fn a_capture_that_other_code_broke_gives_its_handles_back() {
    under_every_policy(1, |machine| {
        let (device, memory, stream) = of(&machine.platform);
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let up = memory.upload::<u32>(LEN).unwrap();
        let captured = device.capture(|recorder| {
            let up = recorder.upload(up, &mut on_device)?;
            assert!(machine.sim.device_synchronize(DeviceId(0)).is_err());
            Ok(up)
        });
        let refused = captured.unwrap_err();
        assert!(refused.error.to_string().contains("capture"));
        let mut up = refused.buffer.unwrap().wait().unwrap();
        up.write_each(|_| 1);
        works(&device, &memory, &stream);
    });
}

#[test]
fn the_transfer_engine_leaves_memory_of_graphs_alone() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let engine = Engine::new(&memory, &device).unwrap();
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let mut graph = device
            .capture(|recorder| recorder.fill(&mut on_device, 1))
            .unwrap();
        graph.launch(&stream).unwrap();
        let refused = engine.upload(&[1; LEN], &mut on_device);
        assert!(matches!(refused, Err(Error::InGraph { .. })));
        drop(graph);
        engine.upload(&[1; LEN], &mut on_device).unwrap();
    });
}
