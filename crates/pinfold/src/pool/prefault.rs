//! Making fresh memory real, by several threads, while earlier parts are already being used.
//!
//! The first touch of a page costs the kernel a fault and a zeroed page, which is most of what
//! page-locking fresh memory costs. Several threads do it side by side. Registering is behind a
//! lock of the driver's, so one thread registers each chunk as soon as all of it was touched.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;

/// What a thread touches at a time.
const UNIT_BYTES: usize = 8 << 20;
/// More threads than this gain nothing (tried on 16 processors).
pub(super) const THREADS_MAX: usize = 8;
const PAGE_BYTES: usize = 4096;

/// Who touches.
#[derive(Clone, Copy)]
pub(super) struct Crew<'a> {
    /// Most threads.
    pub(super) threads_max: usize,
    /// What each thread does first, where it matters which threads touch.
    pub(super) first: Option<&'a (dyn Fn() + Sync)>,
}

/// Touches all pages of the chunks of some memory, and calls `ready` with the number of each, in
/// any order, as soon as its pages are there. Stops early where `ready` fails, and returns that
/// failure.
pub(super) fn prefault<E>(
    chunks: Vec<&mut [u8]>,
    crew: Crew<'_>,
    mut ready: impl FnMut(usize) -> Result<(), E>,
) -> Result<(), E> {
    let left: Vec<AtomicU32> = chunks
        .iter()
        .map(|chunk| AtomicU32::new(chunk.len().div_ceil(UNIT_BYTES) as u32))
        .collect();
    let mut units: Vec<(usize, &mut [u8])> = chunks
        .into_iter()
        .enumerate()
        .flat_map(|(n, chunk)| chunk.chunks_mut(UNIT_BYTES).map(move |unit| (n, unit)))
        .collect();
    if let ([(_, unit)], None) = (units.as_mut_slice(), crew.first) {
        touch(unit);
        return ready(0);
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(crew.threads_max).min(units.len());
    let units = Mutex::new(units.into_iter());
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, units, left, stop) = (sender.clone(), &units, &left, &stop);
            scope.spawn(move || {
                if let Some(first) = crew.first {
                    first();
                }
                while !stop.load(Ordering::Relaxed) {
                    let next = units.lock().next();
                    let Some((n, unit)) = next else {
                        return;
                    };
                    touch(unit);
                    if left[n].fetch_sub(1, Ordering::AcqRel) == 1 && sender.send(n).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let outcome = receiver.iter().try_for_each(&mut ready);
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

    const CREW: Crew<'_> = Crew {
        threads_max: THREADS_MAX,
        first: None,
    };

    #[test]
    fn every_chunk_is_ready_once() {
        for sizes in [
            vec![],
            vec![1],
            vec![UNIT_BYTES + 1],
            vec![PAGE_BYTES, 3 * UNIT_BYTES, 7],
        ] {
            let mut memory: Vec<Vec<u8>> = sizes.iter().map(|n| vec![1; *n]).collect();
            let chunks = memory.iter_mut().map(Vec::as_mut_slice).collect();
            let mut seen = Vec::new();
            let outcome: Result<(), ()> = prefault(chunks, CREW, |n| {
                seen.push(n);
                Ok(())
            });
            assert_eq!(outcome, Ok(()));
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..sizes.len()));
            let pages = memory.iter().flat_map(|chunk| chunk.chunks(PAGE_BYTES));
            assert!(pages.into_iter().all(|page| page[0] == 0));
        }
    }

    #[test]
    fn a_failure_stops_the_rest() {
        let mut memory = vec![0; 3 * UNIT_BYTES];
        let chunks = memory.chunks_mut(UNIT_BYTES).collect();
        let mut calls = 0;
        let outcome = prefault(chunks, CREW, |_| {
            calls += 1;
            Err("full")
        });
        assert_eq!((outcome, calls), (Err("full"), 1));
    }
}
