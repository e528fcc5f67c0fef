//! How much memory may be page-locked without hurting the machine or getting killed.

use crate::Machine;
use crate::units::{GIB, size};
use serde::Serialize;

/// A careful figure for memory that may still be page-locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PinHeadroom {
    /// How much; 0 where nothing is left, or nothing is known.
    pub bytes: u64,
    /// What decided: [`AVAILABLE_MEMORY`](Self::AVAILABLE_MEMORY), [`CGROUP`](Self::CGROUP),
    /// [`WSL2`](Self::WSL2) or [`UNKNOWN`](Self::UNKNOWN).
    pub limited_by: &'static str,
    /// The same in words, with figures.
    pub reason: String,
}

impl PinHeadroom {
    /// Memory that the machine has left.
    pub const AVAILABLE_MEMORY: &'static str = "available-memory";
    /// A control group's limit.
    pub const CGROUP: &'static str = "cgroup";
    /// The share that Windows grants.
    pub const WSL2: &'static str = "wsl2";
    /// Nothing is known.
    pub const UNKNOWN: &'static str = "unknown";
}

impl Machine {
    /// How much more memory may be page-locked now: the smallest of what the machine has
    /// available on NUMA nodes that have processors, what each control group on the way up
    /// leaves, and under WSL 2 half of the guest's memory. From the first two a reserve is kept
    /// for everybody else: 5 % of the machine's memory or of the group's ceiling, at least 1 GiB,
    /// at most a quarter.
    ///
    /// Memory that is page-locked already has left the first two. It has not left the half under
    /// WSL 2, an assumption in itself since Windows does not tell its limit: there the caller
    /// takes off what it holds.
    pub fn pin_headroom(&self) -> PinHeadroom {
        [
            self.headroom_of_memory(),
            self.headroom_of_cgroup(),
            self.headroom_of_wsl(),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|headroom| headroom.bytes)
        .unwrap_or_else(|| PinHeadroom {
            bytes: 0,
            limited_by: PinHeadroom::UNKNOWN,
            reason: "the kernel does not tell how much memory is available".to_owned(),
        })
    }

    fn headroom_of_memory(&self) -> Option<PinHeadroom> {
        let far = self.numa.iter().filter(|node| node.is_memory_only());
        let far_free = far.fold(0u64, |sum, node| {
            sum.saturating_add(node.free_bytes.unwrap_or(0))
        });
        let total = self.memory.total_bytes?;
        let available = self.memory.available_bytes?.min(total);
        let available = available.saturating_sub(far_free);
        let reserve = reserve_bytes(total);
        Some(PinHeadroom {
            bytes: available.saturating_sub(reserve),
            limited_by: PinHeadroom::AVAILABLE_MEMORY,
            reason: format!(
                "{} of {} of memory are available; {} are left to other programs",
                size(available),
                size(total),
                size(reserve)
            ),
        })
    }

    fn headroom_of_cgroup(&self) -> Option<PinHeadroom> {
        // A ceiling that the machine's memory cannot reach limits nothing.
        let reachable = self.memory.total_bytes.unwrap_or(u64::MAX);
        let levels = self.cgroup.as_ref()?.levels.iter();
        levels
            .filter_map(|level| {
                let ceiling = level.ceiling_bytes().filter(|bytes| *bytes < reachable)?;
                let reserve = reserve_bytes(ceiling);
                let used = level.working_set_bytes();
                Some(PinHeadroom {
                    bytes: ceiling.saturating_sub(used).saturating_sub(reserve),
                    limited_by: PinHeadroom::CGROUP,
                    reason: format!(
                        "control group {} may hold {}, holds {}, and keeps {} for ordinary memory",
                        level.path,
                        size(ceiling),
                        size(used),
                        size(reserve)
                    ),
                })
            })
            .min_by_key(|headroom| headroom.bytes)
    }

    fn headroom_of_wsl(&self) -> Option<PinHeadroom> {
        if self.virtualisation.wsl? != 2 {
            return None;
        }
        let total = self.memory.total_bytes?;
        Some(PinHeadroom {
            bytes: total / 2,
            limited_by: PinHeadroom::WSL2,
            reason: format!(
                "Windows page-locks a limited share for WSL 2; taken as half of {}",
                size(total)
            ),
        })
    }
}

/// What stays unpinned of a whole: 5 %, at least 1 GiB, at most a quarter.
fn reserve_bytes(whole: u64) -> u64 {
    (whole / 20).max(GIB).min(whole / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_suits_small_and_large_machines() {
        assert_eq!(reserve_bytes(0), 0);
        assert_eq!(reserve_bytes(2 * GIB), GIB / 2);
        assert_eq!(reserve_bytes(8 * GIB), GIB);
        assert_eq!(reserve_bytes(1000 * GIB), 50 * GIB);
        assert!(reserve_bytes(u64::MAX) < u64::MAX / 4);
    }
}
