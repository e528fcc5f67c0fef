//! Making fresh memory real, by several threads, while earlier parts are already being used.
//!
//! The first touch of a page costs the kernel a fault and a zeroed page, which is most of what
//! page-locking fresh memory costs. Several threads do it side by side. Registering is behind a
//! lock of the driver's, so one thread registers each chunk as soon as all of it was touched.

use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;

/// What is registered at a time.
pub(super) const CHUNK_BYTES: usize = 64 << 20;
/// What a thread touches at a time.
const UNIT_BYTES: usize = 8 << 20;
/// More threads than this gain nothing (tried on 16 processors).
const THREADS_MAX: usize = 8;
const PAGE_BYTES: usize = 4096;

/// Touches all pages of `memory`, and calls `ready` with each chunk of it, in any order, as soon as
/// its pages are there. Stops early where `ready` fails, and returns that failure.
pub(super) fn prefault<E>(
    memory: &mut [u8],
    mut ready: impl FnMut(Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let bytes = memory.len();
    if bytes <= UNIT_BYTES {
        touch(memory);
        return match bytes {
            0 => Ok(()),
            _ => ready(0..bytes),
        };
    }
    let chunk = |n: usize| n * CHUNK_BYTES..bytes.min((n + 1) * CHUNK_BYTES);
    let left: Vec<AtomicU32> = (0..bytes.div_ceil(CHUNK_BYTES))
        .map(|n| AtomicU32::new(chunk(n).len().div_ceil(UNIT_BYTES) as u32))
        .collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(THREADS_MAX).min(bytes.div_ceil(UNIT_BYTES));
    let units = Mutex::new(memory.chunks_mut(UNIT_BYTES).enumerate());
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, units, left, stop) = (sender.clone(), &units, &left, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some((n, unit)) = units.lock().next() else {
                        return;
                    };
                    touch(unit);
                    let n = n * UNIT_BYTES / CHUNK_BYTES;
                    if left[n].fetch_sub(1, Ordering::AcqRel) == 1 && sender.send(n).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let outcome = receiver.iter().try_for_each(|n| ready(chunk(n)));
        stop.store(true, Ordering::Relaxed);
        outcome
    })
}

fn touch(unit: &mut [u8]) {
    for page in unit.chunks_mut(PAGE_BYTES) {
        page[0] = 0;
    }
    std::hint::black_box(unit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_ready_once() {
        for bytes in [
            0,
            1,
            PAGE_BYTES,
            UNIT_BYTES + 1,
            2 * CHUNK_BYTES + UNIT_BYTES,
        ] {
            let mut memory = vec![0; bytes];
            let mut chunks = Vec::new();
            let outcome: Result<(), ()> = prefault(&mut memory, |range| {
                chunks.push(range);
                Ok(())
            });
            assert_eq!(outcome, Ok(()));
            chunks.sort_by_key(|range| range.start);
            let ends: Vec<usize> = chunks.iter().map(|range| range.end).collect();
            let starts: Vec<usize> = chunks.iter().map(|range| range.start).collect();
            assert_eq!(ends.last().copied().unwrap_or(0), bytes);
            assert!(starts.iter().skip(1).eq(ends.iter().rev().skip(1).rev()));
        }
    }

    #[test]
    fn a_failure_stops_the_rest() {
        let mut memory = vec![0; 3 * CHUNK_BYTES];
        let mut calls = 0;
        let outcome = prefault(&mut memory, |_| {
            calls += 1;
            Err("full")
        });
        assert_eq!((outcome, calls), (Err("full"), 1));
    }
}
