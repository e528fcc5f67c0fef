//! Memory, its page sizes, and the kernel's limits on it.

use crate::source::{Source, field, kib_in_bytes};
use serde::Serialize;

/// Physical memory and swap (`/proc/meminfo`). In a container this is the whole machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Memory that the kernel manages.
    pub total_bytes: Option<u64>,
    /// What programs could still get without swapping, by the kernel's estimate.
    pub available_bytes: Option<u64>,
    /// Size of all swap areas.
    pub swap_total_bytes: Option<u64>,
    /// Unused swap.
    pub swap_free_bytes: Option<u64>,
}

/// The resource limit `RLIMIT_MEMLOCK` (`/proc/self/limits`). `None` means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memlock {
    /// The limit in force.
    pub soft_bytes: Option<u64>,
    /// How far the process may raise it.
    pub hard_bytes: Option<u64>,
}

/// When ordinary anonymous memory gets huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThpMode {
    /// Wherever they fit.
    Always,
    /// Where a program asks with `MADV_HUGEPAGE`.
    Madvise,
    /// Nowhere.
    Never,
}

/// What the kernel does at a page fault that wants a huge page while none is free
/// (kernel documentation, `admin-guide/mm/transhuge`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThpDefrag {
    /// Makes one, and lets the program wait.
    Always,
    /// Takes base pages now and makes huge ones in the background.
    Defer,
    /// As `Always` where a program asked for huge pages, else as `Defer`.
    DeferMadvise,
    /// As `Always` where a program asked for huge pages, else as `Never`.
    Madvise,
    /// Takes base pages.
    Never,
}

/// Huge pages of one size, set aside by the administrator (`/sys/kernel/mm/hugepages`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HugePagePool {
    /// Size of one page.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub total_pages: Option<u64>,
    /// Pages that no one uses.
    pub free_pages: Option<u64>,
}

/// How the kernel answers requests for memory (`/proc/sys/vm/overcommit_memory`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overcommit {
    /// Refuses only what is plainly too much.
    Heuristic,
    /// Refuses nothing.
    Always,
    /// Refuses what would exceed the commit limit.
    Strict,
}

/// Capability number of `CAP_IPC_LOCK` (`linux/capability.h`).
const CAP_IPC_LOCK: u32 = 14;

/// Type of the auxiliary vector's entry that holds the page size (`AT_PAGESZ`, `elf.h`).
const AT_PAGESZ: usize = 6;

/// Memory and swap.
pub(crate) fn read(source: &Source) -> Memory {
    let text = source.text("/proc/meminfo").unwrap_or_default();
    let bytes = |key| field(&text, key).and_then(kib_in_bytes);
    Memory {
        total_bytes: bytes("MemTotal").filter(|total| *total > 0),
        available_bytes: bytes("MemAvailable"),
        swap_total_bytes: bytes("SwapTotal"),
        swap_free_bytes: bytes("SwapFree"),
    }
}

/// The base page size, from the vector of words that the kernel hands to each new program.
pub(crate) fn page_bytes(source: &Source) -> Option<u64> {
    const WORD: usize = size_of::<usize>();
    let vector = source.bytes("/proc/self/auxv")?;
    let words: Vec<usize> = vector
        .chunks_exact(WORD)
        .filter_map(|word| Some(usize::from_ne_bytes(word.try_into().ok()?)))
        .collect();
    let entry = words
        .chunks_exact(2)
        .find(|entry| entry[0] == AT_PAGESZ)
        .map(|entry| entry[1])?;
    // A page is a power of two; Linux has none under 4 KiB.
    (entry >= 4096 && entry.is_power_of_two()).then_some(entry as u64)
}

/// The limit of `mlock`.
pub(crate) fn memlock(source: &Source) -> Option<Memlock> {
    let text = source.text("/proc/self/limits")?;
    let mut values = text
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?
        .split_whitespace()
        .map(|value| match value {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        });
    Some(Memlock {
        soft_bytes: values.next()??,
        hard_bytes: values.next()??,
    })
}

/// Whether the process has `CAP_IPC_LOCK`.
pub(crate) fn cap_ipc_lock(source: &Source) -> Option<bool> {
    let text = source.text("/proc/self/status")?;
    let set = u64::from_str_radix(field(&text, "CapEff")?, 16).ok()?;
    Some(set >> CAP_IPC_LOCK & 1 == 1)
}

/// When memory gets huge pages.
pub(crate) fn thp_mode(source: &Source) -> Option<ThpMode> {
    match chosen(source, "/sys/kernel/mm/transparent_hugepage/enabled")?.as_str() {
        "always" => Some(ThpMode::Always),
        "madvise" => Some(ThpMode::Madvise),
        "never" => Some(ThpMode::Never),
        _ => None,
    }
}

/// What happens when no huge page is free.
pub(crate) fn thp_defrag(source: &Source) -> Option<ThpDefrag> {
    match chosen(source, "/sys/kernel/mm/transparent_hugepage/defrag")?.as_str() {
        "always" => Some(ThpDefrag::Always),
        "defer" => Some(ThpDefrag::Defer),
        "defer+madvise" => Some(ThpDefrag::DeferMadvise),
        "madvise" => Some(ThpDefrag::Madvise),
        "never" => Some(ThpDefrag::Never),
        _ => None,
    }
}

/// Pools of reserved huge pages.
pub(crate) fn hugetlb(source: &Source) -> Vec<HugePagePool> {
    const FOLDER: &str = "/sys/kernel/mm/hugepages";
    source
        .numbered(FOLDER, "hugepages-", "kB")
        .into_iter()
        .filter_map(|kib| {
            let pool = format!("{FOLDER}/hugepages-{kib}kB");
            Some(HugePagePool {
                page_bytes: kib.checked_mul(1024)?,
                total_pages: source.number(&format!("{pool}/nr_hugepages")),
                free_pages: source.number(&format!("{pool}/free_hugepages")),
            })
        })
        .collect()
}

/// How requests for memory are answered.
pub(crate) fn overcommit(source: &Source) -> Option<Overcommit> {
    match source.number("/proc/sys/vm/overcommit_memory")? {
        0 => Some(Overcommit::Heuristic),
        1 => Some(Overcommit::Always),
        2 => Some(Overcommit::Strict),
        _ => None,
    }
}

/// The word in square brackets: the choice in force among those that a file lists.
fn chosen(source: &Source, path: &str) -> Option<String> {
    let text = source.text(path)?;
    let word = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))?;
    Some(word.to_owned())
}
