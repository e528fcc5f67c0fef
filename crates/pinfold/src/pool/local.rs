//! Each thread's caches, one for each pool that it uses.
//!
//! A thread that ends gives its slots back. A cache of a pool that is gone holds numbers only; it
//! is dropped when the thread meets a new pool.

use super::core::Core;
use super::stats::{Counters, LocalCounters};
use pinfold_pool::{Cache, Shared};
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// One thread's part of one pool.
pub(super) struct Local {
    pool: u64,
    /// The numbers of the pool only: a thread that ends never holds up memory or devices.
    shared: Weak<Shared>,
    all_counters: Weak<Counters>,
    /// The last flush that the thread took part in.
    flushes: u64,
    pub(super) cache: Cache,
    pub(super) counters: Arc<LocalCounters>,
}

thread_local! {
    static LOCALS: RefCell<Locals> = const { RefCell::new(Locals(Vec::new())) };
}

struct Locals(Vec<Local>);

impl Drop for Locals {
    fn drop(&mut self) {
        for local in &mut self.0 {
            if let Some(shared) = local.shared.upgrade() {
                local.cache.flush(&shared);
            }
            if let Some(all) = local.all_counters.upgrade() {
                all.fold(&local.counters);
            }
        }
    }
}

/// Runs something on this thread's part of a pool. `None` on a thread that is ending.
#[inline(always)]
pub(super) fn with<R>(core: &Arc<Core>, body: impl FnOnce(&mut Local) -> R) -> Option<R> {
    let on_locals = |locals: &RefCell<Locals>| {
        // Never entered twice: bodies only move numbers.
        let mut locals = locals.try_borrow_mut().ok()?;
        let at = match locals.0.iter().position(|local| local.pool == core.id) {
            Some(at) => at,
            None => join(&mut locals.0, core),
        };
        let local = &mut locals.0[at];
        let flushes = core.flushes.load(Ordering::Relaxed);
        if local.flushes != flushes {
            local.flushes = flushes;
            local.cache.flush(&core.shared);
        }
        Some(body(local))
    };
    LOCALS.try_with(on_locals).ok().flatten()
}

#[cold]
fn join(locals: &mut Vec<Local>, core: &Arc<Core>) -> usize {
    locals.retain(|local| local.shared.strong_count() > 0);
    locals.push(Local {
        pool: core.id,
        shared: Arc::downgrade(&core.shared),
        all_counters: Arc::downgrade(&core.counters),
        flushes: core.flushes.load(Ordering::Relaxed),
        cache: Cache::default(),
        counters: core.counters.join(),
    });
    locals.len() - 1
}
