//! The built-in kernels, with safe launches: each wrapper checks lengths and contents before the
//! kernel could go wrong.
//!
//! [`dot`] dot product · [`cg`] conjugate gradients · [`gather`] scattered rows and pieces ·
//! [`read`] reading in place and [`chase`] loads that wait for each other, for measurements ·
//! [`pattern`] words that differ everywhere, to find bytes that went astray.
//! Sources, PTX and twins are in `pinfold-kernels`.

pub mod cg;
pub mod chase;
pub mod dot;
pub mod gather;
pub mod pattern;
pub mod read;
mod reduce;

pub use pinfold_kernels::CellWords;
pub use pinfold_kernels::memory::splitmix64;
pub use reduce::{CellBuffer, IntoSink, Sink};
