//! Tests over the text of the sources: what neither the compiler nor clippy finds.
//!
//! [`Source::all`] reads the repository; [`rules`] are functions over it that return what they
//! found, a line each; `tests/tidy.rs` lets every rule loose on the repository, and on a small
//! bad example each, so that no rule can pass by finding nothing ever.

#![forbid(unsafe_code)]

pub mod rules;
mod source;

pub use source::Source;
