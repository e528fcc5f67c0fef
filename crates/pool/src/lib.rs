//! The pool's arithmetic: which bytes are whose.
//!
//! Nothing here touches memory, a device or a clock. Addresses are numbers, so that everything can
//! be compared with a naive reference, and run under a model checker.
//!
//! A request of up to 1 MiB is rounded up to a [class](classes) and served from the thread's own
//! [cache]; that is filled in batches from the [shared] slots, which are [spans] of one class cut
//! from [pages]. A larger request is pages, exactly.

#![forbid(unsafe_code)]

pub mod cache;
pub mod classes;
pub mod pages;
pub mod shared;
pub mod spans;
mod sync;

pub use cache::Cache;
pub use classes::{CLASSES, Class, SLOT_ALIGN_BYTES, SMALL_BYTES_MAX};
pub use pages::{NotMine, PAGE_BYTES, Pages};
pub use shared::Shared;
