//! What stands between this process and the hardware: WSL, a container, a hypervisor.
//!
//! Containers are told by what the kernel shows of them, not by marker files in the root folder:
//! a virtual machine whose disk was made from a container image has those files too.

use crate::source::{Source, field};
use serde::Serialize;

/// What stands between this process and the hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Virtualisation {
    /// The version of Windows' subsystem for Linux, 1 or 2; `None` outside it.
    pub wsl: Option<u8>,
    /// The kind of container; `None` where none was seen.
    pub container: Option<ContainerKind>,
    /// Whether the processor says that a hypervisor runs it; `None` where it does not tell, as
    /// Arm processors do not.
    pub hypervisor: Option<bool>,
}

/// What a container was made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContainerKind {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// Kubernetes, over any runtime.
    Kubernetes,
    /// LXC or LXD.
    Lxc,
    /// Something that gives the process its own process numbers.
    Unknown,
}

/// The first process namespace of a running kernel (`PROC_PID_INIT_INO`, `linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Finds out. `kernel` is the kernel's release.
pub(crate) fn read(source: &Source, kernel: Option<&str>) -> Virtualisation {
    let wsl = wsl(source, kernel);
    Virtualisation {
        wsl,
        container: container(source, wsl.is_some()),
        hypervisor: hypervisor(source),
    }
}

/// WSL 1 names its kernel `…-Microsoft`, WSL 2 `…-microsoft-standard…`. A kernel that the user
/// built is known by the handler that starts Windows programs; only WSL 2 can run one.
fn wsl(source: &Source, kernel: Option<&str>) -> Option<u8> {
    let kernel = kernel.unwrap_or("").to_ascii_lowercase();
    if kernel.contains("microsoft-standard") || kernel.contains("wsl2") {
        Some(2)
    } else if kernel.ends_with("-microsoft") {
        Some(1)
    } else {
        source
            .exists("/proc/sys/fs/binfmt_misc/WSLInterop")
            .then_some(2)
    }
}

fn container(source: &Source, in_wsl: bool) -> Option<ContainerKind> {
    container_of_mounts(source)
        .or_else(|| container_of_group(source))
        .or_else(|| container_of_init(source))
        .or_else(|| {
            // WSL gives each distribution its own process numbers.
            let namespace = source.link("/proc/self/ns/pid")?;
            let own = namespace.starts_with("pid:[") && namespace != FIRST_PID_NAMESPACE;
            (own && !in_wsl).then_some(ContainerKind::Unknown)
        })
}

/// Runtimes lay files of their own over the network's name files; where those come from tells.
fn container_of_mounts(source: &Source) -> Option<ContainerKind> {
    const LAID_OVER: [&str; 3] = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];
    let mounts = source.text("/proc/self/mountinfo")?;
    let kinds: Vec<ContainerKind> = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(3);
            let (root, point) = (fields.next()?, fields.next()?);
            LAID_OVER.contains(&point).then(|| kind_of_file(root))?
        })
        .collect();
    // In a pod each file may come from another place: the pod's own wins over its runtime's.
    if kinds.contains(&ContainerKind::Kubernetes) {
        return Some(ContainerKind::Kubernetes);
    }
    kinds.first().copied()
}

fn kind_of_file(root: &str) -> Option<ContainerKind> {
    let has = |part| root.contains(part);
    if has("/pods/") || has(".cri/sandboxes/") {
        Some(ContainerKind::Kubernetes)
    } else if has("/overlay-containers/") || has("/libpod/") {
        Some(ContainerKind::Podman)
    } else if has("/containers/") {
        Some(ContainerKind::Docker)
    } else {
        None
    }
}

fn container_of_group(source: &Source) -> Option<ContainerKind> {
    let groups = source.text("/proc/self/cgroup")?;
    let has = |part| groups.contains(part);
    if has("kubepods") {
        Some(ContainerKind::Kubernetes)
    } else if has("libpod") {
        Some(ContainerKind::Podman)
    } else if has(":/docker/") || has("/docker-") {
        Some(ContainerKind::Docker)
    } else if has("/lxc/") || has("/lxc.payload") {
        Some(ContainerKind::Lxc)
    } else {
        None
    }
}

/// LXC and Podman leave their name in the environment of the first process, which can be read by
/// its own user only.
fn container_of_init(source: &Source) -> Option<ContainerKind> {
    let environment = source.text("/proc/1/environ")?;
    let name = environment
        .split('\0')
        .find_map(|entry| entry.strip_prefix("container="))?;
    Some(match name {
        "docker" => ContainerKind::Docker,
        "podman" => ContainerKind::Podman,
        "lxc" => ContainerKind::Lxc,
        _ => ContainerKind::Unknown,
    })
}

fn hypervisor(source: &Source) -> Option<bool> {
    // Xen shows itself here on every processor.
    if source.word("/sys/hypervisor/type").is_some() {
        return Some(true);
    }
    let cpuinfo = source.text("/proc/cpuinfo")?;
    let flags = field(&cpuinfo, "flags")?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}
