//! Control groups, versions 1 and 2: the limits between this process and the root of its tree.
//!
//! A limit of any group on the way up binds, so all levels that can be seen are read. A container
//! usually sees its own group as the root; limits above that are out of sight.

use crate::source::{Source, printable};
use serde::Serialize;

/// The control group that memory of this process is charged to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cgroup {
    /// 1 or 2: the version that controls memory here.
    pub version: u8,
    /// The process's group, as the kernel names it to this process.
    pub path: String,
    /// Smallest limit of all levels, as written there, which may be more than the machine has;
    /// `None` without a limit. Above it the kernel kills.
    pub memory_limit_bytes: Option<u64>,
    /// Smallest `memory.high` of all levels: above it the kernel slows the process down.
    pub memory_high_bytes: Option<u64>,
    /// Memory charged to the innermost level that tells.
    pub memory_current_bytes: Option<u64>,
    /// Of that, memory that cannot be reclaimed because a program locked it. What the GPU driver
    /// page-locks is charged but **not** counted here.
    pub unevictable_bytes: Option<u64>,
    /// From the process's own group to the outermost that can be seen; those that tell something.
    pub levels: Vec<CgroupLevel>,
}

/// One group on the way up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupLevel {
    /// The group's folder.
    pub path: String,
    /// Its hard limit; `None` without one.
    pub limit_bytes: Option<u64>,
    /// Its `memory.high`; `None` without one, and always in version 1.
    pub high_bytes: Option<u64>,
    /// What is charged to it and the groups below.
    pub current_bytes: Option<u64>,
    /// Of that, file pages not used lately, which the kernel drops first when memory is wanted.
    pub inactive_file_bytes: Option<u64>,
    /// Of that, memory that a program locked.
    pub unevictable_bytes: Option<u64>,
}

impl CgroupLevel {
    /// The lower of hard limit and `memory.high`; `None` without either.
    pub fn ceiling_bytes(&self) -> Option<u64> {
        [self.limit_bytes, self.high_bytes]
            .into_iter()
            .flatten()
            .min()
    }

    /// What is charged less the file pages that would be dropped first; 0 where it is not known.
    pub fn working_set_bytes(&self) -> u64 {
        let current = self.current_bytes.unwrap_or(0);
        current.saturating_sub(self.inactive_file_bytes.unwrap_or(0))
    }

    /// True where the group's files told anything.
    fn tells_anything(&self) -> bool {
        self.limit_bytes.is_some() || self.high_bytes.is_some() || self.current_bytes.is_some()
    }
}

/// Deepest tree that is walked. Real trees have fewer than ten levels.
const DEPTH_MAX: usize = 64;

/// Version 1 writes "no limit" as the largest multiple of the page size in a signed word; whatever
/// the page size, that is above this.
const V1_UNLIMITED_BYTES: u64 = 1 << 62;

/// Reads the group's memory control.
pub(crate) fn read(source: &Source) -> Option<Cgroup> {
    let tree = Hierarchy::find(source, "memory")?;
    let levels: Vec<CgroupLevel> = tree
        .folders
        .iter()
        .map(|folder| level(source, tree.version, folder))
        .filter(CgroupLevel::tells_anything)
        .collect();
    Some(Cgroup {
        version: tree.version,
        path: printable(&tree.path),
        memory_limit_bytes: levels.iter().filter_map(|l| l.limit_bytes).min(),
        memory_high_bytes: levels.iter().filter_map(|l| l.high_bytes).min(),
        memory_current_bytes: levels.iter().find_map(|l| l.current_bytes),
        unevictable_bytes: levels.iter().find_map(|l| l.unevictable_bytes),
        levels,
    })
}

/// Processor time that the tightest level grants, in cores.
pub(crate) fn cpu_quota_cores(source: &Source) -> Option<f64> {
    let tree = Hierarchy::find(source, "cpu")?;
    tree.folders
        .iter()
        .filter_map(|folder| cpu_quota_of(source, tree.version, folder))
        .min_by(f64::total_cmp)
}

fn cpu_quota_of(source: &Source, version: u8, folder: &str) -> Option<f64> {
    let (quota_us, period_us) = if version == 2 {
        let text = source.text(&format!("{folder}/cpu.max"))?;
        let (quota, period) = text.trim().split_once(' ')?;
        (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
    } else {
        // A quota of -1 means none, and does not parse as a number without a sign.
        (
            source.number(&format!("{folder}/cpu.cfs_quota_us"))?,
            source.number(&format!("{folder}/cpu.cfs_period_us"))?,
        )
    };
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// Reads one level.
fn level(source: &Source, version: u8, folder: &str) -> CgroupLevel {
    let number = |file: &str| source.number(&format!("{folder}/{file}"));
    let stat = source
        .text(&format!("{folder}/memory.stat"))
        .unwrap_or_default();
    let path = printable(folder);
    if version == 2 {
        CgroupLevel {
            path,
            // The word `max` is no number, and so no limit.
            limit_bytes: number("memory.max"),
            high_bytes: number("memory.high"),
            current_bytes: number("memory.current"),
            inactive_file_bytes: stat_value(&stat, "inactive_file"),
            unevictable_bytes: stat_value(&stat, "unevictable"),
        }
    } else {
        CgroupLevel {
            path,
            limit_bytes: number("memory.limit_in_bytes").filter(|n| *n < V1_UNLIMITED_BYTES),
            high_bytes: None,
            current_bytes: number("memory.usage_in_bytes"),
            // The figures without `total_` leave out the groups below.
            inactive_file_bytes: stat_value(&stat, "total_inactive_file"),
            unevictable_bytes: stat_value(&stat, "total_unevictable"),
        }
    }
}

/// The number after a name in a file of lines such as `name 123`.
fn stat_value(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

/// Where the groups of one controller lie, from the process's own up to the mount point.
struct Hierarchy {
    version: u8,
    path: String,
    folders: Vec<String>,
}

impl Hierarchy {
    /// Finds the tree that a controller works in: a version 1 tree that names it, else version 2.
    /// A machine may have both, with each controller in one of them.
    fn find(source: &Source, controller: &str) -> Option<Self> {
        let groups = source.text("/proc/self/cgroup")?;
        let mounts = source.text("/proc/self/mountinfo").unwrap_or_default();
        let (version, path) = own_group(&groups, controller)?;
        let mounts: Vec<Mount> = mounts
            .lines()
            .filter_map(Mount::parse)
            .filter(|mount| mount.carries(version, controller))
            .collect();
        // A tree may be mounted at several places; take one that shows the process's group.
        let folders = mounts
            .iter()
            .find(|mount| mount.below(path).is_some())
            .or(mounts.first())
            .map(|mount| folders_up(&mount.point, mount.below(path).unwrap_or("")))
            .unwrap_or_default();
        Some(Hierarchy {
            version,
            path: path.to_owned(),
            folders,
        })
    }
}

/// Version and path of the process's group (`/proc/self/cgroup`, lines `id:controllers:path`).
fn own_group<'a>(groups: &'a str, controller: &str) -> Option<(u8, &'a str)> {
    let mut unified = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(names), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if !path.starts_with('/') {
            continue;
        }
        if names.split(',').any(|name| name == controller) {
            return Some((1, path));
        }
        if id == "0" && names.is_empty() {
            unified = Some((2, path));
        }
    }
    unified
}

/// Folders from the innermost group up to the mount point.
fn folders_up(point: &str, below: &str) -> Vec<String> {
    let point = point.trim_end_matches('/');
    let names: Vec<&str> = below.split('/').filter(|name| !name.is_empty()).collect();
    (0..=names.len())
        .rev()
        .take(DEPTH_MAX)
        .map(|depth| {
            let mut folder = point.to_owned();
            for name in &names[..depth] {
                folder.push('/');
                folder.push_str(name);
            }
            folder
        })
        .collect()
}

/// A line of `/proc/self/mountinfo` (kernel documentation, `filesystems/proc`, section 3.5).
struct Mount {
    root: String,
    point: String,
    kind: String,
    options: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        // Optional fields of any number end at a lone hyphen.
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        Some(Mount {
            root: unescape(before.next()?),
            point: unescape(before.next()?),
            kind: after.next()?.to_owned(),
            options: after.nth(1)?.to_owned(),
        })
    }

    /// True for a mount of the controller's tree.
    fn carries(&self, version: u8, controller: &str) -> bool {
        match version {
            2 => self.kind == "cgroup2",
            _ => self.kind == "cgroup" && self.options.split(',').any(|name| name == controller),
        }
    }

    /// The part of a group's path that lies below this mount; `None` for a group that it does not
    /// show, such as one outside the process's namespace.
    fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path.strip_prefix(self.root.trim_end_matches('/'))?;
        let whole = rest.is_empty() || rest.starts_with('/');
        let climbs = rest.split('/').any(|name| name == "..");
        (whole && !climbs).then_some(rest)
    }
}

/// Undoes the octal escapes that the kernel writes for space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, plain)| {
        text.replace(code, plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_of_version_1_wins_over_the_unified_tree() {
        let hybrid = "4:memory:/a\n2:cpu,cpuacct:/b\n0::/c\n";
        assert_eq!(own_group(hybrid, "memory"), Some((1, "/a")));
        assert_eq!(own_group(hybrid, "cpu"), Some((1, "/b")));
        assert_eq!(own_group(hybrid, "io"), Some((2, "/c")));
        assert_eq!(own_group("1:name=systemd:/\n", "memory"), None);
        // A path may hold colons.
        assert_eq!(own_group("0::/a:b\n", "memory"), Some((2, "/a:b")));
    }

    #[test]
    fn a_mount_line_is_taken_apart() {
        let line = "36 35 98:0 /a\\040b /sys/fs/c rw shared:1 master:2 - cgroup none rw,memory";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(
            (mount.root.as_str(), mount.point.as_str()),
            ("/a b", "/sys/fs/c")
        );
        assert!(mount.carries(1, "memory"));
        assert!(!mount.carries(1, "cpu"));
        assert!(!mount.carries(2, "memory"));
        assert!(Mount::parse("36 35 98:0 / /x rw cgroup none rw").is_none());
    }

    #[test]
    fn only_groups_below_the_mounts_root_are_shown() {
        let mount = |root: &str| Mount {
            root: root.to_owned(),
            point: "/m".to_owned(),
            kind: "cgroup2".to_owned(),
            options: String::new(),
        };
        assert_eq!(mount("/").below("/a/b"), Some("/a/b"));
        assert_eq!(mount("/a").below("/a/b"), Some("/b"));
        assert_eq!(mount("/a").below("/a"), Some(""));
        assert_eq!(mount("/a").below("/ab"), None);
        assert_eq!(mount("/").below("/../x"), None);
    }

    #[test]
    fn the_walk_goes_up_to_the_mount_point_and_is_bounded() {
        assert_eq!(folders_up("/m/", "/a//b"), ["/m/a/b", "/m/a", "/m"]);
        assert_eq!(folders_up("/m", ""), ["/m"]);
        assert_eq!(folders_up("/m", &"/a".repeat(1000)).len(), DEPTH_MAX);
    }
}
