//! Processors, and how many of them this process may use.

use crate::cgroup;
use crate::source::{Source, field, printable};
use serde::{Serialize, Serializer};
use std::fmt;

/// Processors of the machine and of this process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// The model's name.
    pub model: Option<String>,
    /// Logical processors that are switched on.
    pub logical_cores: Option<u64>,
    /// Logical processors that this process may run on, by its affinity.
    pub allowed_cores: Option<u64>,
    /// Processor time a second that the control group grants, in cores; `None` without a limit.
    pub quota_cores: Option<f64>,
}

impl Cpu {
    /// How many threads can really run at once: the smallest of what is there, what the affinity
    /// allows and what the control group grants, and at least 1. `None` where none is known.
    pub fn usable_cores(&self) -> Option<u64> {
        let quota = self.quota_cores.map(|cores| cores.ceil() as u64);
        [self.logical_cores, self.allowed_cores, quota]
            .into_iter()
            .flatten()
            .min()
            .map(|cores| cores.max(1))
    }
}

/// A set of processors, such as `0-15,32-47`. Kept as ranges, so that its size in memory is that
/// of its text. Serialises as that text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList {
    ranges: Vec<(u32, u32)>,
}

impl CpuList {
    /// Reads the kernel's list format; `None` where the text is not in it. An empty text is an
    /// empty list: a NUMA node may have memory only.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Some(CpuList::default());
        }
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            let ascends = ranges.last().is_none_or(|before| before.1 < first);
            if first > last || !ascends {
                return None;
            }
            ranges.push((first, last));
        }
        Some(CpuList { ranges })
    }

    /// Number of processors.
    pub fn count(&self) -> u64 {
        self.ranges
            .iter()
            .map(|(first, last)| u64::from(last - first) + 1)
            .sum()
    }

    /// True for a processor of the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.ranges
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&cpu))
    }

    /// The processors' numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Processors.
pub(crate) fn read(source: &Source) -> Cpu {
    let count = |text: &str| {
        CpuList::parse(text)
            .map(|list| list.count())
            .filter(|n| *n > 0)
    };
    let online = source.text("/sys/devices/system/cpu/online");
    let status = source.text("/proc/self/status").unwrap_or_default();
    Cpu {
        model: source.text("/proc/cpuinfo").as_deref().and_then(model),
        logical_cores: online.as_deref().and_then(count),
        allowed_cores: field(&status, "Cpus_allowed_list").and_then(count),
        quota_cores: cgroup::cpu_quota_cores(source),
    }
}

/// The model's name. The kernel gives Arm processors by numbers only.
fn model(cpuinfo: &str) -> Option<String> {
    if let Some(name) = field(cpuinfo, "model name") {
        let name = printable(name);
        return (!name.is_empty()).then_some(name);
    }
    let implementer = field(cpuinfo, "CPU implementer")?;
    let part = field(cpuinfo, "CPU part")?;
    Some(printable(&format!(
        "Arm implementer {implementer} part {part}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_round_trip_and_count() {
        for (text, count) in [("", 0), ("0", 1), ("0-15,32-47", 32), ("0,2,4-5", 4)] {
            let list = CpuList::parse(text).unwrap();
            assert_eq!(list.to_string(), text);
            assert_eq!(list.count(), count);
            assert_eq!(list.iter().count() as u64, count);
            assert!(list.iter().all(|cpu| list.contains(cpu)));
        }
        assert_eq!(
            CpuList::parse("0-4294967295").map(|l| l.count()),
            Some(1 << 32)
        );
        assert!(!CpuList::parse("0-3,8").unwrap().contains(5));
    }

    #[test]
    fn what_is_not_a_list_is_none() {
        for text in [
            "x",
            "3-1",
            "0,",
            "-1",
            "0-1-2",
            "1,0",
            "0-4,4",
            "4294967296",
        ] {
            assert_eq!(CpuList::parse(text), None, "{text}");
        }
    }

    #[test]
    fn usable_cores_take_the_tightest_bound() {
        let cpu = Cpu {
            model: None,
            logical_cores: Some(64),
            allowed_cores: Some(16),
            quota_cores: Some(2.5),
        };
        assert_eq!(cpu.usable_cores(), Some(3));
        assert_eq!(Cpu::default().usable_cores(), None);
    }

    #[test]
    fn arm_processors_are_named_by_their_numbers() {
        let text = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";
        assert_eq!(
            model(text).as_deref(),
            Some("Arm implementer 0x41 part 0xd4f")
        );
    }
}
