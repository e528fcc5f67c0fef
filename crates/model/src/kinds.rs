//! The plain words that costs are asked in. They mirror the driver layer's, which the model does
//! not depend on.

use serde::Serialize;
use std::fmt;

/// What a piece of memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Ordinary host memory.
    Pageable,
    /// Page-locked host memory from the driver.
    PageLocked,
    /// Page-locked and write-combined.
    WriteCombined,
    /// Page-locked and mapped for kernels.
    Mapped,
    /// Page-locked, write-combined and mapped for kernels.
    MappedWriteCombined,
    /// Ordinary host memory, page-locked in place.
    Registered,
    /// Device memory.
    Device,
}

impl MemoryKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [MemoryKind; 7] = [
        MemoryKind::Pageable,
        MemoryKind::PageLocked,
        MemoryKind::WriteCombined,
        MemoryKind::Mapped,
        MemoryKind::MappedWriteCombined,
        MemoryKind::Registered,
        MemoryKind::Device,
    ];

    /// True for the two write-combined kinds.
    pub fn is_write_combined(self) -> bool {
        matches!(
            self,
            MemoryKind::WriteCombined | MemoryKind::MappedWriteCombined
        )
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryKind::Pageable => "pageable",
            MemoryKind::PageLocked => "page-locked",
            MemoryKind::WriteCombined => "write-combined",
            MemoryKind::Mapped => "mapped",
            MemoryKind::MappedWriteCombined => "mapped write-combined",
            MemoryKind::Registered => "registered",
            MemoryKind::Device => "device",
        })
    }
}

/// Which way a copy goes between host and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Host to device.
    ToDevice,
    /// Device to host.
    ToHost,
}

/// Which way a kernel's accesses to host memory go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Loads.
    Read,
    /// Stores.
    Write,
}

/// How a kernel walks over memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// In order, all of it, `passes` times.
    Sequential {
        /// How often; a fraction of 1 where only a part is touched.
        passes: f64,
    },
    /// One element of `element_bytes` in every `stride_bytes`.
    Strided {
        /// Size of what is touched.
        element_bytes: u32,
        /// Distance between two of them.
        stride_bytes: u32,
    },
    /// `count` rows of `row_bytes` at places without order.
    Random {
        /// Size of a row.
        row_bytes: u32,
        /// Number of rows touched.
        count: u64,
    },
    /// As [`Random`](Self::Random), but in the order of address windows: at any moment all
    /// accesses lie in a window or two.
    Windowed {
        /// Size of a row.
        row_bytes: u32,
        /// Number of rows touched.
        count: u64,
        /// Size of a window.
        window_bytes: u64,
    },
    /// `count` words of four bytes, each found by the one before: a single load under way.
    Dependent {
        /// Number of loads.
        count: u64,
    },
}

impl Pattern {
    /// Bytes that the kernel makes use of when it walks so over a range of `range_bytes`.
    pub fn useful_bytes(self, range_bytes: u64) -> f64 {
        match self {
            Pattern::Sequential { passes } => range_bytes as f64 * passes.max(0.0),
            Pattern::Strided {
                element_bytes,
                stride_bytes,
            } => {
                let stride = u64::from(stride_bytes.max(element_bytes).max(1));
                range_bytes.div_ceil(stride) as f64 * f64::from(element_bytes)
            }
            Pattern::Random { row_bytes, count }
            | Pattern::Windowed {
                row_bytes, count, ..
            } => count as f64 * f64::from(row_bytes),
            Pattern::Dependent { count } => count as f64 * 4.0,
        }
    }
}
