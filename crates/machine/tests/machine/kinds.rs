//! What is read from trees that stand for real kinds of machine, and what it means for the user.

use crate::tree::{Tree, auxv};
use pinfold_machine::{
    ContainerKind, Finding, Level, Machine, Memlock, Overcommit, PinHeadroom, ThpDefrag, ThpMode,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     
Max open files            1024                 1048576              files     
Max locked memory         8388608              unlimited            bytes     
";

fn found<'a>(findings: &'a [Finding], code: &str) -> Option<&'a Finding> {
    findings.iter().find(|finding| finding.code == code)
}

/// A server of two sockets with 1 TiB, huge pages in both flavours, and no limits.
fn big_server() -> Tree {
    let node = |id: u32| {
        format!("Node {id} MemTotal:       528482304 kB\nNode {id} MemFree:       500000000 kB\n")
    };
    Tree::linux("6.8.0-45-generic", 1_056_964_608, 1_000_000_000)
        .file(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\nflags\t\t: fpu vme\n",
        )
        .file("sys/devices/system/cpu/online", "0-223\n")
        .file(
            "proc/self/status",
            "Name:\tx\nCapEff:\t0000000000000000\nCpus_allowed:\tff\nCpus_allowed_list:\t0-223\n",
        )
        .file("proc/self/limits", LIMITS)
        .file("proc/self/cgroup", "0::/user.slice/session-1.scope\n")
        .file(
            "proc/self/mountinfo",
            "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        )
        .link("proc/self/ns/pid", "pid:[4026531836]")
        .file("sys/fs/cgroup/user.slice/memory.max", "max\n")
        .file(
            "sys/fs/cgroup/user.slice/session-1.scope/memory.max",
            "max\n",
        )
        .file(
            "sys/fs/cgroup/user.slice/session-1.scope/memory.current",
            "1073741824\n",
        )
        .file(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        )
        .file(
            "sys/kernel/mm/transparent_hugepage/defrag",
            "always defer [defer+madvise] madvise never\n",
        )
        .file(
            "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
            "0\n",
        )
        .file(
            "sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages",
            "0\n",
        )
        .file(
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "1024\n",
        )
        .file(
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
            "1000\n",
        )
        .file("sys/devices/system/node/node0/meminfo", &node(0))
        .file("sys/devices/system/node/node0/cpulist", "0-55,112-167\n")
        .file("sys/devices/system/node/node1/meminfo", &node(1))
        .file("sys/devices/system/node/node1/cpulist", "56-111,168-223\n")
        .file("sys/devices/system/node/online", "0-1\n")
        .file("proc/sys/vm/max_map_count", "65530\n")
        .file("proc/sys/vm/overcommit_memory", "0\n")
}

/// A container of 2 GiB whose control group looks like the root to it.
fn docker(extra: &str) -> Tree {
    Tree::linux("6.8.0-45-generic", 64 << 20, 60 << 20)
        .file("proc/self/cgroup", "0::/\n")
        .file(
            "proc/self/mountinfo",
            "501 400 0:50 / / rw - overlay overlay rw\n\
             502 501 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n\
             503 501 8:1 /var/lib/docker/containers/0a1b/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n",
        )
        .link("proc/self/ns/pid", "pid:[4026532801]")
        .file("sys/fs/cgroup/memory.max", "2147483648\n")
        .file("sys/fs/cgroup/memory.high", "max\n")
        .file("sys/fs/cgroup/memory.current", "943718400\n")
        .file(
            "sys/fs/cgroup/memory.stat",
            &format!("anon 1000\nunevictable 4096\n{extra}"),
        )
        .file("sys/fs/cgroup/cpu.max", "250000 100000\n")
        .file("sys/devices/system/cpu/online", "0-31\n")
}

#[test]
fn a_big_server_is_read_in_full() {
    let tree = big_server();
    let m = tree.machine();
    assert_eq!(m.os.as_deref(), Some("Linux"));
    assert_eq!(m.kernel.as_deref(), Some("6.8.0-45-generic"));
    assert_eq!(
        m.cpu.model.as_deref(),
        Some("Intel(R) Xeon(R) Platinum 8480+")
    );
    assert_eq!(m.cpu.usable_cores(), Some(224));
    assert_eq!(m.cpu.quota_cores, None);
    assert_eq!(m.page_bytes, Some(4096));
    assert_eq!(m.memory.total_bytes, Some(1_056_964_608 * KIB));
    assert_eq!(
        m.memlock,
        Some(Memlock {
            soft_bytes: Some(8 * MIB),
            hard_bytes: None
        })
    );
    assert_eq!(m.cap_ipc_lock, Some(false));
    assert_eq!(m.transparent_hugepages, Some(ThpMode::Madvise));
    assert_eq!(m.thp_defrag, Some(ThpDefrag::DeferMadvise));
    let pools: Vec<u64> = m.hugetlb.iter().map(|pool| pool.page_bytes).collect();
    assert_eq!(pools, [2 * MIB, GIB]);
    assert_eq!(m.hugetlb[0].free_pages, Some(1000));
    assert_eq!(m.numa.len(), 2);
    assert_eq!(m.numa[1].id, 1);
    assert_eq!(m.numa[1].cpus.as_ref().map(|c| c.count()), Some(112));
    assert_eq!(m.virtualisation.container, None);
    assert_eq!(m.virtualisation.hypervisor, Some(false));
    assert_eq!(m.overcommit, Some(Overcommit::Heuristic));
    let group = m.cgroup.unwrap();
    assert_eq!((group.version, group.memory_limit_bytes), (2, None));
    assert_eq!(group.memory_current_bytes, Some(GIB));
}

#[test]
fn a_big_server_has_room_and_no_warning() {
    let m = big_server().machine();
    let headroom = m.pin_headroom();
    assert_eq!(headroom.limited_by, PinHeadroom::AVAILABLE_MEMORY);
    let reserve = m.memory.total_bytes.unwrap() / 20;
    assert_eq!(headroom.bytes, 1_000_000_000 * KIB - reserve);
    let findings = m.findings();
    assert!(findings.iter().all(|f| f.level < Level::Warning));
    let memlock = found(&findings, "memlock-not-the-limit").unwrap();
    assert_eq!(memlock.level, Level::Info);
    assert!(memlock.meaning.contains("8.0 MiB"));
    assert!(found(&findings, "numa-nodes").is_some());
    assert!(found(&findings, "thp-available").is_some());
    assert!(found(&findings, "map-count").is_some());
    assert_eq!(
        found(&findings, "hugetlb-set-aside").unwrap().level,
        Level::Info
    );
    assert!(found(&findings, "cgroup-limit").is_none());
    assert!(found(&findings, "headroom-short").is_none());
}

#[test]
fn a_docker_container_is_bound_by_its_group() {
    let m = docker("inactive_file 0\n").machine();
    assert_eq!(m.virtualisation.container, Some(ContainerKind::Docker));
    assert_eq!(m.cpu.quota_cores, Some(2.5));
    assert_eq!(m.cpu.usable_cores(), Some(3));
    let group = m.cgroup.as_ref().unwrap();
    assert_eq!(group.memory_limit_bytes, Some(2 * GIB));
    assert_eq!(group.memory_high_bytes, None);
    assert_eq!(group.unevictable_bytes, Some(4096));
    let headroom = m.pin_headroom();
    assert_eq!(headroom.limited_by, PinHeadroom::CGROUP);
    // A quarter of 2 GiB is kept, 900 MiB are used.
    assert_eq!(headroom.bytes, 2 * GIB - GIB / 2 - 900 * MIB);
    let findings = m.findings();
    assert!(
        found(&findings, "cgroup-limit")
            .unwrap()
            .meaning
            .contains("2.0 GiB")
    );
    assert_eq!(
        found(&findings, "headroom-short").unwrap().level,
        Level::Note
    );
    assert!(found(&findings, "cores-few").is_some());
    assert!(found(&findings, "container").is_some());
}

#[test]
fn file_pages_that_the_kernel_would_drop_do_not_count_as_used() {
    let cached = docker(&format!("inactive_file {}\n", 800 * MIB)).machine();
    let bare = docker("").machine();
    let gained = cached.pin_headroom().bytes - bare.pin_headroom().bytes;
    assert_eq!(gained, 800 * MIB);
}

#[test]
fn a_full_group_leaves_nothing_and_warns() {
    let m = docker("")
        .file("sys/fs/cgroup/memory.current", "9000000000\n")
        .machine();
    assert_eq!(m.pin_headroom().bytes, 0);
    assert_eq!(m.findings()[0].code, "headroom-short");
    assert_eq!(m.findings()[0].level, Level::Warning);
}

#[test]
fn the_smallest_limit_on_the_way_up_counts() {
    let m = Tree::linux("6.1.0", 64 << 20, 60 << 20)
        .file("proc/self/cgroup", "0::/a/b/c\n")
        .file(
            "proc/self/mountinfo",
            "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        )
        .file("sys/fs/cgroup/a/memory.max", &format!("{}\n", 16 * GIB))
        .file("sys/fs/cgroup/a/memory.current", &format!("{}\n", 15 * GIB))
        .file("sys/fs/cgroup/a/b/memory.max", &format!("{}\n", 8 * GIB))
        .file("sys/fs/cgroup/a/b/memory.current", &format!("{}\n", GIB))
        .file("sys/fs/cgroup/a/b/c/memory.max", "max\n")
        .file(
            "sys/fs/cgroup/a/b/c/memory.high",
            &format!("{}\n", 12 * GIB),
        )
        .file(
            "sys/fs/cgroup/a/b/c/memory.current",
            &format!("{}\n", GIB / 2),
        )
        .machine();
    let group = m.cgroup.as_ref().unwrap();
    assert_eq!(group.memory_limit_bytes, Some(8 * GIB));
    assert_eq!(group.memory_current_bytes, Some(GIB / 2));
    assert_eq!(group.levels.len(), 3);
    // The parent's limit is larger, but siblings have used it up: it decides.
    let headroom = m.pin_headroom();
    assert_eq!(headroom.bytes, 0);
    assert!(
        headroom
            .reason
            .contains("/sys/fs/cgroup/a may hold 16.0 GiB")
    );
    let findings = m.findings();
    let limit = found(&findings, "cgroup-limit").unwrap();
    assert!(
        limit
            .meaning
            .contains("/sys/fs/cgroup/a/b may hold 8.0 GiB")
    );
    // 12 GiB cannot be reached below a limit of 8 GiB.
    assert!(found(&findings, "cgroup-high").is_none());
}

#[test]
fn version_1_is_read_through_the_mount_of_a_container() {
    let m = Tree::linux("4.18.0", 32 << 20, 30 << 20)
        .file(
            "proc/self/cgroup",
            "11:memory:/docker/0a1b\n5:cpu,cpuacct:/docker/0a1b\n1:name=systemd:/docker/0a1b\n",
        )
        .file(
            "proc/self/mountinfo",
            "40 39 0:30 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
             41 39 0:31 /docker/0a1b /sys/fs/cgroup/cpu,cpuacct ro - cgroup c rw,cpu,cpuacct\n",
        )
        .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "8589934592\n")
        .file("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n")
        .file(
            "sys/fs/cgroup/memory/memory.stat",
            "inactive_file 5\ntotal_inactive_file 536870912\ntotal_unevictable 8192\n",
        )
        .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n")
        .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
        .machine();
    assert_eq!(m.cpu.quota_cores, Some(4.0));
    assert_eq!(m.virtualisation.container, Some(ContainerKind::Docker));
    let group = m.cgroup.as_ref().unwrap();
    assert_eq!((group.version, group.path.as_str()), (1, "/docker/0a1b"));
    assert_eq!(group.memory_limit_bytes, Some(8 * GIB));
    assert_eq!(group.unevictable_bytes, Some(8192));
    assert_eq!(m.pin_headroom().bytes, 8 * GIB - GIB / 2 - GIB);
}

#[test]
fn no_limit_and_no_quota_in_version_1_are_none() {
    let m = Tree::linux("4.18.0", 32 << 20, 30 << 20)
        .file("proc/self/cgroup", "4:memory:/\n2:cpu:/\n0::/\n")
        .file(
            "proc/self/mountinfo",
            "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n\
             36 31 0:33 / /cg/cpu rw - cgroup cgroup rw,cpu\n\
             37 31 0:34 / /cg/unified rw - cgroup2 cgroup2 rw\n",
        )
        .file("cg/memory/memory.limit_in_bytes", "9223372036854771712\n")
        .file("cg/memory/memory.usage_in_bytes", "1000\n")
        .file("cg/unified/memory.max", "1000\n")
        .file("cg/cpu/cpu.cfs_quota_us", "-1\n")
        .file("cg/cpu/cpu.cfs_period_us", "100000\n")
        .machine();
    assert_eq!(m.cpu.quota_cores, None);
    let group = m.cgroup.as_ref().unwrap();
    assert_eq!((group.version, group.memory_limit_bytes), (1, None));
    assert_eq!(m.pin_headroom().limited_by, PinHeadroom::AVAILABLE_MEMORY);
}

#[test]
fn a_limit_beyond_the_machine_is_reported_but_limits_nothing() {
    let m = docker("")
        .file("sys/fs/cgroup/memory.max", &format!("{}\n", 100 * GIB))
        .machine();
    let group = m.cgroup.as_ref().unwrap();
    assert_eq!(group.memory_limit_bytes, Some(100 * GIB));
    assert_eq!(m.pin_headroom().limited_by, PinHeadroom::AVAILABLE_MEMORY);
    let findings = m.findings();
    assert!(found(&findings, "cgroup-limit").is_none());
    assert!(found(&findings, "cgroup-limit-above-memory").is_some());
}

#[test]
fn wsl_is_told_by_its_kernel_and_halves_the_headroom() {
    let tree = Tree::linux("5.15.167.4-microsoft-standard-WSL2", 16 << 20, 15 << 20)
        .link("proc/self/ns/pid", "pid:[4026532500]");
    let m = tree.machine();
    assert_eq!(m.virtualisation.wsl, Some(2));
    assert_eq!(m.virtualisation.container, None);
    let headroom = m.pin_headroom();
    assert_eq!(
        (headroom.bytes, headroom.limited_by),
        (8 * GIB, PinHeadroom::WSL2)
    );
    assert_eq!(
        found(&m.findings(), "wsl2-share").unwrap().level,
        Level::Warning
    );

    let old = Tree::linux("4.4.0-19041-Microsoft", 16 << 20, 15 << 20).machine();
    assert_eq!(old.virtualisation.wsl, Some(1));
    assert!(found(&old.findings(), "wsl1").is_some());

    let own = Tree::linux("6.6.0-custom", 16 << 20, 15 << 20)
        .file("proc/sys/fs/binfmt_misc/WSLInterop", "enabled\n");
    assert_eq!(own.machine().virtualisation.wsl, Some(2));
}

#[test]
fn containers_are_told_apart() {
    let base = || Tree::linux("6.1.0", 8 << 20, 7 << 20);
    let mounted = |root: &str| {
        let line = format!("9 1 8:1 {root} /etc/hosts rw - ext4 /dev/sda rw\n");
        base().file("proc/self/mountinfo", &line).machine()
    };
    let grouped = |path: &str| {
        let line = format!("0::{path}\n");
        base().file("proc/self/cgroup", &line).machine()
    };
    let kind = |m: Machine| m.virtualisation.container;
    let pod = "/var/lib/kubelet/pods/1/etc-hosts";
    assert_eq!(kind(mounted(pod)), Some(ContainerKind::Kubernetes));
    let podman = "/containers/storage/overlay-containers/1/userdata/hosts";
    assert_eq!(kind(mounted(podman)), Some(ContainerKind::Podman));
    let moved = "/data/docker/containers/1/hosts";
    assert_eq!(kind(mounted(moved)), Some(ContainerKind::Docker));
    assert_eq!(kind(mounted("/etc/hosts")), None);
    assert_eq!(
        kind(grouped("/kubepods.slice/x")),
        Some(ContainerKind::Kubernetes)
    );
    assert_eq!(kind(grouped("/lxc.payload.x")), Some(ContainerKind::Lxc));
    assert_eq!(kind(grouped("/user.slice")), None);
    let init = base().file("proc/1/environ", "A=b\0container=lxc\0");
    assert_eq!(kind(init.machine()), Some(ContainerKind::Lxc));
    let own = base().link("proc/self/ns/pid", "pid:[4026532999]");
    assert_eq!(kind(own.machine()), Some(ContainerKind::Unknown));
    let first = base().link("proc/self/ns/pid", "pid:[4026531836]");
    assert_eq!(kind(first.machine()), None);
    // An image's marker file alone does not make a container.
    assert_eq!(kind(base().file(".dockerenv", "").machine()), None);
}

#[test]
fn settings_that_hurt_are_named() {
    let m = Tree::linux("6.1.0", 8 << 20, 512 << 10)
        .file(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always madvise [never]\n",
        )
        .file(
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "1024\n",
        )
        .file(
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
            "1024\n",
        )
        .file("proc/sys/vm/max_map_count", "4096\n")
        .file("proc/sys/vm/overcommit_memory", "2\n")
        .file("proc/cpuinfo", "flags\t\t: fpu hypervisor\n")
        .bytes("proc/self/auxv", &auxv(65536))
        .machine();
    assert_eq!(m.page_bytes, Some(65536));
    let findings = m.findings();
    let level = |code| found(&findings, code).map(|finding| finding.level);
    assert_eq!(level("thp-never"), Some(Level::Note));
    assert_eq!(level("thp-available"), None);
    assert_eq!(level("hugetlb-set-aside"), Some(Level::Note));
    assert_eq!(level("map-count"), Some(Level::Note));
    assert_eq!(level("overcommit-strict"), Some(Level::Note));
    assert_eq!(level("virtual-machine"), Some(Level::Info));
    assert_eq!(level("page-size"), Some(Level::Info));
    assert_eq!(level("memory-short"), Some(Level::Warning));
    let levels: Vec<Level> = findings.iter().map(|finding| finding.level).collect();
    assert!(levels.is_sorted_by(|a, b| a >= b), "the worst comes first");
}

#[test]
fn memory_without_processors_is_no_place_for_pinned_memory() {
    let tree = |far_cpus: &str| {
        Tree::linux("6.5.0-64k", 576 << 20, 560 << 20)
            .file(
                "sys/devices/system/node/node0/meminfo",
                "Node 0 MemTotal: 503316480 kB\n",
            )
            .file("sys/devices/system/node/node0/cpulist", "0-71\n")
            .file(
                "sys/devices/system/node/node1/meminfo",
                "Node 1 MemTotal: 100663296 kB\nNode 1 MemFree: 99614720 kB\n",
            )
            .file("sys/devices/system/node/node1/cpulist", far_cpus)
            .machine()
    };
    let (shared, plain) = (tree("\n"), tree("72-143\n"));
    assert!(found(&shared.findings(), "numa-memory-only").is_some());
    assert!(found(&shared.findings(), "numa-nodes").is_none());
    assert!(found(&plain.findings(), "numa-nodes").is_some());
    let less = plain.pin_headroom().bytes - shared.pin_headroom().bytes;
    assert_eq!(less, 99_614_720 * KIB);
}
