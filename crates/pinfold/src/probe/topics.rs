//! The wording for each capability of a device: what it means to have it, and what to lack it.

use super::meaning::DeviceFinding;
use pinfold_hal::Capabilities;
use pinfold_machine::Level;

/// What it means to have a capability, and what to lack it. `None`: nothing worth a word.
pub(super) struct Topic {
    has: fn(&Capabilities) -> bool,
    present: Option<Wording>,
    absent: Option<Wording>,
}

struct Wording {
    code: &'static str,
    level: Level,
    title: &'static str,
    meaning: &'static str,
    advice: Option<&'static str>,
}

impl Topic {
    /// What the topic says about a device; `None` where it is not worth a word.
    pub(super) fn finding(&self, capabilities: &Capabilities) -> Option<DeviceFinding> {
        let wording = if (self.has)(capabilities) {
            &self.present
        } else {
            &self.absent
        };
        wording.as_ref().map(|w| DeviceFinding {
            code: w.code,
            level: w.level,
            title: w.title,
            meaning: w.meaning.to_owned(),
            advice: w.advice,
        })
    }
}

const fn good(code: &'static str, title: &'static str, meaning: &'static str) -> Option<Wording> {
    Some(Wording {
        code,
        level: Level::Info,
        title,
        meaning,
        advice: None,
    })
}

const fn lacks(
    level: Level,
    code: &'static str,
    title: &'static str,
    meaning: &'static str,
    advice: &'static str,
) -> Option<Wording> {
    Some(Wording {
        code,
        level,
        title,
        meaning,
        advice: Some(advice),
    })
}

/// The capabilities that matter for host memory, in the order of reports. What each one promises
/// is said in the CUDA Driver API reference under `CUdevice_attribute`.
pub(super) static TOPICS: &[Topic] = &[
    Topic {
        has: |c| c.unified_addressing,
        present: good(
            "unified-addressing",
            "One address space for host and device",
            "An address tells by itself where it points. The driver lets kernels reach all \
             page-locked memory until it is freed; pinfold lets them where you asked for it.",
        ),
        absent: lacks(
            Level::Note,
            "unified-addressing-none",
            "Host and device have separate address spaces",
            "Kernels reach only page-locked memory that was mapped on purpose, under another \
             address.",
            "Ask for zero-copy buffers where kernels read in place: those are mapped.",
        ),
    },
    Topic {
        has: |c| c.can_map_host_memory,
        present: good(
            "mapping",
            "Kernels can work on host memory in place",
            "Mapped memory needs no copy: good for small data and for data that is read once, in \
             order. Every access crosses the link, so data that is read again belongs in a copy.",
        ),
        absent: lacks(
            Level::Warning,
            "mapping-none",
            "Kernels cannot reach host memory",
            "Zero-copy buffers cannot be had: every byte has to be copied.",
            "Use upload and download buffers.",
        ),
    },
    Topic {
        has: |c| c.host_register,
        present: good(
            "registration",
            "Existing memory can be page-locked",
            "A vector or a mapped file can be page-locked where it lies, instead of being copied \
             into a page-locked buffer first.",
        ),
        absent: lacks(
            Level::Note,
            "registration-none",
            "Existing memory cannot be page-locked",
            "Only memory that the driver allocates is page-locked.",
            "Produce data in pinfold's buffers from the start, to save a copy.",
        ),
    },
    Topic {
        // Without registration at all there is nothing to add.
        has: |c| c.host_register_read_only || !c.host_register,
        present: None,
        absent: lacks(
            Level::Info,
            "registration-read-only-none",
            "Read-only memory cannot be page-locked",
            "A file that is mapped for reading cannot be registered, memory that may be written \
             can.",
            "Read such files into an upload buffer.",
        ),
    },
    Topic {
        has: |c| c.host_register_read_only,
        present: good(
            "registration-read-only",
            "Read-only memory can be page-locked",
            "A file that is mapped for reading can be page-locked where it lies, and feed the \
             device from the page cache.",
        ),
        absent: None,
    },
    Topic {
        has: |c| c.host_pointer_for_registered || !c.host_register,
        present: None,
        absent: lacks(
            Level::Note,
            "registered-address-differs",
            "Registered memory has two addresses",
            "Kernels need the device address of registered memory; the host address faults.",
            "pinfold hands kernels the right one. Other code asks cuMemHostGetDevicePointer.",
        ),
    },
    Topic {
        has: |c| c.host_pointer_for_registered && c.host_register,
        present: good(
            "registered-address-equal",
            "Registered memory keeps its address on the device",
            "Kernels can use the host address of registered memory.",
        ),
        absent: None,
    },
    Topic {
        has: |c| c.pageable_memory_access,
        present: good(
            "pageable-access",
            "Kernels can read ordinary memory",
            "Memory need not be page-locked for kernels to reach it: address translation (ATS) or \
             page faults find it. Whether page-locking still pays is a matter of measuring.",
        ),
        absent: good(
            "pageable-access-none",
            "Kernels cannot read ordinary memory",
            "A kernel that is given pageable memory faults. Copies from it go through page-locked \
             memory of the driver, at a fraction of the link's rate.",
        ),
    },
    Topic {
        has: |c| c.host_native_atomics,
        present: good(
            "native-atomics",
            "Atomics are shared by host and device",
            "Atomic operations of kernels on host memory are atomic against those of the host.",
        ),
        absent: lacks(
            Level::Note,
            "native-atomics-none",
            "Atomics are not shared by host and device",
            "The link carries no atomic operations: what kernels and host do to the same word at \
             the same time is not promised to be atomic.",
            "Let one side write a word and the other one read it.",
        ),
    },
    Topic {
        has: |c| c.integrated,
        present: good(
            "integrated",
            "The device shares the host's memory",
            "A copy only moves bytes within the same memory. Mapped memory spares that, and all \
             of the data's second home.",
        ),
        absent: None,
    },
    Topic {
        has: |c| c.memory_pools,
        present: good(
            "memory-pools",
            "The driver pools memory in stream order",
            "Device memory can come and go in a stream's turn, without waiting for the device.",
        ),
        absent: lacks(
            Level::Note,
            "memory-pools-none",
            "The driver has no memory pools",
            "Freeing device memory waits for all work of the device.",
            "Allocate once and keep.",
        ),
    },
    Topic {
        has: |c| c.ipc_events,
        present: good(
            "ipc-events",
            "Other processes can wait for this device",
            "Events can be shared, so that processes hand page-locked buffers to each other \
             without stopping the device.",
        ),
        absent: lacks(
            Level::Info,
            "ipc-events-none",
            "Other processes cannot wait for this device",
            "Events cannot be shared between processes.",
            "Wait on the host before a buffer is handed to another process.",
        ),
    },
];
