//! The one lock and the one number that this crate's threads share; the model checker's where that
//! runs.

#[cfg(loom)]
use loom::sync as inner;
#[cfg(not(loom))]
use std::sync as inner;
use std::sync::PoisonError;

pub(crate) use inner::atomic::{AtomicU64, Ordering};

/// A lock. A thread that panicked under it left numbers that are still whole: every change of
/// them is a few assignments.
#[derive(Debug)]
pub(crate) struct Lock<T>(inner::Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Lock(inner::Mutex::new(value))
    }

    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
