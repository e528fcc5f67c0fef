//! What the facts about a machine mean for page-locked memory, in short sentences with codes.

use crate::units::{GIB, size};
use crate::{Machine, Overcommit, PinHeadroom, ThpDefrag, ThpMode};
use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Good to know; nothing to do.
    Info,
    /// Costs speed or memory; worth a look.
    Note,
    /// Programs will fail, be killed or crawl.
    Warning,
}

/// One fact about the machine and what it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable name for scripts. See [`Machine::findings`].
    pub code: &'static str,
    /// How much it matters.
    pub level: Level,
    /// The finding in a few words.
    pub title: &'static str,
    /// What it means here, with figures.
    pub meaning: String,
    /// What to do about it, where there is something.
    pub advice: Option<String>,
}

/// Below this much headroom or available memory a machine is called short.
const SHORT_BYTES: u64 = 2 * GIB;

/// Mappings that the kernel grants unless told otherwise (`DEFAULT_MAX_MAP_COUNT`, `linux/mm.h`).
const MAP_COUNT_DEFAULT: u64 = 65_530;

/// Threads beyond which touching memory in parallel gains nothing: measured on an H200 machine.
const PREFAULT_THREADS: u64 = 8;

impl Machine {
    /// What this machine means for page-locked memory: warnings first, then notes, then the rest.
    /// A fact that could not be read leads to no finding.
    ///
    /// Codes: `cgroup-limit`, `cgroup-limit-above-memory`, `cgroup-high`, `memlock-not-the-limit`,
    /// `memory-short`, `headroom-short`, `swap-no-help`, `overcommit-strict`, `map-count`,
    /// `thp-never`, `thp-available`, `thp-defrag-never`, `hugetlb-set-aside`, `page-size`,
    /// `numa-nodes`, `numa-memory-only`, `cores-few`, `wsl1`, `wsl2-share`, `virtual-machine`,
    /// `container`.
    pub fn findings(&self) -> Vec<Finding> {
        let checks: [fn(&Machine) -> Option<Finding>; 21] = [
            headroom_short,
            memory_short,
            cgroup_limit,
            cgroup_limit_above_memory,
            cgroup_high,
            wsl1,
            wsl2_share,
            container,
            virtual_machine,
            memlock_not_the_limit,
            overcommit_strict,
            map_count,
            swap_no_help,
            thp_never,
            thp_available,
            thp_defrag_never,
            hugetlb_set_aside,
            page_size,
            numa_nodes,
            numa_memory_only,
            cores_few,
        ];
        let mut found: Vec<Finding> = checks.iter().filter_map(|check| check(self)).collect();
        found.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        found
    }

    /// The smallest control-group limit that the machine's memory could reach.
    fn binding_cgroup_limit(&self) -> Option<u64> {
        let limit = self.cgroup.as_ref()?.memory_limit_bytes?;
        let binds = self.memory.total_bytes.is_none_or(|total| limit < total);
        binds.then_some(limit)
    }
}

fn finding(code: &'static str, level: Level, title: &'static str, meaning: String) -> Finding {
    Finding {
        code,
        level,
        title,
        meaning,
        advice: None,
    }
}

impl Finding {
    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

fn headroom_short(m: &Machine) -> Option<Finding> {
    let headroom = m.pin_headroom();
    let short = headroom.bytes < SHORT_BYTES && headroom.limited_by != PinHeadroom::UNKNOWN;
    let level = match headroom.bytes {
        0 => Level::Warning,
        _ => Level::Note,
    };
    short.then(|| {
        let left = match headroom.bytes {
            0 => "nothing".to_owned(),
            bytes => size(bytes),
        };
        finding(
            "headroom-short",
            level,
            "Little memory may be page-locked",
            format!("It is safe to lock {left} more: {}.", headroom.reason),
        )
        .advise("Keep buffers pageable and stage them through a few small page-locked ones.")
    })
}

fn memory_short(m: &Machine) -> Option<Finding> {
    let (total, available) = (m.memory.total_bytes?, m.memory.available_bytes?);
    (available < total / 10 || available < SHORT_BYTES.min(total / 2)).then(|| {
        finding(
            "memory-short",
            Level::Warning,
            "The machine is short of memory",
            format!(
                "{} of {} are available. Page-locked memory cannot be swapped out, so it takes \
                 from what every other program needs.",
                size(available),
                size(total)
            ),
        )
        .advise("Stop other programs, or lock less.")
    })
}

fn cgroup_limit(m: &Machine) -> Option<Finding> {
    let limit = m.binding_cgroup_limit()?;
    let group = m.cgroup.as_ref()?;
    let level = group
        .levels
        .iter()
        .find(|level| level.limit_bytes == Some(limit))?;
    let held = match level.current_bytes {
        Some(bytes) => format!(", and holds {} now", size(bytes)),
        None => String::new(),
    };
    Some(
        finding(
            "cgroup-limit",
            Level::Note,
            "A control group limits memory",
            format!(
                "Control group {} may hold {}{held}. Page-locked memory is charged to it like any \
                 other. Going over is no error that a program sees: the kernel kills it.",
                level.path,
                size(limit)
            ),
        )
        .advise("Take this limit, not the machine's memory, as the ceiling; raise it if you can."),
    )
}

fn cgroup_limit_above_memory(m: &Machine) -> Option<Finding> {
    let limit = m.cgroup.as_ref()?.memory_limit_bytes?;
    let total = m.memory.total_bytes?;
    (limit >= total).then(|| {
        finding(
            "cgroup-limit-above-memory",
            Level::Info,
            "The control group's limit is out of reach",
            format!(
                "It allows {}, the machine has {}: memory runs out first.",
                size(limit),
                size(total)
            ),
        )
    })
}

fn cgroup_high(m: &Machine) -> Option<Finding> {
    let high = m.cgroup.as_ref()?.memory_high_bytes?;
    let reachable = m.binding_cgroup_limit().or(m.memory.total_bytes);
    reachable.is_none_or(|bytes| high < bytes).then(|| {
        finding(
            "cgroup-high",
            Level::Note,
            "A control group slows down beyond a mark",
            format!(
                "Above {} the kernel holds the process back and reclaims its memory. It cannot \
                 reclaim page-locked memory, so the process would crawl.",
                size(high)
            ),
        )
        .advise("Stay below memory.high with page-locked memory.")
    })
}

fn wsl1(m: &Machine) -> Option<Finding> {
    (m.virtualisation.wsl? == 1).then(|| {
        finding(
            "wsl1",
            Level::Warning,
            "WSL 1 reaches no GPU",
            "Only WSL 2 passes a GPU through to Linux programs.".to_owned(),
        )
        .advise("Convert the distribution: wsl --set-version NAME 2.")
    })
}

fn wsl2_share(m: &Machine) -> Option<Finding> {
    (m.virtualisation.wsl? == 2).then(|| {
        finding(
            "wsl2-share",
            Level::Warning,
            "Windows limits page-locked memory",
            "Windows page-locks a limited share of memory for WSL 2 and does not tell how much. \
             Programs have met the limit at a few hundred megabytes."
                .to_owned(),
        )
        .advise("Lock little, in pieces, and expect failures; raise memory= in .wslconfig.")
    })
}

fn container(m: &Machine) -> Option<Finding> {
    m.virtualisation.container.map(|_| {
        finding(
            "container",
            Level::Info,
            "This is a container",
            "Memory and processors are shown for the whole machine; what this container may use \
             is up to its control group. Limits set further out cannot be seen from inside."
                .to_owned(),
        )
    })
}

fn virtual_machine(m: &Machine) -> Option<Finding> {
    m.virtualisation.hypervisor?.then(|| {
        finding(
            "virtual-machine",
            Level::Info,
            "This is a virtual machine",
            "A hypervisor may ignore write-combining and hide NUMA nodes and PCI Express links."
                .to_owned(),
        )
        .advise("Measure; trust no rule of thumb about memory kinds here.")
    })
}

fn memlock_not_the_limit(m: &Machine) -> Option<Finding> {
    let soft = m.memlock?.soft_bytes?;
    let small = m.memory.total_bytes.is_none_or(|total| soft < total);
    small.then(|| {
        let exempt = match m.cap_ipc_lock {
            Some(true) => " This process may go beyond it in any case (CAP_IPC_LOCK).",
            _ => "",
        };
        finding(
            "memlock-not-the-limit",
            Level::Info,
            "The limit of mlock does not matter",
            format!(
                "RLIMIT_MEMLOCK is {}. It is not a limit for page-locking by the GPU driver, which \
                 pins pages itself; it matters for mlock and io_uring's registered \
                 buffers.{exempt}",
                size(soft)
            ),
        )
    })
}

fn overcommit_strict(m: &Machine) -> Option<Finding> {
    (m.overcommit? == Overcommit::Strict).then(|| {
        finding(
            "overcommit-strict",
            Level::Note,
            "The kernel refuses to overcommit",
            "Memory counts from the moment it is mapped, used or not, so large mappings can fail \
             with memory to spare."
                .to_owned(),
        )
        .advise("Map what you use; or set vm.overcommit_memory to 0.")
    })
}

fn map_count(m: &Machine) -> Option<Finding> {
    let count = m.max_map_count?;
    let level = match count {
        0..MAP_COUNT_DEFAULT => Level::Note,
        MAP_COUNT_DEFAULT => Level::Info,
        _ => return None,
    };
    Some(
        finding(
            "map-count",
            level,
            "Many separate allocations can run out of mappings",
            format!(
                "A process may have {count} mappings. Each page-locked allocation of a few \
                 megabytes or more takes one of its own; registering memory takes none."
            ),
        )
        .advise("Allocate from a pool of large segments; or raise vm.max_map_count."),
    )
}

fn swap_no_help(m: &Machine) -> Option<Finding> {
    let swap = m.memory.swap_total_bytes.filter(|bytes| *bytes > 0)?;
    Some(finding(
        "swap-no-help",
        Level::Info,
        "Swap does not help page-locked memory",
        format!(
            "There are {} of swap. Page-locked memory never goes there; locking too much pushes \
             other programs out to it.",
            size(swap)
        ),
    ))
}

fn thp_never(m: &Machine) -> Option<Finding> {
    (m.transparent_hugepages? == ThpMode::Never).then(|| {
        finding(
            "thp-never",
            Level::Note,
            "Transparent huge pages are off",
            "Memory comes in base pages, and registering it takes time for each: 38 ms a GiB \
             against 21 with huge pages on one H200 machine."
                .to_owned(),
        )
        .advise("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
    })
}

fn thp_available(m: &Machine) -> Option<Finding> {
    let how = match m.transparent_hugepages? {
        ThpMode::Always => "wherever they fit",
        ThpMode::Madvise => "where a program asks for them",
        ThpMode::Never => return None,
    };
    Some(finding(
        "thp-available",
        Level::Info,
        "Transparent huge pages are to be had",
        format!("Memory gets huge pages {how}. That makes touching and registering it faster."),
    ))
}

fn thp_defrag_never(m: &Machine) -> Option<Finding> {
    let on = m.transparent_hugepages? != ThpMode::Never;
    (on && m.thp_defrag? == ThpDefrag::Never).then(|| {
        finding(
            "thp-defrag-never",
            Level::Note,
            "Huge pages run out as memory fragments",
            "The kernel makes no huge page when none is free, so a machine that has run for long \
             hands out base pages."
                .to_owned(),
        )
        .advise("echo madvise > /sys/kernel/mm/transparent_hugepage/defrag")
    })
}

fn hugetlb_set_aside(m: &Machine) -> Option<Finding> {
    let idle = m.hugetlb.iter().fold(0u64, |sum, pool| {
        let free = pool.free_pages.unwrap_or(0);
        sum.saturating_add(free.saturating_mul(pool.page_bytes))
    });
    let large = m.memory.total_bytes.is_some_and(|total| idle > total / 20);
    (idle > 0).then(|| {
        finding(
            "hugetlb-set-aside",
            if large { Level::Note } else { Level::Info },
            "Huge pages are set aside unused",
            format!(
                "{} lie in pools of huge pages. Only programs that ask for them by name get them; \
                 for everything else that memory is missing.",
                size(idle)
            ),
        )
        .advise("Shrink vm.nr_hugepages unless a program needs it.")
    })
}

fn page_size(m: &Machine) -> Option<Finding> {
    let page = m.page_bytes.filter(|bytes| *bytes != 4096)?;
    Some(finding(
        "page-size",
        Level::Info,
        "Pages are not 4 KiB",
        format!(
            "A page has {}. Page-locking works in whole pages: small separate allocations waste \
             more, and large ones are locked faster.",
            size(page)
        ),
    ))
}

fn numa_nodes(m: &Machine) -> Option<Finding> {
    let with_memory = m.numa.iter().filter(|node| node.has_memory());
    let count = with_memory.filter(|node| !node.is_memory_only()).count();
    (count > 1).then(|| {
        finding(
            "numa-nodes",
            Level::Note,
            "Memory is nearer to one GPU than to another",
            format!(
                "There are {count} NUMA nodes. Transfers from the far one have been seen 3.2 times \
                 slower, and one node can be full while others have room."
            ),
        )
        .advise("Put page-locked memory, and the threads that fill it, on the GPU's node.")
    })
}

fn numa_memory_only(m: &Machine) -> Option<Finding> {
    let nodes = m.numa.iter().filter(|node| node.is_memory_only());
    let bytes = nodes.fold(0u64, |sum, node| {
        sum.saturating_add(node.total_bytes.unwrap_or(0))
    });
    (bytes > 0).then(|| {
        finding(
            "numa-memory-only",
            Level::Note,
            "Some memory has no processors near it",
            format!(
                "{} lie on NUMA nodes without processors: memory of a GPU, or of an expansion \
                 card. It counts as the machine's memory, but is no place for page-locked memory.",
                size(bytes)
            ),
        )
        .advise("Bind page-locked memory to nodes with processors.")
    })
}

fn cores_few(m: &Machine) -> Option<Finding> {
    let (usable, all) = (m.cpu.usable_cores()?, m.cpu.logical_cores?);
    (usable < all && usable < PREFAULT_THREADS).then(|| {
        finding(
            "cores-few",
            Level::Note,
            "This process may use few of the processors",
            format!(
                "It may use {usable} of {all}. Touching memory and staging copies gain from up to \
                 {PREFAULT_THREADS} threads."
            ),
        )
        .advise("Raise the processor quota or affinity for faster start and staging.")
    })
}
