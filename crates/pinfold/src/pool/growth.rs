//! How a pool gets larger and smaller: segments come when nothing else is left, and go when they
//! idle, when they are asked back, or when their room is wanted for another one.

use super::budget::OverBudget;
use super::core::{Core, no_such_size};
use super::local;
use super::segments::{Pace, SEGMENT_ALIGN_BYTES, Segment};
use crate::graph::thread;
use crate::memory::source::Refusal;
use pinfold_hal::DriverError;
use pinfold_pool::PAGE_BYTES;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The least that a pool grows by.
const GROWTH_BYTES_MIN: u64 = 4 << 20;
/// The most that a pool grows by for smaller requests.
const GROWTH_BYTES_MAX: u64 = 256 << 20;
/// How often idle segments are looked at in the time after which they go.
const DECAY_LOOKS: u32 = 4;

/// How long growing in the background gives way to requests that want the pool to grow.
const GIVE_WAY: Duration = Duration::from_secs(1);

/// Who makes segments, and who wants some.
#[derive(Default)]
pub(super) struct Growing {
    is_busy: bool,
    wanted_by: u32,
}

/// Lets the others go on, also where a panic unwinds.
struct Busy<'c>(&'c Core);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.growing.lock().is_busy = false;
        self.0.grown.notify_all();
    }
}

/// A request that wants the pool to grow.
pub(super) struct Wants<'c>(&'c Core);

impl Drop for Wants<'_> {
    fn drop(&mut self) {
        self.0.growing.lock().wanted_by -= 1;
        self.0.grown.notify_all();
    }
}

/// Why a pool cannot grow.
pub(super) enum Problem {
    Budget(OverBudget),
    Driver(DriverError),
}

impl OverBudget {
    pub(super) fn refusal(self, why: &str) -> Refusal {
        Refusal::Pool(format!(
            "{} allows {} of the {} more that are needed ({why})",
            self.limit,
            crate::Bytes(self.left_bytes),
            crate::Bytes(self.bytes),
        ))
    }
}

impl Core {
    /// Announces a request that wants the pool to grow: before what grows in the background.
    pub(super) fn want(&self) -> Wants<'_> {
        self.growing.lock().wanted_by += 1;
        Wants(self)
    }

    /// Adds a segment of at least so many bytes, or waits for the one that another thread adds.
    pub(super) fn grow(&self, bytes: u64) -> Result<(), Problem> {
        {
            let mut growing = self.growing.lock();
            if growing.is_busy {
                self.grown.wait_while(&mut growing, |g| g.is_busy);
                return Ok(());
            }
            growing.is_busy = true;
        }
        let _busy = Busy(self);
        self.add_segment(bytes)
    }

    /// Adds a segment of just so many bytes, a multiple of [`SEGMENT_ALIGN_BYTES`], once no request
    /// wants the pool to grow.
    pub(super) fn grow_gently(&self, bytes: u64) -> Result<(), Problem> {
        {
            let end = Instant::now() + GIVE_WAY;
            let mut growing = self.growing.lock();
            loop {
                if growing.is_busy {
                    self.grown.wait(&mut growing);
                } else if growing.wanted_by == 0 || Instant::now() >= end {
                    break;
                } else {
                    self.grown.wait_until(&mut growing, end);
                }
            }
            growing.is_busy = true;
        }
        let _busy = Busy(self);
        self.budget.reserve(bytes).map_err(Problem::Budget)?;
        self.add_made(bytes, self.maker.make(bytes, Pace::Gentle))
    }

    fn add_segment(&self, bytes: u64) -> Result<(), Problem> {
        let rounded = |bytes: u64| bytes.checked_next_multiple_of(SEGMENT_ALIGN_BYTES);
        let least = rounded(bytes).ok_or_else(|| Problem::Driver(no_such_size(bytes)))?;
        let (pinned, _) = self.budget.reserved_and_peak_bytes();
        let step = (pinned / 2).clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX);
        let wished = least.max(rounded(step).unwrap_or(least));
        let mut size = wished;
        if self.budget.reserve(wished).is_err() {
            size = least;
            self.budget.reserve(least).map_err(Problem::Budget)?;
        }
        let made = match self.maker.make(size, Pace::Fast) {
            Err(_) if size > least => {
                self.budget.refund(size - least);
                size = least;
                self.maker.make(least, Pace::Fast)
            }
            made => made,
        };
        self.add_made(size, made)
    }

    /// Adds a segment whose bytes are in the budget, or takes them out again.
    fn add_made(&self, bytes: u64, made: Result<Segment, DriverError>) -> Result<(), Problem> {
        match made {
            Ok(segment) => {
                let base = segment.base.0 as u64;
                if !segment.device.is_empty() {
                    self.is_split.store(true, Ordering::Release);
                }
                self.segments.write().insert(base, segment);
                self.shared.add_segment(base, (bytes / PAGE_BYTES) as u32);
                tracing::debug!(pool = self.id, bytes, "page-locked a segment");
                Ok(())
            }
            Err(error) => {
                self.budget.refund(bytes);
                tracing::warn!(pool = self.id, bytes, %error, "cannot page-lock a segment");
                Err(Problem::Driver(error))
            }
        }
    }

    /// Makes threads give their caches back: this one now, others when they next use the pool.
    pub(super) fn flush_caches(self: &Arc<Self>) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let _ = local::with(self, |_| ());
    }

    /// Gives idle segments back until at most so many bytes are page-locked. This thread's cache
    /// goes back at once, those of others when they next use the pool.
    pub(crate) fn trim(self: &Arc<Self>, target_bytes: u64) {
        self.flush_caches();
        self.shrink(|pinned_bytes| pinned_bytes > target_bytes);
    }

    /// Gives back what has been idle for long. Looks at most every so often.
    pub(crate) fn decay(&self) {
        let now = Instant::now();
        let now_ms = now.duration_since(self.began).as_millis() as u64;
        let due_ms = self.next_decay_ms.load(Ordering::Relaxed);
        let next_ms = now_ms + (self.idle_after / DECAY_LOOKS).as_millis() as u64;
        let claim = (Ordering::Relaxed, Ordering::Relaxed);
        if now_ms < due_ms
            || (self.next_decay_ms)
                .compare_exchange(due_ms, next_ms, claim.0, claim.1)
                .is_err()
        {
            return;
        }
        let long_idle: Vec<u64> = {
            let Some(mut idle) = self.idle.try_lock() else {
                return;
            };
            let segments = self.shared.idle_segments();
            idle.retain(|base, _| segments.iter().any(|(b, _)| b == base));
            for (base, _) in segments {
                idle.entry(base).or_insert(now);
            }
            let old = |since: &Instant| now.duration_since(*since) >= self.idle_after;
            idle.iter()
                .filter(|(_, s)| old(s))
                .map(|(b, _)| *b)
                .collect()
        };
        for base in long_idle {
            self.remove(base);
        }
    }

    /// Gives idle segments back for as long as `go_on` says so of the page-locked bytes. Returns
    /// how many.
    pub(super) fn shrink(&self, go_on: impl Fn(u64) -> bool) -> usize {
        let mut gone = 0;
        for (base, _) in self.shared.idle_segments() {
            if !go_on(self.budget.reserved_and_peak_bytes().0) {
                break;
            }
            gone += usize::from(self.remove(base));
        }
        gone
    }

    /// Gives one segment back, where it is idle.
    fn remove(&self, base: u64) -> bool {
        // Without the driver it cannot go.
        if thread::captures() || self.shared.remove_segment(base).is_none() {
            return false;
        }
        let Some(segment) = self.segments.write().remove(&base) else {
            return false;
        };
        let bytes = segment.bytes;
        match self.maker.unmake(segment) {
            Ok(()) => {
                self.budget.refund(bytes);
                tracing::debug!(pool = self.id, bytes, "gave a segment back");
            }
            // Page-locked for ever, so it stays in the budget for ever.
            Err(kept) => {
                self.quarantined_bytes.fetch_add(kept, Ordering::Relaxed);
                let pool = self.id;
                tracing::error!(
                    pool,
                    bytes = kept,
                    "the driver keeps memory page-locked for ever"
                );
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platform;
    use crate::pool::{PoolOptions, cached};
    use pinfold_model::Profile;

    #[test]
    fn growth_in_the_background_gives_way_to_requests() {
        let platform = Platform::simulated(Profile::h200());
        let device = platform.device(0).unwrap();
        device.ensure_open().unwrap();
        let core = cached(&[device], &PoolOptions::default());
        let wants = core.want();
        std::thread::scope(|scope| {
            let gentle = scope.spawn(|| core.grow_gently(2 << 20).is_ok());
            assert!(core.grow(4 << 20).is_ok());
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(core.stats().pinned_bytes, 4 << 20);
            drop(wants);
            assert!(gentle.join().unwrap());
        });
        assert_eq!(core.stats().pinned_bytes, 6 << 20);
    }
}
