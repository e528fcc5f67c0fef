//! Slices of host memory that copies by the driver read or write right now.
//!
//! A copy of a slice is of no buffer that pinfold knows, though the slice may lie in one: that must
//! not be unpinned meanwhile. So copies say what they are at, and so does whoever unpins.

use super::TURN_LIMIT;
use crate::error::{Error, Result};
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::ops::Range;
use std::time::Instant;

/// What is going on with parts of host memory.
#[derive(Default)]
pub(crate) struct Slices {
    busy: Mutex<SmallVec<[Busy; 4]>>,
    changed: Condvar,
}

#[derive(Clone, PartialEq, Eq)]
struct Busy {
    range: Range<usize>,
    is_copied: bool,
}

/// A range that is being copied, or unpinned, until this is dropped.
pub(crate) struct Hold<'s> {
    slices: &'s Slices,
    busy: Busy,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut all = self.slices.busy.lock();
        if let Some(at) = all.iter().position(|busy| *busy == self.busy) {
            all.swap_remove(at);
        }
        drop(all);
        self.slices.changed.notify_all();
    }
}

impl Slices {
    /// Begins a copy, once nobody unpins a part of the range.
    ///
    /// # Errors
    /// [`Error::Timeout`].
    pub(crate) fn copying(&self, range: &Range<usize>) -> Result<Hold<'_>> {
        let end = Instant::now() + TURN_LIMIT;
        let mut all = self.busy.lock();
        while has(&all, range, false) {
            if self.changed.wait_until(&mut all, end).timed_out() {
                return Err(Error::Timeout {
                    what: "unpinning of the same memory by another thread",
                    limit: TURN_LIMIT,
                    diagnosis: "the driver does not answer that thread's call".to_owned(),
                });
            }
        }
        Ok(self.hold(&mut all, range, true))
    }

    /// Begins to unpin a range; `None` where a part of it is being copied.
    pub(crate) fn unpinning(&self, range: &Range<usize>) -> Option<Hold<'_>> {
        let mut all = self.busy.lock();
        (!has(&all, range, true)).then(|| self.hold(&mut all, range, false))
    }

    /// Begins to unpin a range once nothing of it is being copied; `None` where something is and
    /// the caller will not wait. Copies end by themselves: whoever has one under way waits for it.
    pub(crate) fn until_not_copied(&self, range: &Range<usize>, wait: bool) -> Option<Hold<'_>> {
        let mut all = self.busy.lock();
        while has(&all, range, true) {
            if !wait {
                return None;
            }
            self.changed.wait(&mut all);
        }
        Some(self.hold(&mut all, range, false))
    }

    fn hold(
        &self,
        all: &mut SmallVec<[Busy; 4]>,
        range: &Range<usize>,
        is_copied: bool,
    ) -> Hold<'_> {
        let busy = Busy {
            range: range.clone(),
            is_copied,
        };
        all.push(busy.clone());
        Hold { slices: self, busy }
    }
}

/// Whether something of the one sort is going on with a part of a range.
fn has(all: &[Busy], range: &Range<usize>, is_copied: bool) -> bool {
    all.iter().any(|busy| {
        let overlaps = busy.range.start < range.end && range.start < busy.range.end;
        overlaps && busy.is_copied == is_copied
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_copied_is_not_unpinned_and_the_other_way_round() {
        let slices = Slices::default();
        let copies = [slices.copying(&(10..20)), slices.copying(&(10..20))];
        assert!(slices.unpinning(&(19..30)).is_none());
        let unpinning = slices.unpinning(&(20..30));
        assert!(unpinning.is_some());
        let [one, other] = copies;
        drop(one);
        assert!(slices.unpinning(&(0..11)).is_none());
        drop(other);
        assert!(slices.unpinning(&(0..11)).is_some());
        std::thread::scope(|scope| {
            let copy = scope.spawn(|| slices.copying(&(25..26)).is_ok());
            drop(unpinning);
            assert!(copy.join().unwrap());
        });
        assert!(slices.busy.lock().is_empty());
    }
}
