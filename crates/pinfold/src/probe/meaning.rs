//! What a device's facts mean for host memory: the table of `topics`, and what needs figures.

use super::topics::TOPICS;
use pinfold_hal::{DeviceInfo, PcieLink};
use pinfold_machine::Level;
use serde::Serialize;

/// One fact about a device and what it means for host memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceFinding {
    /// Stable name for scripts.
    pub code: &'static str,
    /// How much it matters.
    pub level: Level,
    /// The finding in a few words.
    pub title: &'static str,
    /// What it means, with figures where there are some.
    pub meaning: String,
    /// What to do about it, where there is something.
    pub advice: Option<&'static str>,
}

/// What a device's facts mean for host memory: warnings first, then notes, then the rest.
/// `host_nodes` is how many NUMA nodes its host has, 0 where that is not known.
///
/// Codes: those of the table of capabilities, and `async-engines-none`, `async-engines-one`,
/// `async-engines-several`, `pcie-link`, `pcie-slower-now`, `pcie-unknown`, `numa-node`,
/// `numa-node-unknown`.
pub fn meanings(info: &DeviceInfo, host_nodes: usize) -> Vec<DeviceFinding> {
    let capabilities = &info.capabilities;
    let mut found: Vec<DeviceFinding> = TOPICS
        .iter()
        .filter_map(|topic| topic.finding(capabilities))
        .collect();
    found.push(copy_engines(capabilities.async_engines));
    let link = info
        .link
        .filter(|link| link.generation_now > 0 && link.width_now > 0);
    // A device that shares the host's memory or is joined coherently to it need not have one.
    if link.is_some() || !(capabilities.integrated || capabilities.host_native_atomics) {
        found.push(pcie(link));
    }
    found.extend(numa(info.numa_node, host_nodes));
    found.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    found
}

fn copy_engines(count: u32) -> DeviceFinding {
    let (code, level, title, meaning, advice) = match count {
        0 => (
            "async-engines-none",
            Level::Note,
            "Copies do not overlap kernels",
            "The device has no copy engine: it copies or computes, one at a time.",
            Some("Where data is read once, let kernels read it in place."),
        ),
        1 => (
            "async-engines-one",
            Level::Info,
            "Copies overlap kernels, one direction at a time",
            "The device has one copy engine: uploads and downloads take turns.",
            None,
        ),
        _ => (
            "async-engines-several",
            Level::Info,
            "Copies overlap kernels in both directions",
            "The device has copy engines for uploads and downloads at once, from and to \
             page-locked memory. Copies of pageable memory hold the host up.",
            None,
        ),
    };
    DeviceFinding {
        code,
        level,
        title,
        meaning: meaning.to_owned(),
        advice,
    }
}

fn pcie(link: Option<PcieLink>) -> DeviceFinding {
    let at = |generation, width| {
        let gb_per_s = PcieLink::raw_bytes_per_s(generation, width) / 1e9;
        format!("PCIe {generation}.0 x{width} ({gb_per_s:.1} GB/s)")
    };
    let Some(link) = link else {
        return DeviceFinding {
            code: "pcie-unknown",
            level: Level::Info,
            title: "The link is not known",
            meaning: "The system does not tell how fast the PCI Express link is, as is usual in \
                      virtual machines."
                .to_owned(),
            advice: Some("Measure copies of page-locked memory: they reach what the link can."),
        };
    };
    let now = at(link.generation_now, link.width_now);
    if link.generation_now >= link.generation_max && link.width_now >= link.width_max {
        return DeviceFinding {
            code: "pcie-link",
            level: Level::Info,
            title: "The link runs at its full rate",
            meaning: format!("{now} each way, before the protocol's share."),
            advice: None,
        };
    }
    let most = at(link.generation_max, link.width_max);
    DeviceFinding {
        code: "pcie-slower-now",
        level: Level::Note,
        title: "The link is slower now than it can be",
        meaning: format!(
            "{now} now, {most} at most. It idles at a lower generation to save power, or the slot \
             is narrower."
        ),
        advice: Some("Measure under load."),
    }
}

fn numa(node: Option<u32>, host_nodes: usize) -> Option<DeviceFinding> {
    let finding = |code, level, title, meaning, advice| {
        Some(DeviceFinding {
            code,
            level,
            title,
            meaning,
            advice,
        })
    };
    match (node, host_nodes) {
        (Some(node), _) => finding(
            "numa-node",
            Level::Info,
            "The nearest memory is known",
            format!("The device hangs on NUMA node {node}."),
            None,
        ),
        (None, 2..) => finding(
            "numa-node-unknown",
            Level::Note,
            "The nearest memory is not known",
            format!(
                "The host has {host_nodes} NUMA nodes, and the system does not tell which one the \
                 device hangs on."
            ),
            Some("Measure from each node: numactl --cpunodebind=N --membind=N."),
        ),
        // With a single node, or none told of, there is no choice to make.
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_hal::Capabilities;

    /// A device like an H200 behind its full link.
    fn device() -> DeviceInfo {
        DeviceInfo {
            name: "made-up".into(),
            simulated: false,
            compute_capability: (9, 0),
            multiprocessors: 132,
            l2_bytes: 60 << 20,
            memory_bytes: 141 << 30,
            pci_address: None,
            numa_node: Some(0),
            link: Some(PcieLink {
                generation_now: 5,
                generation_max: 5,
                width_now: 16,
                width_max: 16,
            }),
            capabilities: Capabilities {
                unified_addressing: true,
                can_map_host_memory: true,
                host_register: true,
                host_register_read_only: true,
                host_pointer_for_registered: true,
                async_engines: 3,
                memory_pools: true,
                ipc_events: true,
                ..Capabilities::default()
            },
        }
    }

    fn codes(info: &DeviceInfo, host_nodes: usize) -> Vec<&'static str> {
        meanings(info, host_nodes).iter().map(|m| m.code).collect()
    }

    fn with(change: impl FnOnce(&mut DeviceInfo)) -> Vec<&'static str> {
        let mut info = device();
        change(&mut info);
        codes(&info, 1)
    }

    #[test]
    fn a_good_device_has_one_note_and_it_comes_first() {
        let found = meanings(&device(), 1);
        let notes: Vec<_> = found.iter().filter(|m| m.level > Level::Info).collect();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert_eq!(found[0].code, "native-atomics-none");
    }

    #[test]
    fn every_capability_changes_what_is_said() {
        let base = codes(&device(), 1);
        let changes: [fn(&mut Capabilities); 10] = [
            |c| c.unified_addressing ^= true,
            |c| c.can_map_host_memory ^= true,
            |c| c.host_register ^= true,
            |c| c.host_register_read_only ^= true,
            |c| c.host_pointer_for_registered ^= true,
            |c| c.pageable_memory_access ^= true,
            |c| c.host_native_atomics ^= true,
            |c| c.integrated ^= true,
            |c| c.memory_pools ^= true,
            |c| c.ipc_events ^= true,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert_ne!(
                with(|d| change(&mut d.capabilities)),
                base,
                "capability {number}"
            );
        }
    }

    #[test]
    fn codes_are_not_used_twice() {
        let has_all = with(|d| {
            let c = &mut d.capabilities;
            (
                c.pageable_memory_access,
                c.host_native_atomics,
                c.integrated,
            ) = (true, true, true);
        });
        let has_none = with(|d| d.capabilities = Capabilities::default());
        let all = [has_all, has_none].concat();
        let mut once = all.clone();
        once.sort_unstable();
        once.dedup();
        // Link and node do not depend on the capabilities, so both lists have them.
        assert_eq!(once.len() + 2, all.len(), "{all:?}");
    }

    #[test]
    fn without_registration_its_details_are_not_listed() {
        let found = with(|d| {
            d.capabilities.host_register = false;
            d.capabilities.host_register_read_only = false;
        });
        assert!(found.contains(&"registration-none"));
        assert!(
            !found
                .iter()
                .any(|c| c.starts_with("registration-read-only")),
            "{found:?}"
        );
        assert!(
            !found.iter().any(|c| c.starts_with("registered-address")),
            "{found:?}"
        );
    }

    #[test]
    fn copy_engines_are_told_apart() {
        for (count, code) in [
            (0, "async-engines-none"),
            (1, "async-engines-one"),
            (2, "async-engines-several"),
            (7, "async-engines-several"),
        ] {
            assert!(
                with(|d| d.capabilities.async_engines = count).contains(&code),
                "{count}"
            );
        }
    }

    #[test]
    fn a_link_below_its_most_is_a_note_with_both_figures() {
        let mut info = device();
        info.link = Some(PcieLink {
            generation_now: 1,
            generation_max: 4,
            width_now: 8,
            width_max: 16,
        });
        let found = meanings(&info, 1);
        let slower = found.iter().find(|m| m.code == "pcie-slower-now").unwrap();
        assert_eq!(slower.level, Level::Note);
        assert!(
            slower.meaning.contains("PCIe 1.0 x8 (2.0 GB/s) now"),
            "{}",
            slower.meaning
        );
        assert!(
            slower.meaning.contains("PCIe 4.0 x16 (31.5 GB/s) at most"),
            "{}",
            slower.meaning
        );
    }

    #[test]
    fn an_unknown_link_matters_only_where_there_is_one() {
        assert!(with(|d| d.link = None).contains(&"pcie-unknown"));
        let integrated = with(|d| {
            d.link = None;
            d.capabilities.integrated = true;
        });
        assert!(
            !integrated.iter().any(|c| c.starts_with("pcie")),
            "{integrated:?}"
        );
    }

    #[test]
    fn an_unknown_node_matters_only_where_there_are_several() {
        let mut info = device();
        assert!(codes(&info, 2).contains(&"numa-node"));
        info.numa_node = None;
        assert!(codes(&info, 2).contains(&"numa-node-unknown"));
        assert!(!codes(&info, 1).iter().any(|c| c.starts_with("numa")));
        assert!(!codes(&info, 0).iter().any(|c| c.starts_with("numa")));
    }
}
