//! A probe's facts as rows of name and value, for text and HTML alike.

use pinfold::Bytes;
use pinfold::hal::{DeviceInfo, PcieLink};
use pinfold::probe::machine::{ContainerKind, Machine, Overcommit, ThpDefrag, ThpMode};
use pinfold::probe::{Backends, ProbeReport};

/// What stands where a fact could not be read.
const UNKNOWN: &str = "not known";

/// A fact's name and value.
pub(super) type Row = (&'static str, String);

/// What stands behind devices.
pub(super) fn backends(backends: &Backends) -> Vec<Row> {
    let cuda = &backends.cuda;
    let driver = match (&cuda.reason, &cuda.cuda_version) {
        (Some(reason), _) => format!("not usable: {reason}"),
        (None, version) => format!(
            "usable: driver {}, CUDA {}",
            known(cuda.driver_release.as_ref()),
            known(version.as_ref())
        ),
    };
    let mut rows = vec![("CUDA", driver)];
    if !cuda.missing_symbols.is_empty() {
        rows.push(("lacking", cuda.missing_symbols.join(", ")));
    }
    rows.push((
        "simulated",
        format!("sim:PROFILE with {}", backends.simulated.join(", ")),
    ));
    rows
}

/// What a device is.
pub(super) fn device(info: &DeviceInfo) -> Vec<Row> {
    let (major, minor) = info.compute_capability;
    let mut rows = vec![
        (
            "compute",
            format!(
                "capability {major}.{minor}, {} multiprocessors",
                info.multiprocessors
            ),
        ),
        (
            "memory",
            format!(
                "{}, L2 cache {}",
                Bytes(info.memory_bytes),
                Bytes(info.l2_bytes)
            ),
        ),
        ("link", link(info.link)),
        ("NUMA node", known(info.numa_node)),
    ];
    if let Some(address) = &info.pci_address {
        rows.push(("PCI address", address.clone()));
    }
    rows
}

fn link(link: Option<PcieLink>) -> String {
    match link.filter(|l| l.generation_now > 0 && l.width_now > 0) {
        Some(l) if (l.generation_now, l.width_now) == (l.generation_max, l.width_max) => {
            format!("PCIe {}.0 x{}", l.generation_now, l.width_now)
        }
        Some(l) => format!(
            "PCIe {}.0 x{} now, {}.0 x{} at most",
            l.generation_now, l.width_now, l.generation_max, l.width_max
        ),
        None => UNKNOWN.to_owned(),
    }
}

/// What the host is.
pub(super) fn host(machine: &Machine) -> Vec<Row> {
    let memory = &machine.memory;
    let held = |total: Option<u64>, rest: Option<u64>, what: &str| {
        let rest = rest.map(|bytes| format!("{} {what}", Bytes(bytes)));
        joined([total.map(|bytes| Bytes(bytes).to_string()), rest], ", ")
    };
    vec![
        (
            "memory",
            held(memory.total_bytes, memory.available_bytes, "available"),
        ),
        (
            "swap",
            match memory.swap_total_bytes {
                Some(0) => "none".to_owned(),
                total => held(total, memory.swap_free_bytes, "free"),
            },
        ),
        ("pages", bytes(machine.page_bytes)),
        ("huge pages", huge_pages(machine)),
        ("NUMA", numa(machine)),
        ("processors", processors(machine)),
        ("system", system(machine)),
    ]
}

fn huge_pages(machine: &Machine) -> String {
    let mode = match machine.transparent_hugepages {
        Some(ThpMode::Always) => "always",
        Some(ThpMode::Madvise) => "on request (madvise)",
        Some(ThpMode::Never) => "never",
        None => UNKNOWN,
    };
    let defrag = match machine.thp_defrag {
        Some(ThpDefrag::Always) => ", made at once",
        Some(ThpDefrag::Defer) => ", made in the background",
        Some(ThpDefrag::DeferMadvise) => ", made at once on request, else in the background",
        Some(ThpDefrag::Madvise) => ", made at once on request",
        Some(ThpDefrag::Never) => ", only where one is free",
        None => "",
    };
    let pools = machine
        .hugetlb
        .iter()
        .filter(|pool| pool.total_pages.unwrap_or(0) > 0);
    let pools: Vec<String> = pools
        .map(|pool| {
            let (free, total) = (known(pool.free_pages), known(pool.total_pages));
            format!("{free} of {total} pages of {} free", Bytes(pool.page_bytes))
        })
        .collect();
    let reserved = match pools.is_empty() {
        true => "none".to_owned(),
        false => pools.join(", "),
    };
    format!("transparent: {mode}{defrag}; reserved: {reserved}")
}

fn numa(machine: &Machine) -> String {
    if machine.numa.is_empty() {
        return UNKNOWN.to_owned();
    }
    let nodes = machine.numa.iter().map(|node| {
        let memory_only = if node.is_memory_only() {
            ", no processors"
        } else {
            ""
        };
        format!("node {}: {}{memory_only}", node.id, bytes(node.total_bytes))
    });
    nodes.collect::<Vec<_>>().join("; ")
}

fn processors(machine: &Machine) -> String {
    let cpu = &machine.cpu;
    let count = match (cpu.usable_cores(), cpu.logical_cores) {
        (Some(usable), Some(all)) => Some(format!("{usable} of {all} usable")),
        (None, Some(all)) => Some(all.to_string()),
        (Some(usable), None) => Some(format!("{usable} usable")),
        (None, None) => None,
    };
    joined([count, cpu.model.clone()], ", ")
}

fn system(machine: &Machine) -> String {
    let mut text = joined([machine.os.clone(), machine.kernel.clone()], " ");
    let virtualisation = &machine.virtualisation;
    if let Some(version) = virtualisation.wsl {
        text += &format!(", WSL {version}");
    }
    text += match virtualisation.hypervisor {
        Some(true) => ", virtual machine",
        Some(false) => ", no hypervisor seen",
        None => "",
    };
    text += match virtualisation.container {
        Some(ContainerKind::Docker) => ", Docker container",
        Some(ContainerKind::Podman) => ", Podman container",
        Some(ContainerKind::Kubernetes) => ", Kubernetes container",
        Some(ContainerKind::Lxc) => ", LXC container",
        Some(ContainerKind::Unknown) => ", container",
        None => ", no container seen",
    };
    text
}

/// What limits page-locked memory, and what only seems to.
pub(super) fn limits(report: &ProbeReport) -> Vec<Row> {
    let machine = &report.machine;
    let headroom = &report.pin_headroom;
    let memlock = match &machine.memlock {
        Some(limit) => match limit.soft_bytes {
            Some(bytes) => Bytes(bytes).to_string(),
            None => "unlimited".to_owned(),
        },
        None => UNKNOWN.to_owned(),
    };
    let overcommit = match machine.overcommit {
        Some(Overcommit::Heuristic) => "refuses what is plainly too much",
        Some(Overcommit::Always) => "refuses nothing",
        Some(Overcommit::Strict) => "strict: refuses what exceeds the commit limit",
        None => UNKNOWN,
    };
    let tried = report.pin_ceiling.as_ref().map(|ceiling| {
        let stopped = match &ceiling.stopped_by {
            Some(problem) => format!(", then {problem}"),
            None => ", which is all that may be".to_owned(),
        };
        (
            "could be locked",
            format!("{}{stopped}", Bytes(ceiling.bytes)),
        )
    });
    let may = (
        "may be locked",
        format!("{} more: {}", Bytes(headroom.bytes), headroom.reason),
    );
    let mut rows = vec![may];
    rows.extend(tried);
    rows.extend([
        ("control group", control_group(machine)),
        (
            "memlock",
            format!("{memlock}; the GPU driver does not go by it"),
        ),
        (
            "mappings",
            machine
                .max_map_count
                .map_or(UNKNOWN.to_owned(), |count| format!("{count} at most")),
        ),
        ("overcommit", overcommit.to_owned()),
    ]);
    rows
}

fn control_group(machine: &Machine) -> String {
    let Some(group) = &machine.cgroup else {
        return "none seen".to_owned();
    };
    let limit = match group.memory_limit_bytes {
        Some(limit) => format!("limit {}", Bytes(limit)),
        None => "no limit".to_owned(),
    };
    let high = match group.memory_high_bytes {
        Some(high) => format!(", slowed down above {}", Bytes(high)),
        None => String::new(),
    };
    let held = match group.memory_current_bytes {
        Some(held) => format!(", {} charged", Bytes(held)),
        None => String::new(),
    };
    format!("{limit}{high}{held} (version {})", group.version)
}

/// The parts that are known.
fn joined(parts: [Option<String>; 2], between: &str) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => UNKNOWN.to_owned(),
        false => parts.join(between),
    }
}

fn bytes(value: Option<u64>) -> String {
    known(value.map(Bytes))
}

fn known(value: Option<impl ToString>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |v| v.to_string())
}
