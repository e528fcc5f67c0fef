//! A few scalars that a kernel publishes and the host polls for.
//!
//! Waiting for a stream costs several microseconds more than a word takes to cross the link. A
//! kernel that publishes into a cell writes its values, then a sequence number with release order
//! at system scope; the host polls the number with acquire order, and so sees the values. Both
//! sides use atomic accesses only.

use super::raw::SharedWords;
use crate::error::{Error, Result};
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
    words: SharedWords,
    id: u64,
    last_expected: AtomicU64,
}

/// What a kernel was told to publish; to be given to [`ScalarCell::wait`].
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
        ScalarCell {
            words: SharedWords::new(block),
            id: IDS.fetch_add(1, Ordering::Relaxed),
            last_expected: AtomicU64::new(0),
        }
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        self.words.block()
    }

    /// The next number, for a kernel to publish under.
    pub(crate) fn expect(&mut self) -> Expected {
        let last = self.last_expected.get_mut();
        *last += 1;
        Expected {
            cell: self.id,
            sequence: *last,
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
        if expected.cell != self.id {
            let problem = "the scalars are published into another cell".to_owned();
            return Err(Error::Scalar { problem });
        }
        let found = self.words.load(SEQUENCE_WORD, Ordering::Acquire);
        if found < expected.sequence {
            return Ok(None);
        }
        // Acquire loads: the number is looked at again after the values.
        let value = |word| f64::from_bits(self.words.load(word, Ordering::Acquire));
        let values = [value(0), value(1)];
        let after = self.words.load(SEQUENCE_WORD, Ordering::Acquire);
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

impl fmt::Debug for ScalarCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScalarCell").finish_non_exhaustive()
    }
}
