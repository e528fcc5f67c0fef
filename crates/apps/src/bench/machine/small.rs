//! What small things cost: launches, events, host functions, and one number back to the host.

use super::super::table::Figure;
use super::rig::{LIMIT, Rig};
use crate::error::Result;
use crate::progress::Progress;
use pinfold::event::EventKind;

/// Kernels behind each other, without a call between them: their share is what one takes at least.
/// Few enough that virtual time has them all enqueued before the first begins.
const HELD_KERNELS: usize = 4;

/// Nanoseconds of small things.
pub(super) struct Measured {
    pub(super) launch_call: Figure,
    pub(super) launch_and_wait: Figure,
    pub(super) kernel_floor: Figure,
    pub(super) event_record: Figure,
    pub(super) event_query: Figure,
    pub(super) event_wait: Figure,
    pub(super) callback_call: Figure,
    pub(super) callback_and_wait: Figure,
    pub(super) object: Figure,
    /// A kernel's number: copied back and waited for, published and waited for by the stream,
    /// published and polled for.
    pub(super) copied: Figure,
    pub(super) published: Figure,
    pub(super) polled: Figure,
}

/// Measures small things.
pub(super) fn measure(rig: &mut Rig, progress: &mut dyn Progress) -> Result<Measured> {
    progress.begin("small things", 3);
    let launches = launches(rig)?;
    progress.step();
    let events = events(rig)?;
    progress.step();
    let results = results(rig)?;
    progress.step();
    progress.end();
    let [launch_call, launch_and_wait, kernel_floor] = launches;
    let [record, query, wait, call, callback, object] = events;
    let [copied, published, polled] = results;
    Ok(Measured {
        launch_call,
        launch_and_wait,
        kernel_floor,
        event_record: record,
        event_query: query,
        event_wait: wait,
        callback_call: call,
        callback_and_wait: callback,
        object,
        copied,
        published,
        polled,
    })
}

/// The call, a launch with the wait for it, and what a kernel takes at least: of a kernel that
/// fills one word of device memory.
fn launches(rig: &mut Rig) -> Result<[Figure; 3]> {
    let mut word = rig.pooled.device::<u64>(1)?;
    let many = rig.plan.many();
    let mut calls = Vec::new();
    let whole = rig.repeat(many, |rig| {
        let start_ns = rig.now_ns();
        rig.patterns.fill(&rig.stream, &mut word, 0)?;
        calls.push((rig.now_ns() - start_ns) as f64);
        rig.stream.synchronize()?;
        Ok((rig.now_ns() - start_ns) as f64)
    })?;
    let floor = rig.repeat(many, |rig| {
        rig.held_ns(|rig| {
            (0..HELD_KERNELS).try_for_each(|_| Ok(rig.patterns.fill(&rig.stream, &mut word, 0)?))
        })
    })?;
    calls.remove(0); // the first round warms up
    Ok([
        Figure::of(calls),
        whole,
        floor.times(1.0 / HELD_KERNELS as f64),
    ])
}

/// Recording, querying and waiting for an event; calling a host function, and with the wait for it;
/// making an event and giving it up.
fn events(rig: &mut Rig) -> Result<[Figure; 6]> {
    let event = rig.device.event(EventKind::NoTiming)?;
    rig.stream.record(&event)?;
    rig.stream.synchronize()?;
    let many = rig.plan.many();
    let mut turns = [0, 1, 2, 3, 4, 5];
    let figures = rig.rounds(&mut turns, many, |rig, what| {
        let start_ns = rig.now_ns();
        let mut end_ns = None;
        match what {
            0 => rig.stream.record(&event)?,
            1 => drop(event.is_done()?),
            2 => rig.stream.wait(&event)?,
            3 => {
                rig.stream.call_host(|| {})?;
                end_ns = Some(rig.now_ns());
            }
            4 => {
                rig.stream.call_host(|| {})?;
                rig.stream.synchronize()?;
            }
            _ => drop(rig.device.event(EventKind::NoTiming)?),
        }
        let ns = (end_ns.unwrap_or_else(|| rig.now_ns()) - start_ns) as f64;
        rig.stream.synchronize()?;
        // Made and given up: half of it each.
        Ok(if *what == 5 { ns / 2.0 } else { ns })
    })?;
    Ok([0, 1, 2, 3, 4, 5].map(|n: usize| figures[n]))
}

/// One number of a kernel to the host, by three ways.
fn results(rig: &mut Rig) -> Result<[Figure; 3]> {
    let mut input = rig.pooled.device::<u64>(128)?;
    rig.patterns.fill(&rig.stream, &mut input, 0)?;
    rig.stream.synchronize()?;
    let mut slot = Some(rig.pooled.download(1)?);
    let figures = rig.rounds(&mut [0, 1, 2], rig.plan.many(), |rig, way| {
        let start_ns = rig.now_ns();
        if *way == 0 {
            rig.patterns.check(&rig.stream, &input, 0, &mut rig.found)?;
            if let Some(to) = slot.take() {
                slot = Some(rig.stream.download(&rig.found, to)?.wait()?);
            }
        } else {
            let found = rig.patterns.check(&rig.stream, &input, 0, &mut rig.cell)?;
            if *way == 1 {
                rig.stream.synchronize()?;
            }
            rig.cell.wait(found, LIMIT)?;
        }
        let ns = (rig.now_ns() - start_ns) as f64;
        rig.stream.synchronize()?;
        Ok(ns)
    })?;
    Ok([0, 1, 2].map(|way: usize| figures[way]))
}
