//! Whatever the files hold, a machine can be read, judged and written out; and the machine that
//! the tests run on can be.

use crate::tree::Tree;
use pinfold_machine::{Machine, PinHeadroom};

/// Every file that is read, with text that makes sense.
const FILES: [(&str, &str); 30] = [
    ("proc/sys/kernel/ostype", "Linux\n"),
    (
        "proc/sys/kernel/osrelease",
        "5.15.0-microsoft-standard-WSL2\n",
    ),
    ("proc/sys/fs/binfmt_misc/WSLInterop", "enabled\n"),
    (
        "proc/meminfo",
        "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\nSwapTotal: 5 kB\n",
    ),
    (
        "proc/cpuinfo",
        "model name : X\nflags : fpu hypervisor\nCPU implementer : 0x41\n",
    ),
    (
        "proc/self/status",
        "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-3,8\n",
    ),
    (
        "proc/self/limits",
        "Max locked memory         65536   unlimited   bytes\n",
    ),
    ("proc/self/auxv", "\u{6}\0\0\0\0\0\0\0\0\u{10}\0\0\0\0\0\0"),
    ("proc/self/cgroup", "3:memory:/a/b\n2:cpu:/a\n0::/a/b\n"),
    (
        "proc/self/mountinfo",
        "1 0 0:1 / /m rw - cgroup cgroup rw,memory\n2 0 0:2 /a /c rw x:1 - cgroup c rw,cpu\n\
         3 0 0:3 / /u rw - cgroup2 cgroup2 rw\n4 0 8:1 /docker/containers/1 /etc/hosts r - e d r\n",
    ),
    ("proc/1/environ", "A=b\0container=lxc\0"),
    ("proc/sys/vm/max_map_count", "65530\n"),
    ("proc/sys/vm/overcommit_memory", "2\n"),
    ("m/memory.limit_in_bytes", "1048576\n"),
    ("m/a/b/memory.usage_in_bytes", "4096\n"),
    (
        "m/a/b/memory.stat",
        "total_inactive_file 12\ntotal_unevictable 4\n",
    ),
    ("c/cpu.cfs_quota_us", "150000\n"),
    ("c/cpu.cfs_period_us", "100000\n"),
    ("u/a/b/memory.max", "1048576\n"),
    ("u/a/b/memory.high", "max\n"),
    ("u/a/memory.current", "4096\n"),
    ("u/a/b/memory.stat", "inactive_file 12\nunevictable 4\n"),
    ("u/a/cpu.max", "max 100000\n"),
    (
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always madvise [never]\n",
    ),
    (
        "sys/kernel/mm/transparent_hugepage/defrag",
        "always [defer] never\n",
    ),
    (
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        "12\n",
    ),
    (
        "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
        "10\n",
    ),
    ("sys/devices/system/cpu/online", "0-7\n"),
    (
        "sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal: 5 kB\nNode 0 MemFree: 1 kB\n",
    ),
    ("sys/devices/system/node/node0/cpulist", "0-7\n"),
];

/// Everything that can be asked of a machine.
fn exercise(machine: &Machine) {
    let headroom = machine.pin_headroom();
    let total = machine.memory.total_bytes;
    assert!(headroom.bytes <= total.unwrap_or(u64::MAX));
    assert!(!headroom.reason.is_empty());
    machine.cpu.usable_cores();
    for finding in machine.findings() {
        assert!(!finding.meaning.is_empty() && !finding.title.is_empty());
        assert!(finding.meaning.ends_with('.'), "{}", finding.meaning);
        assert!(!finding.meaning.contains(char::is_control));
    }
    let json = serde_json::to_value(machine).unwrap();
    assert!(json.get("page_bytes").is_some());
    serde_json::to_string(&machine.findings()).unwrap();
    serde_json::to_string(&headroom).unwrap();
}

/// Spoils a file's bytes in one of several ways.
fn spoil(random: &mut fastrand::Rng, sound: &str) -> Vec<u8> {
    let mut bytes = sound.as_bytes().to_vec();
    match random.u8(0..6) {
        0 => (0..random.usize(0..300)).map(|_| random.u8(..)).collect(),
        1 => {
            bytes.truncate(random.usize(0..=bytes.len()));
            bytes
        }
        2 => {
            for _ in 0..random.usize(1..8) {
                let at = random.usize(0..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes
        }
        3 => {
            let number = random.choice(["18446744073709551615", "99999999999999999999", "-1", "0"]);
            let digits = |c: char| c.is_ascii_digit();
            let parts: Vec<&str> = sound.split(digits).collect();
            parts.join(number.unwrap_or("0")).into_bytes()
        }
        4 => bytes.repeat(random.usize(1..50)),
        _ => bytes,
    }
}

#[test]
fn no_contents_make_it_fail() {
    let mut random = fastrand::Rng::with_seed(0x70_69_6e);
    for _ in 0..60 {
        let mut tree = Tree::new();
        for (path, sound) in FILES {
            tree = match random.u8(0..8) {
                0 => tree,
                1 => tree.folder(path),
                _ => {
                    let bytes = spoil(&mut random, sound);
                    tree.bytes(path, &bytes)
                }
            };
        }
        exercise(&tree.machine());
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut tree = Tree::new();
    for (path, sound) in FILES {
        let digits = |c: char| c.is_ascii_digit();
        let parts: Vec<&str> = sound.split(digits).collect();
        tree = tree.file(path, &parts.join("18446744073709551615"));
    }
    exercise(&tree.machine());
}

#[test]
fn an_empty_root_tells_nothing() {
    let machine = Tree::new().machine();
    assert_eq!(machine, Machine::default());
    assert_eq!(machine.findings(), []);
    let headroom = machine.pin_headroom();
    assert_eq!(
        (headroom.bytes, headroom.limited_by),
        (0, PinHeadroom::UNKNOWN)
    );
    exercise(&machine);
    let tree = Tree::new();
    let absent = Machine::read_from(&tree.root().join("absent"));
    assert_eq!(absent, Machine::default());
}

#[test]
fn a_group_that_climbs_out_is_not_followed() {
    let tree = Tree::new()
        .file("proc/self/cgroup", "0::/../../secret\n")
        .file("proc/self/mountinfo", "1 0 0:1 / /a/b rw - cgroup2 c rw\n")
        .file("secret/memory.max", "1000\n")
        .file("a/b/memory.max", "2000\n");
    let group = tree.machine().cgroup.unwrap();
    assert_eq!(group.memory_limit_bytes, Some(2000));
}

#[test]
fn absent_facts_are_null_and_lists_are_text() {
    let tree = Tree::new().file("sys/devices/system/node/node3/cpulist", "0-3,8\n");
    let json = serde_json::to_value(tree.machine()).unwrap();
    assert!(json["memory"]["total_bytes"].is_null());
    assert!(json["cgroup"].is_null());
    assert_eq!(json["numa"][0]["cpus"], "0-3,8");
}

#[cfg(target_os = "linux")]
#[test]
fn this_machine_can_be_read() {
    let machine = Machine::read();
    assert!(machine.page_bytes.unwrap() >= 4096);
    assert!(machine.memory.total_bytes.unwrap() > 0);
    assert!(machine.cpu.usable_cores().unwrap() > 0);
    assert!(machine.memlock.is_some());
    exercise(&machine);
}
