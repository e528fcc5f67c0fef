//! How much may be page-locked, and who has it.

use super::options::{PoolOptions, WhenFull};
use parking_lot::{Condvar, Mutex};
use pinfold_machine::Machine;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longer than any program runs.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Counts the page-locked bytes of a pool.
pub(super) struct Budget {
    when_full: WhenFull,
    state: Mutex<State>,
    /// Told when bytes come back, to the budget or to the pool.
    came_back: Condvar,
    /// Requests that may be about to wait. Nobody is told where there are none.
    waiting: AtomicU32,
}

#[derive(Default)]
struct State {
    /// The limit, where it is not the machine's.
    fixed_bytes: Option<u64>,
    reserved_bytes: u64,
    peak_bytes: u64,
    /// Grows with everything that comes back.
    returns: u64,
}

/// A request that may have to wait.
pub(super) struct Entered<'b>(&'b Budget);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Why no more may be page-locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OverBudget {
    /// What was asked for.
    pub(super) bytes: u64,
    /// What is left.
    pub(super) left_bytes: u64,
    /// What sets the limit.
    pub(super) limit: String,
}

impl Budget {
    pub(super) fn new(options: &PoolOptions) -> Self {
        Budget {
            when_full: options.when_full,
            state: Mutex::new(State {
                fixed_bytes: options.budget_bytes,
                ..State::default()
            }),
            came_back: Condvar::new(),
            waiting: AtomicU32::new(0),
        }
    }

    /// Page-locked bytes now, and the most there were.
    pub(super) fn reserved_and_peak_bytes(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.reserved_bytes, state.peak_bytes)
    }

    /// Sets another limit. What is page-locked beyond it stays until it is given back.
    pub(super) fn set(&self, fixed_bytes: Option<u64>) {
        self.state.lock().fixed_bytes = fixed_bytes;
        self.memory_came_back();
    }

    /// Takes so many bytes of the budget.
    pub(super) fn reserve(&self, bytes: u64) -> Result<(), OverBudget> {
        // The machine is read outside of the lock: it takes a millisecond.
        let fixed = self.state.lock().fixed_bytes;
        let headroom = fixed.is_none().then(|| Machine::read().pin_headroom());
        let mut state = self.state.lock();
        let (left_bytes, limit) = match (fixed, headroom) {
            (Some(fixed), _) => {
                let left = fixed.saturating_sub(state.reserved_bytes);
                let limit = format!("the pool's budget of {}", crate::Bytes(fixed));
                (left, limit)
            }
            (None, Some(headroom)) => {
                let limit = format!("the machine ({})", headroom.reason);
                (headroom.bytes, limit)
            }
            (None, None) => (0, String::new()),
        };
        if bytes > left_bytes {
            return Err(OverBudget {
                bytes,
                left_bytes,
                limit,
            });
        }
        state.reserved_bytes += bytes;
        state.peak_bytes = state.peak_bytes.max(state.reserved_bytes);
        Ok(())
    }

    /// Gives bytes back.
    pub(super) fn refund(&self, bytes: u64) {
        self.state.lock().reserved_bytes -= bytes;
        self.memory_came_back();
    }

    /// Wakes whoever waits for memory. What came back is to be had already.
    pub(super) fn memory_came_back(&self) {
        // A request that is not counted yet looks for memory after it is, and so finds this.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.state.lock().returns += 1;
            self.came_back.notify_all();
        }
    }

    /// Announces a request that may have to wait.
    pub(super) fn enter(&self) -> Entered<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Entered(self)
    }

    /// How often memory came back so far.
    pub(super) fn returns(&self) -> u64 {
        self.state.lock().returns
    }

    /// When a request that begins now has to be over; `None` where it must not wait.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.when_full {
            WhenFull::Fail => None,
            // A limit beyond what the clock can tell is as good as a century.
            WhenFull::Wait(limit) => Instant::now().checked_add(limit.min(CENTURY)),
        }
    }

    /// Waits until memory has come back since `seen`, or until then.
    pub(super) fn wait(&self, seen: u64, until: Instant) {
        let mut state = self.state.lock();
        while state.returns == seen {
            if self.came_back.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(bytes: u64) -> Budget {
        Budget::new(&PoolOptions {
            budget_bytes: Some(bytes),
            ..PoolOptions::default()
        })
    }

    #[test]
    fn a_budget_is_never_exceeded_and_comes_back() {
        let budget = budget(100);
        budget.reserve(60).unwrap();
        let over = budget.reserve(41).unwrap_err();
        assert_eq!((over.bytes, over.left_bytes), (41, 40));
        budget.reserve(40).unwrap();
        budget.refund(60);
        assert_eq!(budget.reserved_and_peak_bytes(), (40, 100));
        budget.reserve(60).unwrap();
        assert!(budget.reserve(u64::MAX).is_err());
    }

    #[test]
    fn a_limit_without_end_is_a_wait_all_the_same() {
        let budget = Budget::new(&PoolOptions {
            when_full: WhenFull::Wait(Duration::MAX),
            ..PoolOptions::default()
        });
        assert!(budget.deadline().is_some());
    }

    #[test]
    fn a_wait_ends_when_memory_comes_back_or_in_time() {
        let budget = budget(100);
        let _entered = budget.enter();
        let seen = budget.returns();
        budget.wait(seen, Instant::now() + Duration::from_millis(1));
        assert_eq!(budget.returns(), seen);
        std::thread::scope(|scope| {
            scope.spawn(|| budget.memory_came_back());
            budget.wait(seen, Instant::now() + Duration::from_secs(60));
        });
        assert_eq!(budget.returns(), seen + 1);
    }
}
