//! NUMA nodes: which memory is near which processors.

use crate::cpu::CpuList;
use crate::source::{Source, kib_in_bytes};
use serde::Serialize;

/// One node (`/sys/devices/system/node`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Its memory in all.
    pub total_bytes: Option<u64>,
    /// Memory of it that nothing uses. Unlike available memory it leaves out what the kernel
    /// could drop.
    pub free_bytes: Option<u64>,
    /// Its processors. A node without any is memory alone: of a GPU that shares its memory with
    /// the host, or of an expansion card.
    pub cpus: Option<CpuList>,
}

impl NumaNode {
    /// True for a node that has memory, as far as is known.
    pub fn has_memory(&self) -> bool {
        self.total_bytes.is_some_and(|bytes| bytes > 0)
    }

    /// True for a node with memory that is known to have no processors.
    pub fn is_memory_only(&self) -> bool {
        self.has_memory() && self.cpus.as_ref().is_some_and(|cpus| cpus.count() == 0)
    }
}

/// The nodes, by ascending number.
pub(crate) fn read(source: &Source) -> Vec<NumaNode> {
    const FOLDER: &str = "/sys/devices/system/node";
    source
        .numbered(FOLDER, "node", "")
        .into_iter()
        .filter_map(|id| {
            let node = format!("{FOLDER}/node{id}");
            let meminfo = source.text(&format!("{node}/meminfo")).unwrap_or_default();
            Some(NumaNode {
                id: id.try_into().ok()?,
                total_bytes: node_bytes(&meminfo, "MemTotal:"),
                free_bytes: node_bytes(&meminfo, "MemFree:"),
                cpus: source
                    .text(&format!("{node}/cpulist"))
                    .and_then(|list| CpuList::parse(&list)),
            })
        })
        .collect()
}

/// A size from lines such as `Node 0 MemTotal: 123 kB`.
fn node_bytes(meminfo: &str, key: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| {
        let (_, rest) = line.split_once(key)?;
        kib_in_bytes(rest)
    })
}
