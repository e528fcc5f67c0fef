//! Whether a block is page-locked at the moment, and who may change that: one word.
//!
//! The word holds the block's state, how many uses there are, and how many there ever were. A use
//! begins and ends with one operation each. Whoever wants to unpin a block [looks](PinState::look)
//! first, then makes sure that no device uses it, then [begins](PinState::begin_unpin): that works
//! only where no use began since the look. So a use that was noted is seen, and one that is about
//! to be noted is waited out.
//!
//! One thread at a time changes a block; others try again until it is done.

use crate::sync::{AtomicU64, Ordering};

/// The low bits.
const STATE: u64 = 0b11;
const PINNED: u64 = 0;
const UNPINNED: u64 = 1;
const CHANGING: u64 = 2;
/// Uses at the moment are counted in the bits between.
const ONE_USE: u64 = 1 << 2;
const USES: u64 = (ONE_BEGUN - 1) & !STATE;
/// Uses that ever began are counted in the high bits. They wrap around, in more uses than there
/// can be between a look and what follows it.
const ONE_BEGUN: u64 = 1 << 32;

/// The state of one block, which begins page-locked and unused.
#[derive(Debug)]
pub struct PinState(AtomicU64);

/// A block as it was when nobody used it.
#[derive(Clone, Copy, Debug)]
pub struct Seen(u64);

impl Default for PinState {
    fn default() -> Self {
        PinState(AtomicU64::new(PINNED))
    }
}

impl PinState {
    /// Begins a use, which keeps the block as it is until it [ends](Self::end_use). False where
    /// the block is not page-locked, or being changed: then no use began.
    #[inline]
    pub fn begin_use(&self) -> bool {
        let before = self.0.fetch_add(ONE_USE + ONE_BEGUN, Ordering::AcqRel);
        let is_pinned = before & STATE == PINNED;
        if !is_pinned {
            self.end_use();
        }
        is_pinned
    }

    /// Ends a use.
    #[inline]
    pub fn end_use(&self) {
        self.0.fetch_sub(ONE_USE, Ordering::AcqRel);
    }

    /// Keeps the block as it is for ever, once a change in progress is over.
    pub fn hold(&self) {
        self.0.fetch_add(ONE_USE + ONE_BEGUN, Ordering::AcqRel);
    }

    /// A block that is page-locked and that nobody uses.
    pub fn look(&self) -> Option<Seen> {
        let now = self.0.load(Ordering::Acquire);
        (now & (STATE | USES) == PINNED).then_some(Seen(now))
    }

    /// Begins to unpin a block, where no use began since the look. The caller ends it.
    pub fn begin_unpin(&self, seen: Seen) -> bool {
        let changing = seen.0 | CHANGING;
        let orders = (Ordering::AcqRel, Ordering::Relaxed);
        (self.0)
            .compare_exchange(seen.0, changing, orders.0, orders.1)
            .is_ok()
    }

    /// Ends what [`begin_unpin`](Self::begin_unpin) began: the block is unpinned now, or still
    /// page-locked.
    pub fn end_unpin(&self, is_unpinned: bool) {
        let state = if is_unpinned { UNPINNED } else { PINNED };
        self.0.fetch_sub(CHANGING - state, Ordering::AcqRel);
    }

    /// Begins to page-lock a block that is unpinned. The caller ends it.
    pub fn begin_pin(&self) -> bool {
        let mut now = self.0.load(Ordering::Acquire);
        while now & STATE == UNPINNED {
            let changing = now - UNPINNED + CHANGING;
            let orders = (Ordering::AcqRel, Ordering::Acquire);
            match (self.0).compare_exchange(now, changing, orders.0, orders.1) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// Ends what [`begin_pin`](Self::begin_pin) began: the block is page-locked now, and a use by
    /// the caller has begun; or it is still unpinned.
    pub fn end_pin(&self, is_pinned: bool) {
        if is_pinned {
            let more = ONE_USE + ONE_BEGUN - CHANGING + PINNED;
            self.0.fetch_add(more, Ordering::AcqRel);
        } else {
            self.0.fetch_sub(CHANGING - UNPINNED, Ordering::AcqRel);
        }
    }

    /// True while a thread changes the block.
    pub fn is_changing(&self) -> bool {
        self.0.load(Ordering::Acquire) & STATE == CHANGING
    }

    /// True while the block is page-locked, and nobody changes that.
    pub fn is_pinned(&self) -> bool {
        self.0.load(Ordering::Acquire) & STATE == PINNED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_goes_from_page_locked_to_unpinned_and_back() {
        let state = PinState::default();
        assert!(state.begin_use());
        assert!(state.look().is_none(), "it is used");
        state.end_use();
        let seen = state.look().unwrap();
        assert!(state.begin_unpin(seen));
        assert!(state.is_changing() && !state.begin_use() && !state.begin_pin());
        state.end_unpin(true);
        assert!(!state.is_pinned() && !state.is_changing() && !state.begin_use());
        assert!(state.begin_pin() && !state.begin_pin());
        state.end_pin(false);
        assert!(state.begin_pin());
        state.end_pin(true);
        assert!(
            state.is_pinned() && state.look().is_none(),
            "the caller uses it"
        );
        state.end_use();
        assert!(state.look().is_some());
    }

    #[test]
    fn a_use_since_the_look_keeps_the_block_as_it_is() {
        let state = PinState::default();
        let seen = state.look().unwrap();
        assert!(state.begin_use());
        state.end_use();
        assert!(!state.begin_unpin(seen));
        let seen = state.look().unwrap();
        assert!(state.begin_unpin(seen));
        state.end_unpin(false);
        assert!(state.is_pinned());
        state.hold();
        assert!(state.look().is_none());
    }
}
