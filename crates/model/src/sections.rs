//! The sections of a profile, as they stand in its TOML file.

use crate::{Quantity, RateTable, RowTable, Source};
use serde::{Deserialize, Serialize};

/// How large a quantity may be: a `cost` may be zero, a `rate` may not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Cost,
    Rate,
}

macro_rules! bound {
    (cost) => {
        Bound::Cost
    };
    (rate) => {
        Bound::Rate
    };
}

macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $bound:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$field_doc])* pub $field: Quantity,)* }

        impl $name {
            pub(crate) fn list(&self) -> Vec<(&'static str, Quantity, Bound)> {
                vec![$((stringify!($field), self.$field, bound!($bound)),)*]
            }

            /// Marks every number as assumed.
            pub(crate) fn assume(&mut self) {
                $(self.$field.source = Source::Assumed;)*
            }
        }
    };
}

section! {
    /// What driver calls cost, in nanoseconds of the host unless said otherwise.
    Calls {
        /// A kernel launch call.
        launch_call_ns: cost,
        /// From the return of a launch call to the kernel's first instruction.
        launch_start_ns: cost,
        /// The shortest time that a kernel takes on the device.
        kernel_floor_ns: cost,
        /// From the end of work on the device to the return of a call that waits for it.
        sync_return_ns: cost,
        /// A copy call.
        copy_call_ns: cost,
        /// From the return of a copy call to the first byte, host to device.
        copy_to_device_start_ns: cost,
        /// From the return of a copy call to the first byte, device to host.
        copy_to_host_start_ns: cost,
        /// What a copy to the device saves of its start where it is small enough to travel inside
        /// the command itself.
        small_copy_saving_ns: cost,
        /// The largest such copy, in bytes.
        small_copy_bytes: cost,
        /// Recording an event.
        event_record_ns: cost,
        /// Querying an event or a stream.
        event_query_ns: cost,
        /// Making a stream wait for an event.
        event_wait_ns: cost,
        /// Enqueueing a host callback.
        callback_call_ns: cost,
        /// From the callback's turn to its first instruction.
        callback_start_ns: cost,
        /// Making or destroying a stream or an event.
        object_ns: cost,
        /// Loading a module.
        module_load_ns: cost,
        /// Launching a graph, beside its work.
        graph_launch_ns: cost,
        /// Making a device usable for the first time.
        context_open_ns: cost,
    }
}

section! {
    /// What it costs to get and give back memory.
    Allocation {
        /// Page-locked allocation.
        host_alloc_fixed_ns: cost,
        /// Page-locked allocation, for each byte.
        host_alloc_ns_per_byte: cost,
        /// Write-combined allocation.
        write_combined_alloc_fixed_ns: cost,
        /// Write-combined allocation, for each byte.
        write_combined_alloc_ns_per_byte: cost,
        /// Freeing either.
        host_free_fixed_ns: cost,
        /// Freeing either, for each byte.
        host_free_ns_per_byte: cost,
        /// Registering memory that has been touched.
        register_fixed_ns: cost,
        /// Registering memory that has been touched, for each byte.
        register_ns_per_byte: cost,
        /// Unregistering.
        unregister_fixed_ns: cost,
        /// Unregistering, for each byte.
        unregister_ns_per_byte: cost,
        /// Allocating device memory.
        device_alloc_ns: cost,
        /// Freeing device memory.
        device_free_ns: cost,
    }
}

section! {
    /// How fast one host thread works on memory, in bytes a second.
    HostRates {
        /// Writing ordinary or page-locked memory.
        write_page_locked_bytes_per_s: rate,
        /// Writing write-combined memory.
        write_write_combined_bytes_per_s: rate,
        /// Reading ordinary or page-locked memory.
        read_page_locked_bytes_per_s: rate,
        /// Reading write-combined memory.
        read_write_combined_bytes_per_s: rate,
    }
}

section! {
    /// Host threads that carry ordinary memory through page-locked slots.
    Staging {
        /// What one thread copies between ordinary memory and a page-locked slot.
        thread_bytes_per_s: rate,
        /// From handing work to sleeping threads until they are at it.
        wake_ns: cost,
    }
}

section! {
    /// How fast the link is, in bytes a second.
    Link {
        /// Host to device, page-locked.
        to_device_bytes_per_s: rate,
        /// Device to host, page-locked.
        to_host_bytes_per_s: rate,
        /// Host to device, write-combined.
        write_combined_to_device_bytes_per_s: rate,
        /// Device to host, write-combined.
        write_combined_to_host_bytes_per_s: rate,
        /// Both directions at once, in all.
        both_directions_bytes_per_s: rate,
        /// Device to another device.
        peer_bytes_per_s: rate,
    }
}

section! {
    /// How fast kernels reach memory.
    Kernel {
        /// Device memory, in order, in bytes a second.
        device_memory_bytes_per_s: rate,
        /// Device memory without order, in bytes of whole 32-byte sectors a second.
        device_random_sector_bytes_per_s: rate,
        /// Host memory read in place, in order, in bytes a second.
        zero_copy_read_bytes_per_s: rate,
        /// Host memory written in place, in order, in bytes a second.
        zero_copy_write_bytes_per_s: rate,
        /// From a load of host memory to its value.
        zero_copy_latency_ns: cost,
    }
}

/// The host. `source` says where the facts of this section come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Where the facts come from.
    #[serde(default)]
    pub source: Source,
    /// Number of NUMA nodes.
    pub numa_nodes: u32,
    /// Memory in all.
    pub memory_bytes: u64,
    /// Whether write-combined memory differs at all: a hypervisor may ignore the request.
    pub write_combining_is_real: bool,
}

/// One device. `source` says where the facts of this section come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The product's name.
    pub name: String,
    /// Where the facts come from.
    #[serde(default)]
    pub source: Source,
    /// NUMA node that the device hangs on.
    pub numa_node: u32,
    /// Device memory in all.
    pub memory_bytes: u64,
    /// Major and minor compute capability.
    pub compute_capability: [u32; 2],
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Size of the level-2 cache.
    pub l2_bytes: u64,
    /// PCI Express generation; 0 where the device hangs on something else.
    pub pcie_generation: u32,
    /// PCI Express lanes.
    pub pcie_width: u32,
    /// What it can do.
    pub capabilities: DeviceCapabilities,
}

/// What a device can do with host memory. A key that is left out is false, or zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceCapabilities {
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

/// Curves: rates that depend on sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    /// Copies from pageable memory, with call and wait, by size.
    pub pageable_to_device: RateTable,
    /// Copies to pageable memory, with call and wait, by size.
    pub pageable_to_host: RateTable,
    /// Kernels that read 4-byte elements of host memory in place, by the distance of two elements.
    pub zero_copy_strided: RateTable,
    /// Kernels that read rows of host memory in place without order.
    pub zero_copy_rows: RowTable,
}

/// Limits of page-locking; a limit that is left out does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Most bytes that one call can register.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_bytes: Option<u64>,
    /// Most page-locked bytes in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_bytes: Option<u64>,
}
