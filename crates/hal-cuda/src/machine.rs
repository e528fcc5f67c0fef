//! What the operating system and NVML tell about a device: its link, its NUMA node, the driver's
//! release.

use crate::load::kernel_module_release;
use nvml_wrapper::Nvml;
use pinfold_hal::PcieLink;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The machine around the driver. Each answer is `None` where nobody tells.
#[derive(Debug)]
pub(crate) struct Machine {
    nvml: Option<Nvml>,
    /// The driver's release, such as `580.159.04`.
    pub(crate) release: Option<String>,
}

impl Machine {
    /// Starts NVML where there is one.
    pub(crate) fn ask() -> Self {
        // Drivers install the first name; the second comes with development packages only.
        let nvml = Nvml::builder()
            .lib_path(OsStr::new("libnvidia-ml.so.1"))
            .init()
            .or_else(|_| Nvml::init())
            .ok();
        let told = nvml.as_ref().and_then(|n| n.sys_driver_version().ok());
        Machine {
            release: told.or_else(kernel_module_release),
            nvml,
        }
    }

    /// The PCI Express link of the device at a PCI address: from NVML, else from sysfs.
    pub(crate) fn link(&self, pci_address: &str) -> Option<PcieLink> {
        self.link_from_nvml(pci_address)
            .or_else(|| link_from_sysfs(&device_folder(pci_address)))
    }

    fn link_from_nvml(&self, pci_address: &str) -> Option<PcieLink> {
        let device = self.nvml.as_ref()?.device_by_pci_bus_id(pci_address).ok()?;
        Some(PcieLink {
            generation_now: device.current_pcie_link_gen().ok()?,
            generation_max: device.max_pcie_link_gen().ok()?,
            width_now: device.current_pcie_link_width().ok()?,
            width_max: device.max_pcie_link_width().ok()?,
        })
    }
}

/// The NUMA node that the device at a PCI address hangs on.
pub(crate) fn numa_node(pci_address: &str) -> Option<u32> {
    let told = fs::read_to_string(Path::new(&device_folder(pci_address)).join("numa_node"));
    let online = fs::read_to_string("/sys/devices/system/node/online");
    judge_numa_node(told.ok().as_deref(), online.ok().as_deref())
}

/// The node where the system tells one; node 0 where it tells none and there is only that one.
fn judge_numa_node(told: Option<&str>, online: Option<&str>) -> Option<u32> {
    let node = told.and_then(|text| text.trim().parse().ok());
    node.or_else(|| (online?.trim() == "0").then_some(0))
}

/// The folder of a PCI device. The driver gives the address in either case, the kernel uses lower
/// case.
fn device_folder(pci_address: &str) -> String {
    format!("/sys/bus/pci/devices/{}", pci_address.to_ascii_lowercase())
}

fn link_from_sysfs(folder: &str) -> Option<PcieLink> {
    let read = |name: &str| fs::read_to_string(Path::new(folder).join(name)).ok();
    Some(PcieLink {
        generation_now: generation(&read("current_link_speed")?)?,
        generation_max: generation(&read("max_link_speed")?)?,
        width_now: read("current_link_width")?.trim().parse().ok()?,
        width_max: read("max_link_width")?.trim().parse().ok()?,
    })
}

/// The generation of a link by the speed that sysfs writes, such as `32.0 GT/s PCIe` (the rates are
/// those of the PCI Express base specification).
fn generation(speed: &str) -> Option<u32> {
    match speed.split_whitespace().next()? {
        "2.5" => Some(1),
        "5.0" | "5" => Some(2),
        "8.0" | "8" => Some(3),
        "16.0" | "16" => Some(4),
        "32.0" | "32" => Some(5),
        "64.0" | "64" => Some(6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysfs_speeds_become_generations() {
        assert_eq!(generation("2.5 GT/s PCIe\n"), Some(1));
        assert_eq!(generation("32.0 GT/s PCIe\n"), Some(5));
        assert_eq!(generation("Unknown\n"), None);
        assert_eq!(generation(""), None);
    }

    #[test]
    fn an_untold_node_is_zero_only_where_there_is_one_node() {
        assert_eq!(judge_numa_node(Some("1\n"), Some("0-1\n")), Some(1));
        assert_eq!(judge_numa_node(Some("-1\n"), Some("0-1\n")), None);
        assert_eq!(judge_numa_node(Some("-1\n"), Some("0\n")), Some(0));
        assert_eq!(judge_numa_node(None, None), None);
    }

    #[test]
    fn a_link_is_read_from_four_files() {
        let folder = std::env::temp_dir().join(format!("pinfold-link-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("current_link_speed"), "2.5 GT/s PCIe\n").unwrap();
        fs::write(folder.join("max_link_speed"), "32.0 GT/s PCIe\n").unwrap();
        fs::write(folder.join("current_link_width"), "8\n").unwrap();
        let text = folder.to_str().unwrap();
        assert_eq!(link_from_sysfs(text), None, "one file is absent");
        fs::write(folder.join("max_link_width"), "16\n").unwrap();
        let link = PcieLink {
            generation_now: 1,
            generation_max: 5,
            width_now: 8,
            width_max: 16,
        };
        assert_eq!(link_from_sysfs(text), Some(link));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn addresses_are_lower_case_in_sysfs() {
        assert_eq!(
            device_folder("0000:0A:00.0"),
            "/sys/bus/pci/devices/0000:0a:00.0"
        );
    }
}
