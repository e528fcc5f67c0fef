//! What every group of measurements works with: a device with memory, a stream and kernels, rounds
//! in turn, and a stream that is held back until all is enqueued.

use super::super::table::Figure;
use super::plan::Plan;
use crate::error::{JobError, Result};
use crate::progress::Silent;
use crate::rounds::{Rounds, interleave};
use pinfold::event::EventKind;
use pinfold::kernels::pattern::Patterns;
use pinfold::kernels::{CellBuffer, splitmix64};
use pinfold::{Device, Memory, ScalarCell, Stream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Nothing here takes nearly as long.
pub(in crate::bench) const LIMIT: Duration = Duration::from_secs(60);
/// The pattern that data is written with and checked by.
pub(in crate::bench) const SEED: u64 = 0x5EED;

/// The device with what measurements need.
pub(in crate::bench) struct Rig {
    pub(in crate::bench) device: Device,
    /// Over a pool: large blocks in a moment.
    pub(in crate::bench) pooled: Memory,
    /// Straight from the driver, of the kind that is asked for.
    pub(in crate::bench) plain: Memory,
    pub(in crate::bench) stream: Stream,
    pub(in crate::bench) patterns: Patterns,
    /// Where kernels of timed launches put what they found.
    pub(in crate::bench) found: CellBuffer,
    pub(in crate::bench) cell: ScalarCell,
    pub(in crate::bench) plan: Plan,
}

impl Rig {
    pub(in crate::bench) fn new(device: &Device, plan: Plan) -> Result<Self> {
        let devices = std::slice::from_ref(device);
        let pooled = Memory::new(device);
        let plain = Memory::unpooled(devices).unwrap_or_else(|| pooled.clone());
        let stream = device.stream()?;
        let rig = Rig {
            patterns: Patterns::load(&pooled, &stream)?,
            found: pooled.device(1)?,
            cell: pooled.scalar_cell()?,
            plain: plain.strict(),
            pooled,
            stream,
            device: device.clone(),
            plan,
        };
        rig.stream.synchronize()?;
        Ok(rig)
    }

    /// The device's clock.
    pub(in crate::bench) fn now_ns(&self) -> u64 {
        self.device.now_ns()
    }

    /// Rounds in which every contender has its turn; the first does not count. `run` returns
    /// nanoseconds.
    pub(in crate::bench) fn rounds<C>(
        &mut self,
        contenders: &mut [C],
        repeats: usize,
        mut run: impl FnMut(&mut Rig, &mut C) -> Result<f64>,
    ) -> Result<Vec<Figure>> {
        let rounds = Rounds {
            warm_up: 1,
            counted: repeats.max(1),
        };
        let timed = interleave(contenders, rounds, &mut Silent, |_, c| run(self, c))?;
        Ok(timed
            .into_iter()
            .map(|t| Figure::of(t.into_values()))
            .collect())
    }

    /// Time of one thing alone, many times; the first does not count. `run` returns nanoseconds.
    pub(in crate::bench) fn repeat(
        &mut self,
        repeats: usize,
        mut run: impl FnMut(&mut Rig) -> Result<f64>,
    ) -> Result<Figure> {
        let figures = self.rounds(&mut [()], repeats, |rig, ()| run(rig))?;
        Ok(figures.first().copied().unwrap_or(Figure::of(Vec::new())))
    }

    /// Nanoseconds from the call of `work` until the stream is done with what it enqueued.
    pub(in crate::bench) fn until_done(
        &mut self,
        work: impl FnOnce(&mut Rig) -> Result<()>,
    ) -> Result<f64> {
        let start_ns = self.now_ns();
        work(self)?;
        self.stream.synchronize()?;
        Ok((self.now_ns() - start_ns) as f64)
    }

    /// Nanoseconds, by the device's own clock, that the stream takes for what `enqueue` puts onto
    /// it. A host function holds the stream until all of it is there, so that no call is in the
    /// figure. Virtual time begins it a fixed while after its call, which holds just as well.
    pub(in crate::bench) fn held_ns(
        &mut self,
        enqueue: impl FnOnce(&mut Rig) -> Result<()>,
    ) -> Result<f64> {
        let begin = self.device.event(EventKind::Timing)?;
        let end = self.device.event(EventKind::Timing)?;
        let gate = Gate::default();
        let waiting = gate.clone();
        let is_real = !self.device.is_simulated();
        // Opened however this ends: the stream must not stay held.
        let open = OpenAtEnd(gate);
        self.stream.call_host(move || {
            if is_real {
                waiting.wait();
            }
        })?;
        self.stream.record(&begin)?;
        enqueue(self)?;
        self.stream.record(&end)?;
        drop(open);
        self.stream.synchronize()?;
        Ok(end.elapsed_ns_since(&begin)?.unwrap_or(f64::NAN))
    }

    /// Whether the device's memory holds the pattern.
    ///
    /// # Errors
    /// [`JobError::WrongResult`] where it does not.
    pub(in crate::bench) fn check_device(
        &mut self,
        memory: &impl pinfold::buffer::DeviceRead<Item = u64>,
    ) -> Result<()> {
        let found = (self.patterns).check(&self.stream, memory, SEED, &mut self.cell)?;
        let [wrong, _] = self.cell.wait(found, LIMIT)?;
        check(wrong == 0.0)
    }
}

/// Whether memory of the host holds the pattern.
///
/// # Errors
/// [`JobError::WrongResult`] where it does not.
pub(in crate::bench) fn check_host(words: &[u64]) -> Result<()> {
    let mut all = (0u64..).zip(words);
    check(all.all(|(i, word)| *word == word_of(i)))
}

/// # Errors
/// [`JobError::WrongResult`] where what arrived is not what was sent.
pub(in crate::bench) fn check(is_right: bool) -> Result<()> {
    match is_right {
        true => Ok(()),
        false => Err(JobError::WrongResult {
            strategy: "bench machine".to_owned(),
            error: f64::INFINITY,
            allowed: 0.0,
        }),
    }
}

/// Word `i` of the pattern.
pub(in crate::bench) fn word_of(i: u64) -> u64 {
    splitmix64(SEED.wrapping_add(i))
}

/// Fills memory by all processors.
pub(in crate::bench) fn fill<T: Send>(memory: &mut [T], value: impl Fn(u64) -> T + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = memory.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (n, part_of_it) in memory.chunks_mut(part).enumerate() {
            let value = &value;
            scope.spawn(move || {
                for (i, slot) in ((n * part) as u64..).zip(part_of_it) {
                    *slot = value(i);
                }
            });
        }
    });
}

/// A door that a host function waits before.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open; not for ever, should nobody open it.
    fn wait(&self) {
        let is_open = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Where nobody opened it in time, the measurement is wrong, and shows it.
        let _ = self.0.1.wait_timeout_while(is_open, LIMIT, |open| !*open);
    }
}

struct OpenAtEnd(Gate);

impl Drop for OpenAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}
