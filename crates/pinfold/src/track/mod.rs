//! Who has what: the books of memory, by kind, by call site, and block by block.
//!
//! [`books`] counts for every call site, always · [`live`] keeps each live block, where asked for
//! · [`report`] both as data · [`leaks`] what is still in use when a program ends.

pub(crate) mod books;
pub(crate) mod leaks;
pub(crate) mod live;
pub(crate) mod report;

pub use leaks::{LeakReport, live_memory};
pub use live::{LiveBlock, Tracking};
pub use report::{KindStats, MemoryReport, MemoryStats, SiteStats};
