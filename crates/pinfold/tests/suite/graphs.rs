//! Graphs: recorded once, launched often, with everything that they use kept for them.

mod cells;
mod lifetimes;
mod refusals;

use crate::common::{Machine, Place, everywhere, options};
use pinfold::kernels::dot::Dot;
use pinfold::kernels::{CellBuffer, CellWords};
use pinfold::{
    Device, DeviceBuffer, DownloadBuffer, InFlight, Memory, Platform, Result, Stream, UploadBuffer,
};
use pinfold_decorate::{Counted, Hooked};
use pinfold_hal_sim::Policy;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const LEN: usize = 5000;

/// A device with memory and a stream.
fn one(place: &Place) -> (Device, Memory, Stream) {
    of(&place.platform)
}

fn of(platform: &Platform) -> (Device, Memory, Stream) {
    let device = platform.device(0).unwrap();
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    (device, memory, stream)
}

/// A machine whose driver counts calls.
fn counting() -> (Arc<Hooked<Counted>>, Platform) {
    let sim = Machine::new(options(), Policy::Lazy).sim;
    let driver = Arc::new(Hooked::new(sim, Counted::new()));
    (driver.clone(), Platform::with_driver(driver))
}

/// Whole numbers whose sums are exact in any order, and other ones in every round.
fn value(round: u32, i: usize) -> f32 {
    ((i % 100) as f32 - 49.0) * (round + 1) as f32
}

/// Several operations, with what they work on.
struct Work {
    dot: Dot,
    a: DeviceBuffer<f32>,
    b: DeviceBuffer<f32>,
    sum: CellBuffer,
}

impl Work {
    fn new(memory: &Memory, stream: &Stream) -> Self {
        Work {
            dot: Dot::load(memory, stream).unwrap(),
            a: memory.device(LEN).unwrap(),
            b: memory.device(LEN).unwrap(),
            sum: memory.device(1).unwrap(),
        }
    }

    fn enqueue(&mut self, stream: &Stream, (up, numbers, sum): Host) -> Result<Flying> {
        let Work {
            dot,
            a,
            b,
            sum: cell,
        } = self;
        let up = stream.upload(up, a)?;
        stream.copy(a, b)?;
        stream.fill(a, 0x3f)?;
        dot.run(stream, a, b, &mut *cell)?;
        let numbers = stream.download(b, numbers)?;
        Ok((up, numbers, stream.download(cell, sum)?))
    }
}

type Host = (
    UploadBuffer<f32>,
    DownloadBuffer<f32>,
    DownloadBuffer<CellWords>,
);
type Flying = (
    InFlight<UploadBuffer<f32>>,
    InFlight<DownloadBuffer<f32>>,
    InFlight<DownloadBuffer<CellWords>>,
);

#[test]
fn a_graph_does_what_the_same_work_does_directly() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut work = Work::new(&memory, &stream);
        let host = || -> Host {
            let mut up = memory.upload(LEN).unwrap();
            up.write_each(|i| value(3, i) + 0.1);
            (
                up,
                memory.download(LEN).unwrap(),
                memory.download(1).unwrap(),
            )
        };
        let (_, numbers, sum) = work.enqueue(&stream, host()).unwrap();
        let (numbers, sum) = (numbers.wait().unwrap(), sum.wait().unwrap());
        let host = host();
        let mut graph = device
            .capture(|recorder| work.enqueue(recorder, host))
            .unwrap();
        for _ in 0..3 {
            stream.fill(&mut work.b, 0).unwrap();
            graph.launch(&stream).unwrap();
            let (_, again, sum_again) = graph.host().unwrap();
            assert_eq!(numbers.as_slice(), again.as_slice(), "{}", place.name);
            assert_eq!(sum[0][..2], sum_again[0][..2], "{}", place.name);
        }
    });
}

#[test]
fn inputs_are_refilled_and_outputs_read_between_launches() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut dot = Dot::load(&memory, &stream).unwrap();
        let in_place = memory.zero_copy::<f32>(LEN).unwrap().lend();
        let (up, down) = (memory.upload(LEN).unwrap(), memory.download(1).unwrap());
        let mut on_device = memory.device::<f32>(LEN).unwrap();
        let mut sum = memory.device(1).unwrap();
        let mut graph = device
            .capture(|recorder| {
                let up = recorder.upload(up, &mut on_device)?;
                dot.run(recorder, &in_place, &on_device, &mut sum)?;
                Ok(([in_place], vec![(up, recorder.download(&sum, down)?)]))
            })
            .unwrap();
        for round in 0..20 {
            let ([in_place], mut rest) = graph.host().unwrap();
            let places = in_place.iter_mut().enumerate();
            places.for_each(|(i, v)| *v = value(round, i));
            rest[0].0.write_each(|i| value(round + 1, i));
            graph.launch(&stream).unwrap();
            let (_, rest) = graph.host().unwrap();
            let got = f64::from_bits(rest[0].1[0][0]);
            let of = |i| f64::from(value(round, i)) * f64::from(value(round + 1, i));
            assert_eq!(got, (0..LEN).map(of).sum::<f64>(), "{}", place.name);
        }
        let ([in_place], rest) = graph.into_kept().unwrap();
        assert_eq!((in_place.len(), rest[0].0.len()), (LEN, LEN));
    });
}

#[test]
fn a_launch_is_ordered_with_the_work_of_other_streams_before_and_after() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let other = device.stream().unwrap();
        let mut from = memory.device::<u32>(50_000).unwrap();
        let mut to = memory.device::<u32>(50_000).unwrap();
        let mut graph = device
            .capture(|recorder| recorder.copy(&from, &mut to))
            .unwrap();
        for round in 0..4u8 {
            other.fill(&mut from, round).unwrap();
            graph.launch(&stream).unwrap();
            // This write must wait for the graph's read, and the read for its write.
            other.fill(&mut from, 0xff).unwrap();
            let down = memory.download(50_000).unwrap();
            let down = other.download(&to, down).unwrap().wait().unwrap();
            let want = u32::from_ne_bytes([round; 4]);
            assert!(down.iter().all(|v| *v == want), "{}", place.name);
        }
    });
}

#[test]
fn launches_may_queue_up_on_several_streams_and_never_overlap() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let other = device.stream().unwrap();
        let mut a = memory.device::<u32>(LEN).unwrap();
        let mut b = memory.device::<u32>(LEN).unwrap();
        let buffer = memory.exchange::<u32>(LEN).unwrap();
        let mut graph = device
            .capture(|recorder| {
                // One round moves what the host wrote one place on, and brings back what was there.
                recorder.copy(&b, &mut a)?;
                let buffer = recorder.upload(buffer, &mut b)?;
                recorder.download(&a, buffer).map_err(Into::into)
            })
            .unwrap();
        graph.host().unwrap().fill(1);
        graph.launch(&stream).unwrap();
        graph.host().unwrap().fill(2);
        for stream in [&stream, &other, &stream] {
            graph.launch(stream).unwrap();
        }
        // b: 2 then 1 then 2, as if one after the other.
        assert!(
            graph.host().unwrap().iter().all(|v| *v == 1),
            "{}",
            place.name
        );
    });
}

#[test]
fn a_graph_of_one_device_uses_portable_memory_that_another_one_fills() {
    everywhere(2, |place| {
        let (a, b) = (place.device(0), place.device(1));
        let memory = Memory::for_devices(&[a.clone(), b.clone()]).unwrap();
        let (on_a, on_b) = (a.stream().unwrap(), b.stream().unwrap());
        let mut from = memory.device_on::<u32>(&a, LEN).unwrap();
        let mut to = memory.device_on::<u32>(&b, LEN).unwrap();
        let (host, down) = (memory.exchange(LEN).unwrap(), memory.download(LEN).unwrap());
        let mut filling = a
            .capture(|recorder| {
                recorder.fill(&mut from, 0x17)?;
                Ok(recorder.download(&from, host)?)
            })
            .unwrap();
        assert!(filling.launch(&on_b).is_err());
        filling.launch(&on_a).unwrap();
        let host = filling.into_kept().unwrap();
        let mut carrying = b
            .capture(|recorder| {
                let host = recorder.upload(host, &mut to)?;
                Ok((host, recorder.download(&to, down)?))
            })
            .unwrap();
        carrying.launch(&on_b).unwrap();
        let (_, down) = carrying.host().unwrap();
        assert!(down.iter().all(|v| *v == 0x1717_1717), "{}", place.name);
    });
}

#[test]
fn a_graph_may_go_to_another_thread() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let down = memory.download(LEN).unwrap();
        let mut graph = device
            .capture(|recorder| {
                recorder.fill(&mut on_device, 0x21)?;
                Ok(recorder.download(&on_device, down)?)
            })
            .unwrap();
        let launched = std::thread::spawn(move || {
            graph.launch(&stream).unwrap();
            graph.into_kept().unwrap()
        });
        let down = launched.join().unwrap();
        assert!(down.iter().all(|v| *v == 0x2121_2121), "{}", place.name);
    });
}

#[test]
fn a_launch_is_one_driver_call() {
    let (driver, platform) = counting();
    let (device, memory, stream) = of(&platform);
    let mut dot = Dot::load(&memory, &stream).unwrap();
    let mut cell = memory.scalar_cell().unwrap();
    let buffers: Vec<_> = (0..10).map(|_| memory.upload(LEN).unwrap()).collect();
    let mut on_device = memory.device::<f32>(LEN).unwrap();
    let mut graph = device
        .capture(|recorder| {
            let up = |up| Ok(recorder.upload(up, &mut on_device)?);
            let kept = buffers.into_iter().map(up).collect::<Result<Vec<_>>>()?;
            let expected = dot.run(recorder, &on_device, &on_device, &mut cell)?;
            Ok((expected, kept))
        })
        .unwrap();
    graph.launch(&stream).unwrap();
    for _ in 0..5 {
        cell.wait(&graph.kept().0, LIMIT).unwrap();
        let before = driver.hook().made();
        graph.launch(&stream).unwrap();
        let mut after = driver.hook().made();
        after.retain(|call, count| {
            *count -= before.get(call).copied().unwrap_or(0);
            *count > 0
        });
        let launch = (pinfold_decorate::Call::GraphLaunch, 1);
        assert!(after.into_iter().eq([launch]));
    }
}
