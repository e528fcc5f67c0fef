//! Reports of machines that are nobody's.

use pinfold::hal::{Capabilities, DeviceInfo, PcieLink};
use pinfold::probe::machine::{
    Cgroup, ContainerKind, Cpu, CpuList, Finding, HugePagePool, Level, Machine, Memlock, Memory,
    NumaNode, Overcommit, PinHeadroom, ThpDefrag, ThpMode, Virtualisation,
};
use pinfold::probe::{Backends, CudaBackend, DeviceFinding, ProbeReport, ProbedDevice};

const GIB: u64 = 1 << 30;

fn device(name: &str, simulated: bool, generation_now: u32) -> DeviceInfo {
    DeviceInfo {
        name: name.to_owned(),
        simulated,
        compute_capability: (9, 0),
        multiprocessors: 132,
        l2_bytes: 60 << 20,
        memory_bytes: 140 * GIB,
        pci_address: Some("0000:01:00.0".to_owned()),
        numa_node: Some(0),
        link: Some(PcieLink {
            generation_now,
            generation_max: 5,
            width_now: 16,
            width_max: 16,
        }),
        capabilities: Capabilities::default(),
    }
}

fn node(id: u32, cpus: &str) -> NumaNode {
    NumaNode {
        id,
        total_bytes: Some(32 * GIB),
        free_bytes: Some(30 * GIB),
        cpus: CpuList::parse(cpus),
    }
}

fn machine() -> Machine {
    Machine {
        os: Some("Linux".to_owned()),
        kernel: Some("6.8.0".to_owned()),
        cpu: Cpu {
            model: Some("Made Up 9000".to_owned()),
            logical_cores: Some(16),
            allowed_cores: Some(8),
            quota_cores: None,
        },
        page_bytes: Some(4096),
        memory: Memory {
            total_bytes: Some(64 * GIB),
            available_bytes: Some(60 * GIB),
            swap_total_bytes: Some(8 * GIB),
            swap_free_bytes: Some(7 * GIB),
        },
        cgroup: Some(Cgroup {
            version: 2,
            path: "/job".to_owned(),
            memory_limit_bytes: Some(16 * GIB),
            memory_high_bytes: Some(15 * GIB),
            memory_current_bytes: Some(GIB),
            unevictable_bytes: None,
            levels: Vec::new(),
        }),
        memlock: Some(Memlock {
            soft_bytes: Some(64 << 10),
            hard_bytes: None,
        }),
        cap_ipc_lock: Some(false),
        transparent_hugepages: Some(ThpMode::Madvise),
        thp_defrag: Some(ThpDefrag::DeferMadvise),
        hugetlb: vec![HugePagePool {
            page_bytes: 2 << 20,
            total_pages: Some(512),
            free_pages: Some(500),
        }],
        numa: vec![node(0, "0-15"), node(1, "")],
        virtualisation: Virtualisation {
            wsl: None,
            container: Some(ContainerKind::Docker),
            hypervisor: Some(true),
        },
        max_map_count: Some(65530),
        overcommit: Some(Overcommit::Strict),
    }
}

fn finding(level: Level, title: &'static str, advice: Option<&str>) -> Finding {
    Finding {
        code: "made-up",
        level,
        title,
        meaning:
            "This is what the fact means here, in a sentence or two that is long enough to be \
                  broken into lines."
                .to_owned(),
        advice: advice.map(str::to_owned),
    }
}

fn meaning(level: Level, title: &'static str, advice: Option<&'static str>) -> DeviceFinding {
    DeviceFinding {
        code: "made-up",
        level,
        title,
        meaning: "This is what it means.".to_owned(),
        advice,
    }
}

/// A machine without a GPU, of which hardly anything is known.
pub(crate) fn probe_simulated() -> ProbeReport {
    ProbeReport {
        backends: Backends {
            cuda: CudaBackend {
                reason: Some("no driver: install it".to_owned()),
                ..CudaBackend::default()
            },
            simulated: &["h200", "pcie3"],
        },
        devices: vec![ProbedDevice {
            choice: "sim:h200".to_owned(),
            info: DeviceInfo {
                pci_address: None,
                numa_node: None,
                link: None,
                ..device("simulated h200", true, 5)
            },
            meanings: vec![meaning(Level::Info, "One address space", None)],
        }],
        notice: Some("no real device can be used here".to_owned()),
        machine: Machine::default(),
        findings: Vec::new(),
        pin_headroom: PinHeadroom {
            bytes: 0,
            limited_by: PinHeadroom::AVAILABLE_MEMORY,
            reason: "nothing is known".to_owned(),
        },
        pin_ceiling: Some(pinfold::pool::PinCeiling {
            bytes: 96 << 30,
            stopped_by: Some("the driver has no more".to_owned()),
        }),
    }
}

/// A machine with two GPUs and a finding of every level.
pub(crate) fn probe_measured() -> ProbeReport {
    let probed = |number: u32, generation_now| ProbedDevice {
        choice: format!("cuda:{number}"),
        info: device("NVIDIA H200", false, generation_now),
        meanings: vec![
            meaning(Level::Warning, "The link is slow", Some("Look into it.")),
            meaning(Level::Info, "One address space", None),
        ],
    };
    ProbeReport {
        backends: Backends {
            cuda: CudaBackend {
                usable: true,
                reason: None,
                cuda_version: Some("13.0".to_owned()),
                driver_release: Some("580.159.04".to_owned()),
                missing_symbols: vec!["cuMemHostMadeUp".to_owned()],
            },
            simulated: &["h200", "pcie3"],
        },
        devices: vec![probed(0, 5), probed(1, 1)],
        notice: None,
        machine: machine(),
        findings: vec![
            finding(Level::Warning, "Memory is short", Some("Ask for less.")),
            finding(Level::Note, "There is swap", Some("Do without.")),
            finding(Level::Info, "This is a container", None),
        ],
        pin_headroom: PinHeadroom {
            bytes: 14 * GIB,
            limited_by: PinHeadroom::CGROUP,
            reason: "the control group has room for 15 GiB; 1 GiB is left to other programs"
                .to_owned(),
        },
        pin_ceiling: None,
    }
}
