//! Who has what: the books of memory, by kind, by call site, and block by block.
//!
//! [`books`] counts for every call site, always · [`live`] keeps each live block, where asked for
//! · [`trace`] what was taken and given back, in order, as a file · [`report`] the books as data ·
//! [`leaks`] what is still in use when a program ends.

pub(crate) mod books;
pub(crate) mod leaks;
pub(crate) mod live;
#[cfg(feature = "metrics")]
mod metrics;
pub(crate) mod report;
pub mod trace;

pub use leaks::{LeakReport, live_memory};
pub use live::{LiveBlock, Tracking};
pub use report::{KindStats, MemoryReport, MemoryStats, SiteStats};
pub use trace::{TraceEvent, TraceRecording, read_trace};
