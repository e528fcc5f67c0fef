//! What the host machine is, as far as page-locked memory is concerned.
//!
//! Page-locked memory is physical memory that the kernel may not move or swap out while a device
//! uses it. How much of it a program may have, how fast it is to get and where it should lie is
//! decided by the machine: its memory, its control groups, its page sizes, its NUMA nodes, and
//! whatever it is virtualised by. This crate reads those facts, says what each one means, and
//! gives a careful figure for how much may be page-locked.
//!
//! # What limits page-locking, and what only seems to
//! Tried on an NVIDIA H200 with driver 580 and Linux 6.18:
//!
//! - **`RLIMIT_MEMLOCK` does not.** A process without capabilities and with a limit of 64 KiB got
//!   4 GiB from `cuMemHostAlloc` and registered 2 GiB with `cuMemHostRegister`. The driver pins
//!   pages itself; `mlock` is not involved, and `VmLck`, `VmPin`, `Mlocked` and `Unevictable`
//!   stay at nothing.
//! - **The memory control group does.** Both kinds of memory are charged to the process's group.
//!   Going over its limit is not an error that the driver reports: the kernel kills the process.
//! - **Physical memory does.** Page-locked memory comes off `MemAvailable` and swap cannot help.
//! - **WSL 2 does.** Windows grants its guest a limited share, and tells nobody how large it is.
//!
//! # Rules of this crate
//! It reads the files of the running kernel only, all below a root that tests replace by a small
//! tree ([`Machine::read_from`]). A fact that cannot be read, or makes no sense, is `None`; no
//! file, whatever it holds, makes it fail. Every read is bounded. Reports are plain data; printing
//! them is somebody else's job.
//!
//! | module | job |
//! |---|---|
//! | `source` | bounded reads below a root |
//! | `memory` | memory, page sizes, kernel limits |
//! | `cpu` | processors and how many of them this process may use |
//! | `cgroup` | control groups, versions 1 and 2 |
//! | `numa` | NUMA nodes |
//! | `virt` | WSL, containers, hypervisors |
//! | `headroom` | how much may be page-locked |
//! | `finding` | what the facts mean |

#![forbid(unsafe_code)]

mod cgroup;
mod cpu;
mod finding;
mod headroom;
mod memory;
mod numa;
mod source;
mod units;
mod virt;

pub use cgroup::{Cgroup, CgroupLevel};
pub use cpu::{Cpu, CpuList};
pub use finding::{Finding, Level};
pub use headroom::PinHeadroom;
pub use memory::{HugePagePool, Memlock, Memory, Overcommit, ThpDefrag, ThpMode};
pub use numa::NumaNode;
pub use virt::{ContainerKind, Virtualisation};

use serde::Serialize;
use source::Source;
use std::path::Path;

/// The machine, as this process sees it. `None` always means that the fact could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// The kernel's name, such as `Linux`.
    pub os: Option<String>,
    /// The kernel's release, such as `6.8.0-45-generic`.
    pub kernel: Option<String>,
    /// Processors.
    pub cpu: Cpu,
    /// Size of a base page.
    pub page_bytes: Option<u64>,
    /// Memory and swap.
    pub memory: Memory,
    /// The control group that memory of this process is charged to.
    pub cgroup: Option<Cgroup>,
    /// The limit of `mlock`, which the GPU driver does not go by.
    pub memlock: Option<Memlock>,
    /// Whether this process may go beyond the limit of `mlock` (capability `CAP_IPC_LOCK`).
    pub cap_ipc_lock: Option<bool>,
    /// When the kernel backs ordinary memory with huge pages.
    pub transparent_hugepages: Option<ThpMode>,
    /// How hard the kernel tries to find a huge page when memory is first touched.
    pub thp_defrag: Option<ThpDefrag>,
    /// Pools of reserved huge pages, by ascending page size.
    pub hugetlb: Vec<HugePagePool>,
    /// NUMA nodes, by ascending number; empty where the kernel does not tell.
    pub numa: Vec<NumaNode>,
    /// What stands between this process and the hardware.
    pub virtualisation: Virtualisation,
    /// Most memory mappings of one process.
    pub max_map_count: Option<u64>,
    /// How the kernel answers a request for more memory than there is.
    pub overcommit: Option<Overcommit>,
}

impl Machine {
    /// Reads the machine that this process runs on. Takes a few milliseconds.
    pub fn read() -> Self {
        Self::read_from(Path::new("/"))
    }

    /// Reads a machine from the `proc` and `sys` trees below `root`.
    pub fn read_from(root: &Path) -> Self {
        let source = Source::new(root);
        let os = source.word("/proc/sys/kernel/ostype");
        let kernel = source.word("/proc/sys/kernel/osrelease");
        let virtualisation = virt::read(&source, kernel.as_deref());
        Machine {
            os,
            kernel,
            cpu: cpu::read(&source),
            page_bytes: memory::page_bytes(&source),
            memory: memory::read(&source),
            cgroup: cgroup::read(&source),
            memlock: memory::memlock(&source),
            cap_ipc_lock: memory::cap_ipc_lock(&source),
            transparent_hugepages: memory::thp_mode(&source),
            thp_defrag: memory::thp_defrag(&source),
            hugetlb: memory::hugetlb(&source),
            numa: numa::read(&source),
            virtualisation,
            max_map_count: source.number("/proc/sys/vm/max_map_count"),
            overcommit: memory::overcommit(&source),
        }
    }
}
