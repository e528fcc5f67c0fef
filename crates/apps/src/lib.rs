//! The real jobs of pinfold: each is the same code under every memory strategy.
//!
//! [`dot`] the dot product of two vectors that are fresh in host memory · [`solve`] conjugate
//! gradients on a sparse matrix from a file · [`matrix`] reading, checking and making such
//! matrices · [`mod@bench`] benchmarks of pinfold itself · [`report`] what jobs return ·
//! [`progress`] how they say how far they are · [`error`] why they fail.
//!
//! A job prepares its input once, runs every strategy in turn (interleaved on a real device, so
//! that a drifting machine hits all of them alike), checks every result against a reference, and
//! returns a [`JobReport`](report::JobReport). Nothing here prints.

#![forbid(unsafe_code)]

pub mod bench;
pub mod dot;
pub mod error;
pub mod matrix;
pub mod progress;
pub mod report;
mod rounds;
pub mod solve;

pub use error::{JobError, Result};
