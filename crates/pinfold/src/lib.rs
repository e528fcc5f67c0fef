//! Host memory for GPU programs, chosen by what it is for.
//!
//! Say what memory is for, and pinfold picks the kind, moves the data, and keeps host and device
//! from racing on it:
//!
//! ```
//! use pinfold::{DeviceChoice, Memory};
//!
//! # fn main() -> Result<(), pinfold::Error> {
//! // `auto` takes a real GPU where there is one; `sim` is a simulated one.
//! let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! let memory = Memory::new(&device);
//! let stream = device.stream()?;
//!
//! let mut input = memory.upload::<f32>(1000)?; //  the host writes, the device copies
//! input.write_each(|i| i as f32);
//! let mut on_device = memory.device::<f32>(1000)?;
//! let result = memory.download::<f32>(1000)?; //  the device copies into it, the host reads
//!
//! let input = stream.upload(input, &mut on_device)?; //  in flight: the host cannot touch it
//! let result = stream.download(&on_device, result)?;
//! let result = result.wait()?; //  and here it is back
//! assert_eq!(result[999], 999.0);
//! drop(input.wait()?);
//! # Ok(())
//! # }
//! ```
//!
//! # Rooms
//!
//! [`platform`] which backend, which devices · [`device`], [`stream`], [`event`] · [`buffer`] the
//! typed buffers and what "in flight" means, [`misuse`] what does not compile · [`memory`] from a
//! use to memory, with the reason · [`pool`] page-locked memory in nanoseconds · [`launch`] your
//! own kernels · [`kernels`] the built-in ones · [`graph`] work that is recorded once and launched
//! often · [`transfer`] the fastest way for ordinary memory and files · [`track`] who has what ·
//! [`measure`] what this machine's memory does · [`profiles`] what is known of machines · [`probe`]
//! what this machine is · [`error`] what can go wrong, and what to do.

pub mod buffer;
pub mod device;
mod element;
pub mod error;
pub mod event;
pub mod graph;
pub mod kernels;
pub mod launch;
pub mod measure;
pub mod memory;
pub mod misuse;
pub mod platform;
pub mod pool;
pub mod probe;
pub mod profiles;
mod registry;
pub mod stream;
pub mod track;
pub mod transfer;

pub use buffer::{
    DeviceBuffer, DownloadBuffer, ExchangeBuffer, InFlight, RegisteredBuffer, ScalarCell,
    UploadBuffer, ZeroCopyBuffer,
};
pub use device::Device;
pub use element::Element;
pub use error::{Bytes, Error, Refused, Result};
pub use event::{Event, EventKind};
pub use graph::Graph;
pub use launch::{Args, Kernel, Module, Shape};
pub use memory::{Memory, Placement};
pub use pinfold_hal as hal;
pub use pinfold_model::MemoryKind;
pub use platform::{DeviceChoice, Opened, Platform};
pub use stream::Stream;
