//! How often each call was made.

use crate::{Call, Hook};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number for each call.
#[derive(Debug)]
pub(crate) struct PerCall {
    counts: [AtomicU64; Call::ALL.len()],
}

impl PerCall {
    pub(crate) fn new() -> Self {
        PerCall {
            counts: [const { AtomicU64::new(0) }; Call::ALL.len()],
        }
    }

    /// Counts one more, and returns its number, from 1.
    pub(crate) fn add(&self, call: Call) -> u64 {
        self.counts[call as usize].fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn of(&self, call: Call) -> u64 {
        self.counts[call as usize].load(Ordering::Relaxed)
    }

    /// The calls that were counted at all.
    pub(crate) fn map(&self) -> BTreeMap<Call, u64> {
        let counts = Call::ALL.iter().map(|call| (*call, self.of(*call)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    pub(crate) fn total(&self) -> u64 {
        Call::ALL.iter().map(|call| self.of(*call)).sum()
    }
}

/// A [`Hook`] that counts the calls that reach the inner driver, and how many of them fail.
#[derive(Debug)]
pub struct Counted {
    made: PerCall,
    failed: PerCall,
}

impl Counted {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Counted {
            made: PerCall::new(),
            failed: PerCall::new(),
        }
    }

    /// How often each call was made, without those that never were.
    pub fn made(&self) -> BTreeMap<Call, u64> {
        self.made.map()
    }

    /// How often each call failed, without those that never did.
    pub fn failed(&self) -> BTreeMap<Call, u64> {
        self.failed.map()
    }

    /// Number of calls made.
    pub fn total(&self) -> u64 {
        self.made.total()
    }
}

impl Default for Counted {
    fn default() -> Self {
        Self::new()
    }
}

impl Hook for Counted {
    fn after(&self, call: Call, ok: bool) {
        self.made.add(call);
        if !ok {
            self.failed.add(call);
        }
    }
}
