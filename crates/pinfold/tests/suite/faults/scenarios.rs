//! What programs do with the library, in steps that can be tried again.

use pinfold::buffer::HandOver;
use pinfold::kernels::dot::Dot;
use pinfold::pool::{PinOnUse, Pool, PoolOptions};
use pinfold::transfer::{Engine, EngineOptions, Way};
use pinfold::{Device, Error, EventKind, Memory, MemoryKind, Platform, Refused, Result, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
pub(super) const LEN: usize = 3000;

/// What a scenario runs on, and how often it tries a step before it gives up.
pub(super) struct Run<'a> {
    pub(super) platform: &'a Platform,
    pub(super) attempts: u32,
    pub(super) pooled: bool,
}

impl Run<'_> {
    /// Tries a step.
    fn step<T>(&self, mut step: impl FnMut() -> Result<T>) -> Result<T> {
        let mut outcome = step();
        for _ in 1..self.attempts {
            if outcome.is_err() {
                outcome = step();
            }
        }
        outcome
    }

    /// Tries a step that takes something over, with what the last try gave back.
    fn give<B, T>(&self, given: B, mut step: impl FnMut(B) -> Result<T, Refused<B>>) -> Result<T> {
        let mut outcome = step(given);
        for _ in 1..self.attempts {
            outcome = outcome.or_else(|refused| step(refused.buffer));
        }
        Ok(outcome?)
    }

    fn device(&self, index: u32) -> Result<Device> {
        self.step(|| self.platform.device(index))
    }

    fn memory(&self, devices: &[Device]) -> Memory {
        match self.pooled {
            true => Memory::pooled(devices, &PoolOptions::default()).unwrap(),
            false => Memory::unpooled(devices).unwrap(),
        }
    }

    /// A device with a stream and memory.
    fn one(&self) -> Result<(Device, Stream, Memory)> {
        let device = self.device(0)?;
        let stream = self.step(|| device.stream())?;
        let memory = self.memory(std::slice::from_ref(&device));
        Ok((device, stream, memory))
    }
}

fn numbers(salt: u32) -> impl Fn(usize) -> u32 {
    move |i| (i as u32).wrapping_mul(2_654_435_761) ^ salt
}

fn float(i: usize) -> f32 {
    (i % 100) as f32 - 49.5
}

/// The dot product of `float` with itself. Whole quarters below 2^50, so exact in any order.
fn dot_with_itself() -> f64 {
    (0..LEN).map(|i| f64::from(float(i)).powi(2)).sum()
}

pub(super) fn dot_on_the_device(run: &Run<'_>) -> Result<()> {
    let (_, stream, memory) = run.one()?;
    let mut dot = run.step(|| Dot::load(&memory, &stream))?;
    let mut vectors = Vec::new();
    let mut flights = Vec::new();
    for _ in 0..2 {
        let mut up = run.step(|| memory.upload::<f32>(LEN))?;
        up.write_each(float);
        let mut vector = run.step(|| memory.device(LEN))?;
        flights.push(run.give(up.hand_over(), |up| stream.upload(up, &mut vector))?);
        vectors.push(vector);
    }
    let mut cell = run.step(|| memory.device(1))?;
    run.step(|| dot.run(&stream, &vectors[0], &vectors[1], &mut cell))?;
    let down = run.step(|| memory.download(1))?;
    let down = run.give(down.hand_over(), |down| stream.download(&cell, down))?;
    let down = run.give(down, |down| down.wait())?;
    assert_eq!(f64::from_bits(down[0][0]), dot_with_itself());
    for flight in flights {
        drop(run.give(flight, |flight| flight.wait())?);
    }
    Ok(())
}

pub(super) fn dot_in_place(run: &Run<'_>) -> Result<()> {
    let (_, stream, memory) = run.one()?;
    let mut dot = run.step(|| Dot::load(&memory, &stream))?;
    let mut cell = run.step(|| memory.scalar_cell())?;
    let lend = || -> Result<_> {
        let mut buffer = memory.upload_in_place::<f32>(LEN)?;
        buffer.write_each(float);
        Ok(buffer.lend())
    };
    let (a, b) = (run.step(lend)?, run.step(lend)?);
    for _ in 0..2 {
        let [sum, _] = run.step(|| {
            let expected = dot.run(&stream, &a, &b, &mut cell)?;
            cell.wait(expected, LIMIT)
        })?;
        assert_eq!(sum, dot_with_itself());
    }
    run.give(a, |a| a.wait())?;
    Ok(())
}

pub(super) fn exchange(run: &Run<'_>) -> Result<()> {
    let (device, stream, memory) = run.one()?;
    let other = run.step(|| device.stream())?;
    let mut buffer = run.step(|| memory.exchange::<u32>(LEN))?;
    let mut on_device = run.step(|| memory.device(LEN))?;
    for round in 0..3 {
        let value = numbers(round);
        buffer
            .iter_mut()
            .enumerate()
            .for_each(|(i, v)| *v = value(i));
        let flight = run.give(buffer.hand_over(), |b| stream.upload(b, &mut on_device))?;
        buffer = run.give(flight, |flight| flight.wait())?;
        buffer.fill(0);
        let flight = run.give(buffer.hand_over(), |b| other.download(&on_device, b))?;
        // The next operation needs a mark behind the copy.
        run.step(|| other.fill(&mut on_device, 0xee))?;
        buffer = run.give(flight, |flight| flight.wait())?;
        assert!(buffer.iter().enumerate().all(|(i, v)| *v == value(i)));
    }
    Ok(())
}

pub(super) fn registered(run: &Run<'_>) -> Result<()> {
    let (_, stream, memory) = run.one()?;
    let data: Vec<u32> = (0..LEN).map(numbers(5)).collect();
    let mut on_device = run.step(|| memory.device(LEN))?;
    let buffer = run.give(data, |data| memory.register(data))?;
    let flight = run.give(buffer.lend(), |b| stream.upload(b, &mut on_device))?;
    let mut buffer = run.give(flight, |flight| flight.wait())?;
    buffer.as_mut_slice().fill(0);
    let flight = run.give(buffer.lend(), |b| stream.download(&on_device, b))?;
    let buffer = run.give(flight, |flight| flight.wait())?;
    let data = buffer.into_inner()?.unwrap_or_default();
    assert!(data.into_iter().eq((0..LEN).map(numbers(5))));

    // And for a scope, from which the handle is leaked.
    let mut slice = vec![0u32; LEN];
    run.step(|| {
        memory.with_registered(&mut slice[..], |buffer| {
            stream
                .download(&on_device, buffer)
                .map(std::mem::forget)
                .map_err(Error::from)
        })??;
        Ok(())
    })?;
    assert!(slice.into_iter().eq((0..LEN).map(numbers(5))));
    Ok(())
}

pub(super) fn two_devices(run: &Run<'_>) -> Result<()> {
    let (a, b) = (run.device(0)?, run.device(1)?);
    let memory = run.memory(&[a.clone(), b.clone()]);
    let (on_a, on_b) = (run.step(|| a.stream())?, run.step(|| b.stream())?);
    let mut from = run.step(|| memory.device_on::<u32>(&a, LEN))?;
    let mut to = run.step(|| memory.device_on::<u32>(&b, LEN))?;
    let event = run.step(|| a.event(EventKind::Timing))?;
    let end = run.step(|| a.event(EventKind::Timing))?;
    run.step(|| on_a.record(&event))?;
    run.step(|| on_a.fill(&mut from, 0x5a))?;
    let host = run.step(|| memory.exchange(LEN))?;
    let host = run.give(host.hand_over(), |host| on_a.download(&from, host))?;
    // By an event of the program's own, and by the buffer.
    run.step(|| on_a.record(&end))?;
    run.step(|| on_b.wait(&end))?;
    let host = run.give(host, |host| on_b.upload(host, &mut to))?;
    let down = run.step(|| memory.download(LEN))?;
    let down = run.give(down.hand_over(), |down| on_b.download(&to, down))?;
    let down = run.give(down, |down| down.wait())?;
    assert!(down.iter().all(|v| *v == 0x5a5a_5a5a));
    run.step(|| end.synchronize())?;
    assert!(run.step(|| end.is_done())?);
    assert!(run.step(|| end.elapsed_ns_since(&event))?.is_some());
    drop(host);
    Ok(())
}

/// One thread, so that the calls come in the same order each time.
pub(super) fn staged(run: &Run<'_>) -> Result<()> {
    let (device, stream, memory) = run.one()?;
    let mut options = EngineOptions::default();
    (options.threads, options.way) = (Some(1), Some(Way::Staged));
    (options.slot_bytes, options.slots) = (64 << 10, 2);
    let engine = run.step(|| Engine::with_options(&memory, &device, &options))?;
    let n = 70_000;
    let data: Vec<u32> = (0..n).map(numbers(3)).collect();
    let mut on_device = run.step(|| memory.device(n))?;
    run.step(|| stream.fill(&mut on_device, 0xee))?;
    run.step(|| engine.upload(&data, &mut on_device))?;
    let mut back = vec![0; n];
    run.step(|| engine.download(&on_device, &mut back))?;
    assert!(back == data);
    options.way = Some(Way::Driver);
    let engine = run.step(|| Engine::with_options(&memory, &device, &options))?;
    run.step(|| {
        engine
            .upload(&data[1..], &mut on_device)
            .map(drop)
            .or_else(expect_length)
    })?;
    run.step(|| engine.upload(&back, &mut on_device))?;
    run.step(|| engine.download(&on_device, &mut back))?;
    assert!(back == data);
    Ok(())
}

fn expect_length(error: Error) -> Result<()> {
    match error {
        Error::Length { .. } => Ok(()),
        other => Err(other),
    }
}

pub(super) fn dropped_in_flight(run: &Run<'_>) -> Result<()> {
    let (device, stream, memory) = run.one()?;
    let mut kept = Vec::new();
    for round in 0..4 {
        let mut up = run.step(|| memory.upload(LEN))?;
        up.write_each(numbers(round));
        let mut on_device = run.step(|| memory.device(LEN))?;
        drop(run.give(up.hand_over(), |up| stream.upload(up, &mut on_device))?);
        if round % 2 == 0 {
            kept.push((on_device, round));
        }
    }
    run.step(|| memory.collect())?;
    for (on_device, round) in kept {
        let down = run.step(|| memory.download(LEN))?;
        let down = run.give(down.hand_over(), |down| stream.download(&on_device, down))?;
        let down = run.give(down, |down| down.wait())?;
        assert!(
            down.iter()
                .enumerate()
                .all(|(i, v)| *v == numbers(round)(i))
        );
        // One more that nobody waits for.
        drop(run.give(down.hand_over(), |down| stream.download(&on_device, down))?);
    }
    let called = Arc::new(AtomicU32::new(0));
    run.step(|| {
        let called = called.clone();
        stream.call_host(move || {
            called.fetch_add(1, Ordering::Relaxed);
        })
    })?;
    run.step(|| stream.synchronize())?;
    assert_eq!(called.load(Ordering::Relaxed), 1);
    run.step(|| device.synchronize())?;
    run.step(|| device.memory_bytes())?;
    Ok(())
}

/// Work without a buffer, which nobody waits for.
pub(super) fn called_and_dropped(run: &Run<'_>) -> Result<()> {
    let (_, stream, _) = run.one()?;
    run.step(|| stream.call_host(|| ()))
}

/// A request that the driver serves only further down the ladder.
pub(super) fn ladder(run: &Run<'_>) -> Result<()> {
    const BYTES: usize = 8 << 20;
    let (_, stream, memory) = run.one()?;
    let combined = memory.of_kind(MemoryKind::WriteCombined);
    let mut up = run.step(|| combined.upload::<u8>(BYTES))?;
    assert!(!up.placement().ladder().is_empty());
    up.write(BYTES - 3, &[1, 2, 3]).unwrap();
    let mut on_device = run.step(|| memory.device(3))?;
    let part = BYTES - 3..BYTES;
    drop(run.give(up.hand_over(), |up| {
        stream.upload_part(up, part.clone(), &mut on_device, 0)
    })?);
    let down = run.step(|| memory.download(3))?;
    let down = run.give(down.hand_over(), |down| stream.download(&on_device, down))?;
    let down = run.give(down, |down| down.wait())?;
    assert_eq!(down.as_slice(), [1, 2, 3]);
    // Memory that kernels use in place is never pageable: page-locked whole, or piece by piece.
    drop(run.step(|| memory.zero_copy::<u8>(BYTES))?);
    Ok(())
}

/// Memory that is page-locked before it is asked for.
pub(super) fn reserved(run: &Run<'_>) -> Result<()> {
    const BYTES: u64 = 3 << 20;
    let (device, stream, memory) = run.one()?;
    if run.pooled {
        run.step(|| memory.reserve(BYTES))?;
        run.step(|| memory.reserve_in_background(BYTES)?.wait(LIMIT))?;
        run.step(|| memory.reserve_in_background(BYTES)?.wait(LIMIT))?;
    }
    // And in a pool of its own.
    let pool = Pool::new(&[device], &PoolOptions::default()).unwrap();
    run.step(|| pool.reserve_in_background(BYTES)?.wait(LIMIT))?;
    drop(run.step(|| pool.take(BYTES))?);
    let mut up = run.step(|| memory.upload(LEN))?;
    up.write_each(numbers(9));
    let mut on_device = run.step(|| memory.device(LEN))?;
    let up = run.give(up.hand_over(), |up| stream.upload(up, &mut on_device))?;
    drop(run.give(up, |up| up.wait())?);
    Ok(())
}

/// Work that is recorded once, launched several times, and left behind in flight.
pub(super) fn graph(run: &Run<'_>) -> Result<()> {
    let (device, stream, memory) = run.one()?;
    let other = run.step(|| device.stream())?;
    let mut dot = run.step(|| Dot::load(&memory, &stream))?;
    let mut cell = run.step(|| memory.scalar_cell())?;
    let mut vector = run.step(|| memory.device::<f32>(LEN))?;
    let in_place = run.step(|| {
        let mut buffer = memory.upload_in_place::<f32>(LEN)?;
        buffer.write_each(float);
        Ok(buffer.lend())
    })?;
    let mut free = Some(run.step(|| memory.exchange::<f32>(LEN))?.hand_over());
    let mut graph = run.step(|| {
        let captured = device.capture(|recorder| {
            let uploaded = free.take().map(|b| recorder.upload(b, &mut vector));
            let flight = uploaded.transpose().map_err(|refused| {
                free = Some(refused.buffer);
                *refused.error
            })?;
            match dot.run(recorder, &in_place, &vector, &mut cell) {
                Ok(expected) => Ok((expected, Vec::from_iter(flight))),
                Err(error) => {
                    free = flight;
                    Err(error)
                }
            }
        });
        captured.map_err(|refused| {
            let kept = refused.buffer.and_then(|(_, mut flights)| flights.pop());
            free = free.take().or(kept);
            *refused.error
        })
    })?;
    for n in 0..3 {
        let factor = n as f32;
        run.step(|| {
            let (_, mut buffers) = graph.host()?;
            let places = buffers[0].iter_mut().enumerate();
            places.for_each(|(i, v)| *v = factor * float(i));
            graph.launch([&stream, &other][n % 2])?;
            let [sum, _] = cell.wait(&graph.kept().0, LIMIT)?;
            assert_eq!(sum, f64::from(factor) * dot_with_itself());
            Ok(())
        })?;
    }
    run.give(graph, |graph| graph.into_kept().map(drop))?;
    run.give(in_place, |b| b.wait())?;
    let mut filling = run.step(|| {
        let captured = device.capture(|recorder| recorder.fill(&mut vector, 1));
        Ok(captured?)
    })?;
    run.step(|| filling.launch(&stream))?;
    run.step(|| filling.launch(&other))
}

/// Buffers that are made ordinary memory before each use: one of the program's own memory, and
/// over a pool one that has a segment of its own.
pub(super) fn pinned_on_use(run: &Run<'_>) -> Result<()> {
    const LARGE: usize = 20_000;
    let device = run.device(0)?;
    let stream = run.step(|| device.stream())?;
    let devices = std::slice::from_ref(&device);
    let mut options = PoolOptions::default();
    options.pin_on_use = Some(PinOnUse {
        idle_after: Duration::from_secs(3600),
        least_bytes: 0,
    });
    let memory = match run.pooled {
        true => Memory::pooled(devices, &options).unwrap(),
        false => run.memory(devices),
    };
    let mut on_device = run.step(|| memory.device(LARGE))?;
    let mut up = run.step(|| memory.exchange::<u32>(LARGE))?;
    up.iter_mut()
        .enumerate()
        .for_each(|(i, v)| *v = numbers(4)(i));
    let mut down = run.give(vec![0u32; LARGE], |data| memory.register(data))?;
    for _ in 0..2 {
        memory.unpin_idle(Duration::ZERO);
        let flight = run.give(up.hand_over(), |up| stream.upload(up, &mut on_device))?;
        let back = run.give(down.hand_over(), |down| stream.download(&on_device, down))?;
        down = run.give(back, |back| back.wait())?;
        let is_right = |(i, v): (usize, &u32)| *v == numbers(4)(i);
        assert!(down.as_slice().iter().enumerate().all(is_right));
        down.as_mut_slice().fill(0);
        up = run.give(flight, |flight| flight.wait())?;
        assert!(up.iter().enumerate().all(is_right));
    }
    Ok(())
}
