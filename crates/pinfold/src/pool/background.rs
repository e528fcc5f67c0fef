//! Page-locking in the background: one thread of the pool, which makes segment after segment while
//! requests are served.
//!
//! A request that the pool cannot serve waits for the segment in progress at most, and then goes
//! before the next one. The thread is there only while there is something to reserve, and ends with
//! the pool.

use super::core::{Core, no_such_size};
use super::growth::Problem;
use super::segments::{CUT_BYTES, SEGMENT_ALIGN_BYTES};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::source::Refusal;
use parking_lot::{Condvar, Mutex};
use pinfold_hal::{DriverError, ErrorCode};
use pinfold_pool::PAGE_BYTES;
use serde::Serialize;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Most reservations that wait for their turn.
const WAITING_MAX: usize = 64;
/// How often a reservation that waits for room in the budget looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How far a reservation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReserveProgress {
    /// Bytes that were page-locked for it. Requests may have taken some already.
    pub ready_bytes: u64,
    /// Bytes in all: what was asked for, in whole segments of 2 MiB.
    pub total_bytes: u64,
}

/// Memory that is being page-locked in the background. Dropping it cancels what is left to do.
///
/// It does not keep the pool alive: where that goes away first, the reservation ends.
#[derive(Debug)]
pub struct Reservation {
    job: Arc<Job>,
}

#[derive(Debug)]
struct Job {
    total_bytes: u64,
    ready_bytes: AtomicU64,
    is_cancelled: AtomicBool,
    outcome: Mutex<Option<Result<()>>>,
    ended: Condvar,
}

/// The reservations of one pool, and the thread that serves them. Whoever has the pool has this;
/// the thread only has the pool's core, so that it can be waited for when this goes away.
#[derive(Default)]
pub(crate) struct Background {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Arc<Job>>,
    /// Whether a thread is there that will look for jobs again.
    is_served: bool,
}

impl Reservation {
    /// How far it is.
    pub fn progress(&self) -> ReserveProgress {
        ReserveProgress {
            ready_bytes: self.job.ready_bytes.load(Ordering::Acquire),
            total_bytes: self.job.total_bytes,
        }
    }

    /// True once all of it is there.
    pub fn is_ready(&self) -> bool {
        matches!(*self.job.outcome.lock(), Some(Ok(())))
    }

    /// Waits until all of it is there.
    ///
    /// # Errors
    /// [`Error::Timeout`], after which it goes on. What ended it, every time that it is asked:
    /// [`Error::ReservationEnded`] where it was cancelled or the pool went away, and otherwise as
    /// [`Pool::reserve`](super::Pool::reserve).
    pub fn wait(&self, limit: Duration) -> Result<()> {
        let until = Instant::now().checked_add(limit);
        let mut outcome = self.job.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            match until {
                None => self.job.ended.wait(&mut outcome),
                Some(until) if self.job.ended.wait_until(&mut outcome, until).timed_out() => {
                    return outcome.clone().unwrap_or_else(|| Err(self.timeout(limit)));
                }
                Some(_) => {}
            }
        }
    }

    fn timeout(&self, limit: Duration) -> Error {
        let ReserveProgress {
            ready_bytes,
            total_bytes,
        } = self.progress();
        Error::Timeout {
            what: "page-locking in the background",
            limit,
            diagnosis: format!(
                "{} of {} are there; wait again, or cancel the rest",
                crate::Bytes(ready_bytes),
                crate::Bytes(total_bytes)
            ),
        }
    }

    /// Has it end after the segment in progress, which stays in the pool. Does not wait.
    pub fn cancel(&self) {
        self.job.is_cancelled.store(true, Ordering::Release);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Job {
    fn end(&self, outcome: Result<()>) {
        *self.outcome.lock() = Some(outcome);
        self.ended.notify_all();
    }

    fn ended_early(&self, why: &'static str) -> Error {
        Error::ReservationEnded {
            ready_bytes: self.ready_bytes.load(Ordering::Acquire),
            total_bytes: self.total_bytes,
            why,
        }
    }
}

impl Queue {
    /// The next job; none where the thread is to end.
    fn next(&self) -> Option<Arc<Job>> {
        let mut waiting = self.waiting.lock();
        let next = waiting.jobs.pop_front();
        waiting.is_served = next.is_some();
        next
    }

    /// Takes all jobs out.
    fn clear(&self) -> VecDeque<Arc<Job>> {
        std::mem::take(&mut self.waiting.lock().jobs)
    }

    /// Whether somebody still wants the job.
    fn check(&self, job: &Job) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(job.ended_early("its pool is gone"));
        }
        match job.is_cancelled.load(Ordering::Acquire) {
            true => Err(job.ended_early("it was cancelled")),
            false => Ok(()),
        }
    }
}

impl Background {
    /// Has so many bytes page-locked, after what was asked for before.
    pub(crate) fn reserve(&self, core: &Arc<Core>, bytes: u64) -> Result<Reservation> {
        // Whatever is asked for, its pages have to be countable.
        let total_bytes = bytes
            .checked_next_multiple_of(SEGMENT_ALIGN_BYTES)
            .filter(|total| u32::try_from(total / PAGE_BYTES).is_ok())
            .ok_or_else(|| Refusal::from(no_such_size(bytes)))?;
        let job = Arc::new(Job {
            total_bytes,
            ready_bytes: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
            outcome: Mutex::new((total_bytes == 0).then_some(Ok(()))),
            ended: Condvar::new(),
        });
        if total_bytes > 0 {
            self.add(core, &job)?;
        }
        Ok(Reservation { job })
    }

    fn add(&self, core: &Arc<Core>, job: &Arc<Job>) -> Result<()> {
        {
            let mut waiting = self.queue.waiting.lock();
            if waiting.jobs.len() >= WAITING_MAX {
                return Err(job.ended_early("too many others wait for their turn already"));
            }
            waiting.jobs.push_back(job.clone());
            if std::mem::replace(&mut waiting.is_served, true) {
                return Ok(());
            }
        }
        let mut thread = self.thread.lock();
        // The thread before has seen that there was nothing left, so this takes no time.
        if let Some(before) = thread.take() {
            let _ = before.join();
        }
        let (core, queue) = (core.clone(), self.queue.clone());
        let name = Builder::new().name("pinfold-reserve".to_owned());
        match name.spawn(move || serve(&core, &queue)) {
            Ok(started) => {
                *thread = Some(started);
                Ok(())
            }
            Err(error) => {
                let code = ErrorCode::OutOfMemory;
                let error = DriverError::with_detail(code, "pthread_create", error.to_string());
                let error = Error::from(Refusal::from(error));
                self.queue.waiting.lock().is_served = false;
                for job in self.queue.clear() {
                    job.end(Err(error.clone()));
                }
                Err(error)
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.queue.is_closed.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get_mut().take() {
            // It ends after the segment in progress. Jobs that waited are told by the thread.
            let _ = thread.join();
        }
    }
}

/// What the thread does.
fn serve(core: &Core, queue: &Queue) {
    while let Some(job) = queue.next() {
        let run = || run(core, queue, &job);
        let outcome = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_| Err(job.ended_early("the thread that worked on it panicked")));
        job.end(outcome);
    }
}

fn run(core: &Core, queue: &Queue, job: &Job) -> Result<()> {
    queue.check(job)?;
    core.maker
        .devices
        .iter()
        .try_for_each(Device::ensure_open)?;
    let mut left = job.total_bytes;
    while left > 0 {
        let bytes = left.min(CUT_BYTES);
        add(core, queue, job, bytes)?;
        left -= bytes;
        job.ready_bytes.fetch_add(bytes, Ordering::AcqRel);
        // Requests that wait for memory to come back may have this.
        core.budget.memory_came_back();
    }
    Ok(())
}

/// Adds one segment, and waits for room in the budget where the pool's options say so. What idles
/// in the pool is not given back for it, as for a request: it is what was reserved.
fn add(core: &Core, queue: &Queue, job: &Job, bytes: u64) -> Result<()> {
    let _entered = core.budget.enter();
    let deadline = core.budget.deadline();
    loop {
        queue.check(job)?;
        let seen = core.budget.returns();
        let over = match core.grow_gently(bytes) {
            Ok(()) => return Ok(()),
            Err(Problem::Driver(error)) => return Err(Refusal::from(error).into()),
            Err(Problem::Budget(over)) => over,
        };
        match deadline {
            None => return Err(over.refusal("what is there already stays reserved").into()),
            Some(end) if Instant::now() >= end => {
                return Err(over.refusal("waited for room in vain").into());
            }
            Some(end) => {
                let look = end.min(Instant::now() + LOOK_EVERY);
                core.budget.wait(seen, look);
            }
        }
    }
}
