//! The memory of a job.

use pinfold::MemoryKind;
use pinfold::track::{KindStats, MemoryReport, MemoryStats, SiteStats};
use std::panic::Location;

pub(crate) fn memory() -> MemoryReport {
    let books = KindStats {
        blocks: 3,
        requested_bytes: 5000,
        held_bytes: 8192,
        held_bytes_peak: 1 << 20,
        taken: 77,
    };
    let site = SiteStats {
        site: Location::caller(),
        kind: MemoryKind::Mapped,
        blocks: 3,
        requested_bytes: 5000,
        held_bytes: 8192,
        taken: 77,
        taken_bytes: 9 << 20,
    };
    MemoryReport {
        devices: vec!["NVIDIA H200".to_owned()],
        simulated: false,
        stats: MemoryStats {
            kinds: [(MemoryKind::Mapped, books)].into(),
            ..MemoryStats::default()
        },
        sites: vec![site],
        blocks: Vec::new(),
        blocks_not_listed: 0,
        pools: Vec::new(),
    }
}
