//! Transfers that run beside the caller. They own what they move, and give it back.

use super::control::{Control, Progress};
use super::{Engine, Moved};
use crate::buffer::DeviceBuffer;
use crate::element::Element;
use crate::error::{Error, Refused, Result};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A transfer that has begun, or what it would have owned.
pub type Begun<R> = Result<Transfer<R>, Refused<R>>;

/// What a transfer owned, and what it did; or why not, with what it owned.
pub type Ended<R> = Result<(R, Moved), Refused<R>>;

/// What a transfer ended with: what it owned and what it did, or why not; or a panic of code that
/// the owner brought.
type End<R> = std::thread::Result<(R, Result<Moved>)>;

/// A transfer that runs by itself. Dropping it stops the transfer, waits for the chunks that are on
/// their way, and drops what it owns.
#[must_use = "dropping it stops the transfer"]
pub struct Transfer<R> {
    shared: Arc<Shared<R>>,
    control: Control,
    /// What it owned has been given back.
    is_over: bool,
}

struct Shared<R> {
    end: Mutex<Option<End<R>>>,
    ended: Condvar,
}

impl<R> Transfer<R> {
    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.control.progress()
    }

    /// Stops it; [`wait`](Self::wait) then returns [`Error::Cancelled`] with what it owned, unless
    /// it was done already.
    pub fn cancel(&self) {
        self.control.cancel();
    }

    /// True once [`wait`](Self::wait) returns at once.
    pub fn is_done(&self) -> bool {
        self.shared.end.lock().is_some()
    }

    /// Waits for its end, and gives back what it owned.
    ///
    /// # Errors
    /// What the transfer failed with; what it owned is in the error.
    ///
    /// # Panics
    /// Where code of the owner panicked.
    pub fn wait(mut self) -> Ended<R> {
        give_back(self.end())
    }

    fn end(&mut self) -> End<R> {
        let mut end = self.shared.end.lock();
        loop {
            if let Some(end) = end.take() {
                self.is_over = true;
                return end;
            }
            self.shared.ended.wait(&mut end);
        }
    }

    /// As [`wait`](Self::wait), but gives up after `limit` (of real time).
    ///
    /// # Errors
    /// [`Error::Timeout`], with the transfer; else as [`wait`](Self::wait) in the inner result.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_for(mut self, limit: Duration) -> Result<Ended<R>, Refused<Self>> {
        // A limit beyond what the clock can tell is none.
        let Some(until) = Instant::now().checked_add(limit) else {
            return Ok(self.wait());
        };
        let taken = {
            let mut end = self.shared.end.lock();
            while end.is_none() && !self.shared.ended.wait_until(&mut end, until).timed_out() {}
            end.take()
        };
        match taken {
            Some(end) => {
                self.is_over = true;
                Ok(give_back(end))
            }
            None => {
                let Progress {
                    done_bytes,
                    total_bytes,
                } = self.progress();
                let error = Error::Timeout {
                    what: "the transfer",
                    limit,
                    diagnosis: format!("{done_bytes} of {total_bytes} bytes have arrived"),
                };
                Err(Refused::new(error, self))
            }
        }
    }
}

fn give_back<R>(end: End<R>) -> Ended<R> {
    match end {
        Ok((owned, Ok(moved))) => Ok((owned, moved)),
        Ok((owned, Err(error))) => Err(Refused::new(error, owned)),
        Err(panic) => resume_unwind(panic),
    }
}

impl<R> Drop for Transfer<R> {
    fn drop(&mut self) {
        if !self.is_over {
            self.control.cancel();
            drop(self.end());
        }
    }
}

impl<R> std::fmt::Debug for Transfer<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transfer")
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}

/// Most transfers of one engine that run beside their callers at a time: each has a thread that
/// waits for it.
const BESIDE_MAX: usize = 256;

/// One of the transfers that may run beside their callers.
struct Place(Arc<super::Inner>);

impl Place {
    fn of(engine: &Engine) -> Option<Self> {
        let place = Place(engine.inner.clone());
        let before = place.0.beside.fetch_add(1, Ordering::Relaxed);
        (before < BESIDE_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.beside.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// Begins to copy ordinary memory that is handed over to a device buffer of the same length.
    ///
    /// # Errors
    /// [`Error::Threads`]; what was handed over comes back. All other errors are told by
    /// [`Transfer::wait`].
    pub fn start_upload<T: Element, O: AsRef<[T]> + Send + 'static>(
        &self,
        from: O,
        to: DeviceBuffer<T>,
    ) -> Begun<(O, DeviceBuffer<T>)> {
        self.start((from, to), |engine, (from, to), control| {
            let from = from.as_ref();
            crate::error::same_length("upload target", to.len(), from.len())?;
            engine.upload_part(from, to, 0, control)
        })
    }

    /// Begins to copy a device buffer to ordinary memory of the same length that is handed over.
    ///
    /// # Errors
    /// As [`start_upload`](Self::start_upload).
    pub fn start_download<T: Element, O: AsMut<[T]> + Send + 'static>(
        &self,
        from: DeviceBuffer<T>,
        to: O,
    ) -> Begun<(DeviceBuffer<T>, O)> {
        self.start((from, to), |engine, (from, to), control| {
            let to = to.as_mut();
            crate::error::same_length("download target", to.len(), from.len())?;
            engine.download_part(from, 0, to, control)
        })
    }

    fn start<R: Send + 'static>(
        &self,
        owned: R,
        work: impl FnOnce(&Engine, &mut R, &Control) -> Result<Moved> + Send + 'static,
    ) -> Begun<R> {
        if let Err(error) = self.inner.lanes.check_not_inside() {
            return Err(Refused::new(error, owned));
        }
        let Some(place) = Place::of(self) else {
            let problem = "as many transfers run beside their callers already".to_owned();
            let count = BESIDE_MAX;
            return Err(Refused::new(Error::Threads { count, problem }, owned));
        };
        let control = Control::new();
        let shared = Arc::new(Shared {
            end: Mutex::new(None),
            ended: Condvar::new(),
        });
        // Where no thread can be had, what was handed over is still here.
        let handed = Arc::new(Mutex::new(Some(owned)));
        let task = {
            let (engine, handed) = (self.clone(), handed.clone());
            let (shared, control) = (shared.clone(), control.clone());
            move || {
                let Some(mut owned) = handed.lock().take() else {
                    return;
                };
                // What the owner's code leaves behind when it panics is dropped.
                let end = catch_unwind(AssertUnwindSafe(move || {
                    let outcome = work(&engine, &mut owned, &control);
                    (owned, outcome)
                }));
                drop(place);
                *shared.end.lock() = Some(end);
                shared.ended.notify_all();
            }
        };
        // A thread of its own, which only waits: one of the engine's would begin the next transfer
        // inside of its wait for this one.
        let name = "pinfold-transfer".to_owned();
        if let Err(error) = std::thread::Builder::new().name(name).spawn(task)
            && let Some(owned) = handed.lock().take()
        {
            let problem = error.to_string();
            return Err(Refused::new(Error::Threads { count: 1, problem }, owned));
        }
        Ok(Transfer {
            shared,
            control,
            is_over: false,
        })
    }
}
