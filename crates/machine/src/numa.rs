//! NUMA nodes: which memory is near which processors.

use crate::cpu::CpuList;
use crate::source::{Source, kib_in_bytes};
use serde::Serialize;
use std::path::Path;

const FOLDER: &str = "/sys/devices/system/node";

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
    /// The nodes of the machine that this process runs on, by ascending number; none where the
    /// kernel does not tell. Reads much less than [`Machine::read`](crate::Machine::read).
    pub fn read_all() -> Vec<Self> {
        read(&Source::new(Path::new("/")))
    }

    /// Memory of a node of this machine that is to be had now: what nothing uses, and copies of
    /// files that the kernel can drop. `None` where that cannot be read.
    pub fn available_bytes(id: u32) -> Option<u64> {
        available(&Source::new(Path::new("/")), id)
    }

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

fn available(source: &Source, id: u32) -> Option<u64> {
    let meminfo = source.text(&format!("{FOLDER}/node{id}/meminfo"))?;
    let keys = ["MemFree:", " Active(file):", " Inactive(file):"];
    keys.into_iter().map(|key| node_bytes(&meminfo, key)).sum()
}

/// A size from lines such as `Node 0 MemTotal: 123 kB`.
fn node_bytes(meminfo: &str, key: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| {
        let (_, rest) = line.split_once(key)?;
        kib_in_bytes(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_has_to_give_is_what_is_free_and_what_files_left_there() {
        let root = std::env::temp_dir().join(format!("pinfold-numa-{}", std::process::id()));
        let folder = root.join(FOLDER.trim_start_matches('/')).join("node1");
        std::fs::create_dir_all(&folder).unwrap();
        let text = "Node 1 MemTotal: 900 kB\nNode 1 MemFree: 100 kB\nNode 1 Active: 800 kB\n\
                    Node 1 Active(anon): 50 kB\nNode 1 Active(file): 20 kB\n\
                    Node 1 Inactive(file): 3 kB\n";
        std::fs::write(folder.join("meminfo"), text).unwrap();
        let source = Source::new(&root);
        assert_eq!(available(&source, 1), Some(123 * 1024));
        assert_eq!(available(&source, 0), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
