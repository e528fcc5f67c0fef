//! What a GPU driver can do, as plain operations on opaque ids.
//!
//! # The contract
//!
//! Two backends implement [`Driver`]: `pinfold-hal-cuda` over a real libcuda, and
//! `pinfold-hal-sim`, a deterministic simulation. Everything above holds an `Arc<dyn Driver>` and
//! cannot tell them apart, except by [`BackendInfo::simulated`], which every report has to repeat.
//!
//! **Who validates what.** This layer does not protect anybody. The `pinfold` crate above checks
//! lengths, alignment, ownership and life time *before* it calls; a backend passes on what it is
//! given and reports what the driver says. The operations that can corrupt memory when a caller
//! breaks the rules are `unsafe fn`, and each one names the rules. The simulator checks more than a
//! real driver does, and reports broken rules as errors or as [`Hazard`]s where a real driver would
//! stay silent, so that tests can show that the layer above never breaks them.
//!
//! **The words used below.** A *host address* ([`HostAddr`]) is an address in this process. A
//! *device address* ([`DeviceAddr`]) is what a kernel may be given. They are different types even
//! though most machines use the same number for both: on some they differ, and a host
//! address must then never reach a kernel. The only ways to get a device address are
//! [`MemoryOps::device_alloc`] and [`MemoryOps::device_address`].
//!
//! **Ids carry their device.** Streams, events, modules and functions are a device number and a raw
//! handle. A backend needs no table to find the context that a call belongs to, so no lock either.
//!
//! **Order and effect.** Operations enqueued on one stream take effect in order. Between streams
//! only events, and the rule of the legacy default stream, give an order. An operation may take
//! effect at any time between the call that enqueues it and the return of a call that waits for
//! it. A caller may not touch (read, write or free) memory that an enqueued operation uses until
//! it has waited.
//!
//! **Errors** are values ([`DriverError`]): a code with the number that CUDA gives it, the call,
//! and what the backend can add. A failed call leaves nothing behind: no allocation, no
//! registration, no enqueued operation. Work that fails *after* it was enqueued (a kernel that
//! faults) is reported by a later call on the same device, and by every call after it: such codes
//! are [sticky](ErrorCode::is_sticky), the device's context is lost, and the device no longer
//! touches memory.
//!
//! **Threads.** Every method may be called from any thread. A backend keeps the caller's current
//! CUDA context as it found it. No method may be called from inside a host callback: what would
//! reach the driver from there is refused with `NotPermitted`.
//!
//! **Time.** [`BackendOps::now_ns`] is the clock to measure with: the wall clock on a real device,
//! virtual time on a simulated one. What the *host* does between two calls costs no virtual time
//! unless it is declared with [`BackendOps::host_work`].
//!
//! # Rooms
//!
//! [`backend`] devices, capabilities, clock · [`memory`] allocation and registration · [`stream`]
//! queues, copies and callbacks · [`event`] ordering and timing · [`module`] kernels, their launch
//! and their Rust twins · [`graph`] capture and replay · [`error`] codes. Both backends have files
//! of these same names, so that one teaches the other.

pub mod backend;
pub mod error;
pub mod event;
pub mod graph;
pub mod memory;
pub mod module;
pub mod stream;

pub use backend::{
    BackendInfo, BackendOps, Capabilities, DeviceId, DeviceInfo, Hazard, HostWork, PcieLink,
};
pub use error::{DriverError, ErrorCode, ParseErrorCodeError, Result};
pub use event::{EventFlags, EventId, EventOps, IpcEventHandle};
pub use graph::{CaptureStatus, GraphExecId, GraphId, GraphOps};
pub use memory::{DeviceAddr, HostAddr, HostAllocFlags, MemoryOps, RegisterFlags};
pub use module::{
    Access, FunctionId, Launch, LaunchArg, MemoryArg, ModuleId, ModuleImage, ModuleOps, Pattern,
    Scalar, Twin, TwinArg, TwinCall, TwinError,
};
pub use stream::{HostCallback, StreamId, StreamKind, StreamOps};

/// A GPU driver: all of the operation groups together, held as `Arc<dyn Driver>`.
///
/// Implemented for every type that implements the groups; there is nothing more to write.
pub trait Driver:
    BackendOps + MemoryOps + StreamOps + EventOps + ModuleOps + GraphOps + Send + Sync
{
}

impl<D> Driver for D where
    D: BackendOps + MemoryOps + StreamOps + EventOps + ModuleOps + GraphOps + Send + Sync + ?Sized
{
}
