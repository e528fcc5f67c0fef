//! The pool's arithmetic: which bytes are whose.
//!
//! Nothing here touches memory, a device or a clock. Addresses are numbers, so that everything can
//! be compared with a naive reference, and run under a model checker.
//!
//! A request of up to 1 MiB is rounded up to a [class](classes) and served from the thread's own
//! [cache]; that is filled in batches from the [shared] slots, which are [spans] of one class cut
//! from [pages]. A larger request is pages, exactly.
//!
//! A block that has a registration of its own may be page-locked only while it is used:
//! [`pin_state`] says who may change that, and when.

#![forbid(unsafe_code)]

pub mod cache;
pub mod classes;
pub mod pages;
pub mod pin_state;
pub mod shared;
pub mod spans;
mod sync;

pub use cache::Cache;
pub use classes::{CLASSES, Class, SLOT_ALIGN_BYTES, SMALL_BYTES_MAX};
pub use pages::{NotMine, PAGE_BYTES, Pages};
pub use pin_state::{PinState, Seen};
pub use shared::Shared;
