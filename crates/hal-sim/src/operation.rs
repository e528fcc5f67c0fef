//! Operations: what is asked for, and what it means once its addresses are resolved.

use crate::address::DeviceSpan;
use crate::hazard::as_callback;
use crate::raw::{AlignedBytes, HostSpan};
use crate::schedule::{Resource, ps};
use pinfold_hal::{Access, DeviceAddr, DeviceId, HostCallback, LaunchArg, Scalar, Twin};
use pinfold_model::Profile;

/// Work as the program asks for it. A graph keeps it in this form.
#[derive(Clone)]
pub(crate) enum Request {
    ToDevice {
        to: DeviceAddr,
        from: HostSpan,
    },
    ToHost {
        to: HostSpan,
        from: DeviceAddr,
    },
    OnDevice {
        to: DeviceAddr,
        from: DeviceAddr,
        bytes: u64,
    },
    Fill {
        to: DeviceAddr,
        byte: u8,
        bytes: u64,
    },
    Kernel(KernelRequest),
}

/// A launch as the program asks for it.
#[derive(Clone)]
pub(crate) struct KernelRequest {
    pub(crate) module: u64,
    pub(crate) twin: Twin,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) args: Vec<LaunchArg>,
}

/// Where a copy to the device takes its bytes from.
pub(crate) enum HostSource {
    Span(HostSpan),
    /// They were read inside the call.
    Staged(Vec<u8>),
}

/// A kernel argument with its address resolved.
pub(crate) enum KernelArg {
    Device {
        span: DeviceSpan,
        write: bool,
    },
    Host {
        span: HostSpan,
        access: Access,
    },
    /// No bytes: whatever its address, nothing of it can be touched.
    Empty {
        write: bool,
    },
    Scalar(Scalar),
}

/// A launch with its addresses resolved.
pub(crate) struct Kernel {
    pub(crate) twin: Twin,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) args: Vec<KernelArg>,
}

/// What an operation does when it takes effect.
pub(crate) enum Work {
    /// Nothing: events and waits, and whatever is done.
    Mark,
    ToDevice {
        to: DeviceSpan,
        from: HostSource,
    },
    ToHost {
        to: HostSpan,
        from: DeviceSpan,
    },
    OnDevice {
        to: DeviceSpan,
        from: DeviceSpan,
    },
    Fill {
        to: DeviceSpan,
        byte: u8,
    },
    Kernel(Kernel),
    /// The kernel ran; what it wrote to host memory is still to be seen there.
    Commit(Vec<(HostSpan, AlignedBytes)>),
    /// A kernel that touches memory that it must not.
    Fault(String),
    Callback(HostCallback),
}

/// Work that is ready to be enqueued.
pub(crate) struct Prepared {
    pub(crate) work: Work,
    /// Host and device addresses that it touches; the two never meet.
    pub(crate) uses: Vec<(u64, u64)>,
    pub(crate) resource: Resource,
    pub(crate) start_ps: u64,
    pub(crate) busy_ps: u64,
    /// The module that its kernel is of.
    pub(crate) module: Option<u64>,
    /// The host waits for it inside the call.
    pub(crate) blocks_host: bool,
    /// Host memory that holds poison until the work takes effect.
    pub(crate) poisons: Option<HostSpan>,
}

/// An enqueued operation, kept until somebody has waited for it.
pub(crate) struct Operation {
    pub(crate) device: DeviceId,
    pub(crate) work: Work,
    /// Pieces of a torn copy still to be done, as offset and bytes, last one first.
    pub(crate) pieces: Option<Vec<(usize, usize)>>,
    /// Operations that come before it.
    pub(crate) after: Vec<u64>,
    pub(crate) uses: Vec<(u64, u64)>,
    pub(crate) module: Option<u64>,
    pub(crate) end_ps: u64,
}

impl Prepared {
    pub(crate) fn mark() -> Self {
        Prepared {
            work: Work::Mark,
            uses: Vec::new(),
            resource: Resource::None,
            start_ps: 0,
            busy_ps: 0,
            module: None,
            blocks_host: false,
            poisons: None,
        }
    }

    pub(crate) fn callback(profile: &Profile, callback: HostCallback) -> Self {
        Prepared {
            work: Work::Callback(callback),
            resource: Resource::Callback,
            start_ps: ps(profile.calls.callback_start_ns.value),
            ..Prepared::mark()
        }
    }
}

impl Operation {
    /// Drops the work undone: it uses no memory any more. What a callback holds is the program's,
    /// so it is dropped as a callback.
    pub(crate) fn discard(&mut self, clock_ps: u64) {
        let work = std::mem::replace(&mut self.work, Work::Mark);
        self.uses.clear();
        as_callback(clock_ps, || drop(work));
    }
}
