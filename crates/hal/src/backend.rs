//! The machine: its devices, what they can do, and the clock to measure with.

use crate::Result;
use serde::Serialize;
use std::fmt;

/// A device by its number in the backend, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(transparent)]
pub struct DeviceId(pub u32);

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What stands behind the trait.
#[derive(Clone, Debug, Serialize)]
pub struct BackendInfo {
    /// `cuda` or `sim`.
    pub name: String,
    /// True for every number that does not come from real hardware.
    pub simulated: bool,
    /// The driver's CUDA version as `major * 1000 + minor * 10`, such as 13000.
    pub driver_version: u32,
    /// The driver's release, such as `580.159.04`, where it can be told.
    pub driver_release: Option<String>,
    /// Optional entry points that this driver lacks, by name.
    pub missing_symbols: Vec<String>,
}

/// What one device is.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceInfo {
    /// The name that labels results: `NVIDIA H200`, or `simulated h200`.
    pub name: String,
    /// True where the device is simulated.
    pub simulated: bool,
    /// Major and minor compute capability.
    pub compute_capability: (u32, u32),
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Size of the level-2 cache.
    pub l2_bytes: u64,
    /// Device memory in all.
    pub memory_bytes: u64,
    /// PCI address as `domain:bus:device.function`.
    pub pci_address: Option<String>,
    /// NUMA node of the host that the device hangs on, where the system tells.
    pub numa_node: Option<u32>,
    /// The PCI Express link, where it can be told.
    pub link: Option<PcieLink>,
    /// What matters for host memory.
    pub capabilities: Capabilities,
}

/// A PCI Express link: what it runs at now, and what both ends could do. An idle link often
/// drops to a lower generation to save power, so `now` is only telling under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PcieLink {
    /// Generation at this moment.
    pub generation_now: u32,
    /// Highest generation of device and slot together.
    pub generation_max: u32,
    /// Lanes at this moment.
    pub width_now: u32,
    /// Most lanes of device and slot together.
    pub width_max: u32,
}

impl PcieLink {
    /// Raw bandwidth in bytes a second after line coding, for one direction: 0.25, 0.5, 0.985,
    /// 1.969, 3.938 and 7.563 GB/s a lane for generations 1 to 6 (PCI Express base specification).
    pub fn raw_bytes_per_s(generation: u32, width: u32) -> f64 {
        let lane = match generation {
            0 => 0.0,
            1 => 0.25e9,
            2 => 0.5e9,
            3 => 8.0e9 / 8.0 * 128.0 / 130.0,
            4 => 16.0e9 / 8.0 * 128.0 / 130.0,
            5 => 32.0e9 / 8.0 * 128.0 / 130.0,
            _ => 64.0e9 / 8.0 * 242.0 / 256.0,
        };
        lane * f64::from(width)
    }
}

/// Device attributes that decide what host memory can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Host and device share one address space.
    pub unified_addressing: bool,
    /// Page-locked host memory can be mapped for kernels.
    pub can_map_host_memory: bool,
    /// Existing host memory can be registered.
    pub host_register: bool,
    /// Read-only host memory can be registered.
    pub host_register_read_only: bool,
    /// For registered memory the device address equals the host address.
    pub host_pointer_for_registered: bool,
    /// Kernels can read ordinary pageable memory.
    pub pageable_memory_access: bool,
    /// Managed memory may be used by host and device at once.
    pub concurrent_managed_access: bool,
    /// Atomics on host memory are atomic against the host too.
    pub host_native_atomics: bool,
    /// The device shares the host's DRAM.
    pub integrated: bool,
    /// Copy engines that work beside kernels.
    pub async_engines: u32,
    /// Stream-ordered memory pools.
    pub memory_pools: bool,
    /// Stream-ordered pools of host memory.
    pub host_memory_pools: bool,
    /// Events can be shared with another process.
    pub ipc_events: bool,
}

/// Something the host does between two calls, declared so that virtual time can account for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HostWork {
    /// The host wrote this many bytes of memory of the kind at the address.
    Write {
        /// Where.
        addr: crate::HostAddr,
        /// How much.
        bytes: u64,
    },
    /// The host read this many bytes of memory of the kind at the address.
    Read {
        /// Where.
        addr: crate::HostAddr,
        /// How much.
        bytes: u64,
    },
    /// One of several threads that work side by side copied this many bytes between ordinary and
    /// page-locked memory.
    Copy {
        /// How much.
        bytes: u64,
        /// How many threads are at it.
        threads: u32,
    },
    /// Sleeping threads were handed work, and are at it.
    Wake,
    /// Anything else that took this long on the host.
    Compute {
        /// How long, in nanoseconds.
        nanoseconds: u64,
    },
}

/// A broken rule that a real driver would not report: found by the simulator only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hazard {
    /// The call that broke the rule.
    pub call: String,
    /// What was wrong, with addresses.
    pub what: String,
}

/// Devices, capabilities and time.
pub trait BackendOps {
    /// What stands behind the trait. Cheap; never fails; creates nothing.
    fn info(&self) -> BackendInfo;

    /// Number of devices. Creates no context.
    fn device_count(&self) -> Result<u32>;

    /// What a device is. Creates no context.
    ///
    /// # Errors
    /// `InvalidDevice` for a number out of range.
    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo>;

    /// Makes a device usable: retains its primary context. Calls nest; each needs one
    /// [`close`](Self::close). Every other operation on a device that is not open fails with
    /// `InvalidContext`.
    fn open(&self, device: DeviceId) -> Result<()>;

    /// Gives up one [`open`](Self::open). The last one ends the context, and with it everything
    /// that was made in it.
    ///
    /// # Errors
    /// `InvalidContext` where the device is not open.
    ///
    /// # Safety
    /// The caller has waited for all work that it enqueued under this opening, and nothing that was
    /// opened, allocated, registered or made under it is used afterwards: no id, no address, and no
    /// reference into memory of [`host_alloc`](crate::MemoryOps::host_alloc).
    unsafe fn close(&self, device: DeviceId) -> Result<()>;

    /// Free and total device memory in bytes.
    fn device_memory(&self, device: DeviceId) -> Result<(u64, u64)>;

    /// Nanoseconds since some fixed moment, on the clock that results are measured with.
    fn now_ns(&self) -> u64;

    /// Declares work of the host between two calls. Costs nothing on a real device.
    fn host_work(&self, _work: HostWork) {}

    /// To be called inside a loop that polls mapped memory: yields on a real device, and lets
    /// virtual time go on to the next completion on a simulated one.
    fn pause(&self);

    /// Broken rules seen so far. Always empty on a real device.
    fn hazards(&self) -> Vec<Hazard> {
        Vec::new()
    }
}
