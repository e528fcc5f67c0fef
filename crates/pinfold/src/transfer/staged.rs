//! What one thread does for a transfer: fill a slot while earlier slots are on the link, or empty
//! one while later ones are.

use super::job::Job;
use super::lanes::{Fill, Lane, Lanes, Pour};
use crate::buffer::{ExchangeBuffer, InFlight};
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Refused, Result};
use crate::graph::thread;
use crate::memory::block::Block;
use parking_lot::Mutex;
use pinfold_hal::HostWork;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Where a transfer begins in a block of device memory. Whoever has the block to himself sees to it
/// that nothing else uses it meanwhile.
pub(super) struct Place {
    pub(super) block: Arc<Block>,
    pub(super) offset_bytes: u64,
}

impl Place {
    /// From an element on.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; [`Error::InGraph`] for a block that a graph uses;
    /// [`Error::Capturing`].
    pub(super) fn new<T: Element>(block: &Arc<Block>, device: &Device, at: usize) -> Result<Self> {
        thread::refuse("a transfer of the engine's")?;
        // Transfers note no uses, so a launch would not know of them.
        block.check_bound_at_most(0)?;
        block.device_addr(device)?;
        Ok(Place {
            block: block.clone(),
            offset_bytes: (at * std::mem::size_of::<T>()) as u64,
        })
    }
}

/// Slots in flight, oldest first, with the part of the transfer that each carries.
type Flying = VecDeque<(InFlight<ExchangeBuffer<u8>>, Range<u64>)>;

/// A thread's share of a transfer to the device.
pub(super) fn upload(
    lanes: &Lanes,
    lane: &mut Lane,
    job: &Job,
    to: &Place,
    fill: Fill<'_>,
) -> Result<()> {
    let mut flying = Flying::new();
    let mut share = || -> Result<()> {
        while let Some(range) = job.claim() {
            let mut slot = next_slot(lanes, lane, &mut flying, |_, range| arrived(job, range))?;
            let bytes = (range.end - range.start) as usize;
            fill(range.start, &mut slot.as_mut_slice()[..bytes])?;
            carried(lanes, job, bytes);
            let at = to.offset_bytes + range.start;
            let sent = lane.stream.upload_slot(slot, bytes as u64, &to.block, at);
            in_flight(sent, range, &mut flying)?;
        }
        Ok(())
    };
    let outcome = share();
    let landed = land(lane, flying, to, |_, range| arrived(job, range));
    outcome.and(landed)
}

/// A thread's share of a transfer to the host.
pub(super) fn download(
    lanes: &Lanes,
    lane: &mut Lane,
    job: &Job,
    from: &Place,
    pour: Pour<'_>,
) -> Result<()> {
    let mut flying = Flying::new();
    let empty = |slot: &ExchangeBuffer<u8>, range: &Range<u64>| {
        let bytes = (range.end - range.start) as usize;
        pour(range.start, &slot.as_slice()[..bytes])?;
        carried(lanes, job, bytes);
        arrived(job, range)
    };
    let mut share = || -> Result<()> {
        while let Some(range) = job.claim() {
            let slot = next_slot(lanes, lane, &mut flying, empty)?;
            let at = from.offset_bytes + range.start;
            let bytes = range.end - range.start;
            let sent = lane.stream.download_slot(&from.block, at, slot, bytes);
            in_flight(sent, range, &mut flying)?;
        }
        Ok(())
    };
    let outcome = share();
    let landed = land(lane, flying, from, empty);
    outcome.and(landed)
}

/// Notes a slot that was sent. Of one that was refused a part may be under way all the same, so
/// that it is waited for too; it carries nothing that arrives.
fn in_flight(
    sent: Result<InFlight<ExchangeBuffer<u8>>, Refused<InFlight<ExchangeBuffer<u8>>>>,
    range: Range<u64>,
    flying: &mut Flying,
) -> Result<()> {
    match sent {
        Ok(flight) => flying.push_back((flight, range)),
        Err(refused) => {
            flying.push_back((refused.buffer, range.start..range.start));
            return Err(*refused.error);
        }
    }
    Ok(())
}

fn arrived(job: &Job, range: &Range<u64>) -> Result<()> {
    job.arrived(range.end - range.start);
    Ok(())
}

/// The threads work side by side, so on a virtual clock each declares its part of the time.
fn carried(lanes: &Lanes, job: &Job, bytes: usize) {
    let device = lanes.device();
    if device.is_simulated() {
        device.declare_host_work(HostWork::Copy {
            bytes: bytes as u64,
            threads: job.threads_at_work(lanes.count()),
        });
    }
}

/// A slot that is free, or the oldest one in flight once it has landed.
fn next_slot(
    lanes: &Lanes,
    lane: &mut Lane,
    flying: &mut Flying,
    landed: impl Fn(&ExchangeBuffer<u8>, &Range<u64>) -> Result<()>,
) -> Result<ExchangeBuffer<u8>> {
    if let Some(slot) = lanes.slot(lane, flying.len())? {
        return Ok(slot);
    }
    let Some((flight, range)) = flying.pop_front() else {
        // A slot that is not in flight is at hand or can be made, or the error was told.
        return Err(Error::Threads {
            count: lanes.count() as usize,
            problem: "a thread has no slot".to_owned(),
        });
    };
    match flight.wait() {
        Ok(slot) => {
            landed(&slot, &range)?;
            Ok(slot)
        }
        Err(refused) => {
            let error = *refused.error;
            flying.push_front((refused.buffer, range));
            Err(error)
        }
    }
}

/// Waits for all that is in flight, whatever happened before. Device memory that work may still be
/// using, because the driver refuses to wait for it, is kept for ever.
fn land(
    lane: &mut Lane,
    flying: Flying,
    place: &Place,
    landed: impl Fn(&ExchangeBuffer<u8>, &Range<u64>) -> Result<()>,
) -> Result<()> {
    let mut outcome = Ok(());
    for (flight, range) in flying {
        match flight.wait() {
            Ok(slot) => {
                if outcome.is_ok() {
                    outcome = landed(&slot, &range);
                }
                lane.free.push(slot);
            }
            Err(refused) => {
                let settled = lane.stream.device().settle();
                if settled.is_err_and(|error| !error.device_is_lost()) {
                    std::mem::forget(place.block.clone());
                }
                outcome = outcome.and(Err(*refused.error));
            }
        }
    }
    outcome
}

/// The bytes of a slice from an offset on.
pub(super) fn fill_from(from: &[u8], at: u64, slot: &mut [u8]) -> Result<()> {
    let at = at as usize;
    slot.copy_from_slice(&from[at..at + slot.len()]);
    Ok(())
}

/// A slice in parts, each of which one thread writes.
pub(super) struct Parts<'a> {
    chunk_bytes: u64,
    parts: Vec<Mutex<&'a mut [u8]>>,
}

/// Cuts a slice as a job of that chunk size does.
pub(super) fn pour_into(to: &mut [u8], chunk_bytes: u64) -> Parts<'_> {
    Parts {
        chunk_bytes,
        parts: to
            .chunks_mut(chunk_bytes as usize)
            .map(Mutex::new)
            .collect(),
    }
}

impl Parts<'_> {
    /// Writes the part that begins at an offset.
    pub(super) fn pour(&self, at: u64, slot: &[u8]) -> Result<()> {
        if let Some(part) = self.parts.get((at / self.chunk_bytes) as usize) {
            let mut part = part.lock();
            let bytes = part.len().min(slot.len());
            part[..bytes].copy_from_slice(&slot[..bytes]);
        }
        Ok(())
    }
}
