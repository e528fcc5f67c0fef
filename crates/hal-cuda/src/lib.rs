//! The operations of [`pinfold_hal::Driver`] over a real libcuda, loaded at run time.
//!
//! # How a call travels
//!
//! ```text
//!  Arc<dyn Driver>            memory.rs, stream.rs, ...: one short function for each operation
//!        │
//!        ▼
//!  Cuda::enter(device)        context.rs: the device's primary context becomes current; what the
//!        │                    caller had there comes back when the guard drops
//!        ▼
//!  Symbols.cuMemHostAlloc     load.rs: a function pointer, resolved once, at start-up
//!        │
//!        ▼
//!  Current::check(status)     error.rs: the driver's number becomes a `DriverError`
//! ```
//!
//! **Nothing is called that was not found.** cudarc describes libcuda and finds it; its own
//! wrappers resolve a symbol on first use and panic where it is absent. So [`Cuda::load`] asks
//! whether the library is there, resolves every entry point by name, and keeps the pointers. A
//! driver that lacks a needed one gives a [`LoadError`]; an optional one is listed in
//! [`BackendInfo::missing_symbols`](pinfold_hal::BackendInfo::missing_symbols), and the operations
//! that need it answer `NotSupported`.
//!
//! **Results are numbers.** A newer driver may answer with a code that cudarc's enum does not list,
//! and such a value of a Rust enum would be undefined behaviour. The table therefore declares every
//! result as a plain `u32`.
//!
//! **No lock on the way.** A device's context is an atomic pointer in a slice as long as the number
//! of devices. Only `open`, `close` and host callbacks take a lock, and each its own.
//!
//! **Contexts.** A device's *primary* context is used, so streams and memory of other code in
//! the process (the CUDA runtime, PyTorch, cudarc) work with it. A thread without a current context
//! keeps the one that a call made current; a thread that has a foreign one gets that back.
//!
//! # Rooms
//!
//! The file names are those of `pinfold-hal`, and of the simulator: `backend` · `memory` ·
//! `stream` · `event` · `module` · `graph` · `error`. Beside them: `load` the table of entry
//! points,
//! `context` the guard, `callback` host functions that wait for their turn, `machine` what the
//! operating system and NVML tell about a device.

mod backend;
mod callback;
mod context;
mod error;
mod event;
#[cfg(test)]
mod fake;
mod graph;
mod load;
mod machine;
mod memory;
mod module;
mod stream;

pub use context::Cuda;
pub use load::LoadError;
pub use module::LAUNCH_ARGS_MAX;
