//! Sparse matrices for the solver job: read, check, make, and solve on the CPU as a reference.
//!
//! A matrix comes from a Matrix Market file ([`market`]) or from a generator ([`generate`]) and
//! is held in compressed rows ([`csr`]). [`suitable`] says whether conjugate gradients may be
//! tried on it, and [`reference`](mod@reference) solves it in plain `f64`, to judge what a device
//! returns. Nothing here knows of GPUs or of memory kinds.

pub mod csr;
pub mod generate;
pub mod market;
pub mod reference;
pub mod suitable;

pub use csr::{CsrError, CsrMatrix, Entry};
pub use market::{Market, MarketError, MarketErrorKind, read_matrix_market};
pub use suitable::{NotSuitable, check_finite, check_for_cg};
