//! A few scalars that a kernel publishes and the host polls for.
//!
//! Waiting for a stream costs several microseconds more than a word takes to cross the link. A
//! kernel that publishes into a cell writes its values, then a sequence number with release order
//! at system scope; the host polls the number with acquire order, and so sees the values. Both
//! sides use atomic accesses only.
//!
//! A kernel in a graph publishes under the same number at every launch. So a launch sets the number
//! back first, once nothing is on its way into the cell, and counts before and after that: whoever
//! is reading at that moment takes what he found for not published yet.

use super::raw::SharedWords;
use crate::error::{Error, Result};
use crate::graph::thread;
use crate::memory::Placement;
use crate::memory::block::Block;
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const VALUES: usize = 2;
const SEQUENCE_WORD: usize = 2;

/// Two `f64` and a sequence number in mapped host memory.
pub struct ScalarCell {
    state: Arc<CellState>,
}

/// What a cell shares with the graphs that publish into it.
pub(crate) struct CellState {
    words: SharedWords,
    id: u64,
    last_expected: AtomicU64,
    /// How often the host began to set the number, and how often it had done so.
    sets_begun: AtomicU64,
    sets_done: AtomicU64,
}

/// What a kernel was told to publish; to be given to [`ScalarCell::wait`]. That of a kernel in a
/// graph is good for every launch.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the kernel's values are lost unless they are waited for"]
pub struct Expected {
    cell: u64,
    sequence: u64,
}

impl Expected {
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// Between two looks at the clock and the stream.
const POLLS_BETWEEN_CHECKS: u32 = 4096;

impl ScalarCell {
    /// Words of a cell: two values, the number, and one that is kept free.
    pub(crate) const WORDS: usize = SharedWords::WORDS;

    pub(crate) fn new(block: Arc<Block>) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let state = CellState {
            words: SharedWords::new(block),
            id: IDS.fetch_add(1, Ordering::Relaxed),
            last_expected: AtomicU64::new(0),
            sets_begun: AtomicU64::new(0),
            sets_done: AtomicU64::new(0),
        };
        ScalarCell {
            state: Arc::new(state),
        }
    }

    pub(crate) fn state(&self) -> &Arc<CellState> {
        &self.state
    }

    fn block(&self) -> &Arc<Block> {
        self.state.block()
    }

    /// The next number, for a kernel to publish under.
    pub(crate) fn expect(&mut self) -> Expected {
        let last = self.state.last_expected.fetch_add(1, Ordering::AcqRel);
        Expected {
            cell: self.state.id,
            sequence: last + 1,
        }
    }

    /// Where it is, and why.
    pub fn placement(&self) -> &Placement {
        self.block().placement()
    }

    /// The values, where they are published already.
    ///
    /// # Errors
    /// [`Error::Scalar`] where a later launch has overwritten them, or they are another cell's.
    pub fn poll(&self, expected: &Expected) -> Result<Option<[f64; VALUES]>> {
        let CellState {
            words,
            id,
            sets_begun,
            sets_done,
            ..
        } = &*self.state;
        if expected.cell != *id {
            let problem = "the scalars are published into another cell".to_owned();
            return Err(Error::Scalar { problem });
        }
        let done = sets_done.load(Ordering::Acquire);
        let begun = sets_begun.load(Ordering::Acquire);
        let found = words.load(SEQUENCE_WORD, Ordering::Acquire);
        if found < expected.sequence {
            return Ok(None);
        }
        // Acquire loads: the number is looked at again after the values.
        let value = |word| f64::from_bits(words.load(word, Ordering::Acquire));
        let values = [value(0), value(1)];
        let after = words.load(SEQUENCE_WORD, Ordering::Acquire);
        if done != begun || sets_begun.load(Ordering::Acquire) != begun {
            return Ok(None);
        }
        if (found, after) != (expected.sequence, expected.sequence) {
            let problem = "a later launch has overwritten the scalars".to_owned();
            return Err(Error::Scalar { problem });
        }
        Ok(Some(values))
    }

    /// Polls until the kernel has published, for at most `limit` of real time.
    ///
    /// # Errors
    /// [`Error::Timeout`] with a diagnosis, also at once where the kernel has ended without
    /// publishing; [`Error::Scalar`] as for [`poll`](Self::poll); [`Error::Driver`] where the
    /// kernel failed.
    pub fn wait(&self, expected: impl Borrow<Expected>, limit: Duration) -> Result<[f64; VALUES]> {
        thread::refuse("waiting for a scalar")?;
        let expected = expected.borrow();
        let device = self.block().first_device().clone();
        let start = Instant::now();
        loop {
            for _ in 0..POLLS_BETWEEN_CHECKS {
                if let Some(values) = self.poll(expected)? {
                    return Ok(values);
                }
                device.driver().pause();
            }
            // Look at the work first and at the cell after it: a kernel that ends in between has
            // published by then.
            let ended = self.block().is_done()?;
            if let Some(values) = self.poll(expected)? {
                return Ok(values);
            }
            let diagnosis = if ended {
                "the kernel has ended and published nothing: was its launch refused?"
            } else if start.elapsed() >= limit {
                "the kernel is still running or queued behind other work of its stream"
            } else {
                continue;
            };
            let diagnosis = diagnosis.to_owned();
            return Err(Error::Timeout {
                what: "a published scalar",
                limit,
                diagnosis,
            });
        }
    }
}

impl CellState {
    pub(crate) fn block(&self) -> &Arc<Block> {
        self.words.block()
    }

    /// Waits until no kernel is on its way to publish into the cell. `last` is the number of a
    /// graph's last publication: where it is there, and none was promised since, nobody is.
    pub(crate) fn until_published(&self, last: u64) -> Result<()> {
        let is_there = self.words.load(SEQUENCE_WORD, Ordering::Acquire) == last;
        match is_there && self.last_expected.load(Ordering::Acquire) == last {
            true => Ok(()),
            false => self.block().wait(),
        }
    }

    /// Sets the number back to that of nothing published, and returns what it was.
    pub(crate) fn rearm(&self) -> u64 {
        let number = self.words.load(SEQUENCE_WORD, Ordering::Acquire);
        self.set(0);
        number
    }

    /// Sets the number to what it was: nothing will be published after all.
    pub(crate) fn take_back(&self, number: u64) {
        self.set(number);
    }

    fn set(&self, number: u64) {
        // Whoever sees the new number, or what is published after it, sees that it was begun;
        // whoever sees that it is done sees the new number.
        self.sets_begun.fetch_add(1, Ordering::AcqRel);
        self.words.store(SEQUENCE_WORD, number);
        self.sets_done.fetch_add(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for ScalarCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScalarCell").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, Platform};
    use pinfold_model::Profile;

    #[test]
    fn whoever_reads_while_a_cell_is_set_back_never_mixes_two_launches() {
        const LAUNCHES: u64 = 200_000;
        let device = Platform::simulated(Profile::h200()).device(0).unwrap();
        let mut cell = Memory::new(&device).scalar_cell().unwrap();
        let expected = cell.expect();
        let state = cell.state().clone();
        std::thread::scope(|scope| {
            // As a graph's launches do, and its kernels.
            let launches = scope.spawn(move || {
                for launch in 0..LAUNCHES {
                    state.until_published(1).unwrap();
                    state.rearm();
                    let bits = (launch as f64).to_bits();
                    state.words.store(0, bits);
                    state.words.store(1, bits);
                    state.words.store(SEQUENCE_WORD, 1);
                }
            });
            while !launches.is_finished() {
                if let Some([first, second]) = cell.poll(&expected).unwrap() {
                    assert_eq!(first, second);
                }
            }
        });
    }
}
