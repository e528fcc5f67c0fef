//! Misuse that does not compile: a page to read, and tests.
//!
//! Each mistake stands beside the program that differs from it only in being right, so that the
//! mistake is known to fail for its own sake.
//!
//! # Reading memory that may be write-combined
//!
//! [`UploadBuffer`](crate::UploadBuffer) has no way to read it; exchange memory has. Right:
//!
//! ```
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let buffer = memory.exchange::<f32>(10)?;
//! let first = buffer[0];
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0608):
//!
//! ```compile_fail,E0608
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let buffer = memory.upload::<f32>(10)?;
//! let first = buffer[0];
//! # Ok(())
//! # }
//! ```
//!
//! # Touching a buffer in flight
//!
//! The copy took it over. [`InFlight::wait`](crate::InFlight::wait) gives it back. Right:
//!
//! ```
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let mut on_device = memory.device::<f32>(10)?;
//! let mut buffer = memory.upload::<f32>(10)?;
//! let flight = stream.upload(buffer, &mut on_device)?;
//! let mut buffer = flight.wait()?;
//! buffer.write(0, &[1.0])?;
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0382):
//!
//! ```compile_fail,E0382
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let mut on_device = memory.device::<f32>(10)?;
//! let mut buffer = memory.upload::<f32>(10)?;
//! let flight = stream.upload(buffer, &mut on_device)?;
//! buffer.write(0, &[1.0])?;
//! # Ok(())
//! # }
//! ```
//!
//! # Reading a result before it is there
//!
//! A handle shows none of its elements. Right:
//!
//! ```
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let on_device = memory.device::<f32>(10)?;
//! let flight = stream.download(&on_device, memory.download::<f32>(10)?)?;
//! let first = flight.wait()?.as_slice()[0];
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0599):
//!
//! ```compile_fail,E0599
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let on_device = memory.device::<f32>(10)?;
//! let flight = stream.download(&on_device, memory.download::<f32>(10)?)?;
//! let first = flight.as_slice()[0];
//! # Ok(())
//! # }
//! ```
//!
//! # Giving a host pointer to a kernel
//!
//! Kernels take buffers, which know what the device calls them. Right:
//!
//! ```
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let lent = memory.zero_copy::<f32>(10)?.lend();
//! let args = Args::new().reads(&lent);
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0277):
//!
//! ```compile_fail,E0277
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let buffer = memory.zero_copy::<f32>(10)?;
//! let pointer: *const f32 = buffer.as_slice().as_ptr();
//! let args = Args::new().reads(&pointer);
//! # Ok(())
//! # }
//! ```
//!
//! # Lending a buffer while the host holds a slice of it
//!
//! Right:
//!
//! ```
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let mut buffer = memory.zero_copy::<f32>(10)?;
//! let slice = buffer.as_mut_slice();
//! slice[0] = 1.0;
//! let lent = buffer.lend();
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0505):
//!
//! ```compile_fail,E0505
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let mut buffer = memory.zero_copy::<f32>(10)?;
//! let slice = buffer.as_mut_slice();
//! let lent = buffer.lend();
//! slice[0] = 1.0;
//! # Ok(())
//! # }
//! ```
//!
//! # Writing device memory through a shared borrow
//!
//! What a kernel writes is borrowed exclusively. Right:
//!
//! ```
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let mut on_device = memory.device::<f32>(10)?;
//! let args = Args::new().writes(&mut on_device);
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0308):
//!
//! ```compile_fail,E0308
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let mut on_device = memory.device::<f32>(10)?;
//! let args = Args::new().writes(&on_device);
//! # Ok(())
//! # }
//! ```
//!
//! # Giving one buffer to a kernel twice, once to be written
//!
//! Right:
//!
//! ```
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let mut first = memory.device::<f32>(10)?;
//! let mut second = memory.device::<f32>(10)?;
//! let args = Args::new().reads(&first).writes(&mut second);
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0502):
//!
//! ```compile_fail,E0502
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let mut first = memory.device::<f32>(10)?;
//! let mut second = memory.device::<f32>(10)?;
//! let args = Args::new().reads(&first).writes(&mut first);
//! # Ok(())
//! # }
//! ```
//!
//! # Elements that are not valid for every bit pattern
//!
//! A device may write any bits. Right:
//!
//! ```
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let flags = memory.download::<u8>(10)?;
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0277):
//!
//! ```compile_fail,E0277
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let flags = memory.download::<bool>(10)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Keeping a buffer over a borrowed slice beyond its scope
//!
//! Right:
//!
//! ```
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let mut data = [0u8; 10];
//! let mut kept = None;
//! memory.with_registered(&mut data, |buffer| kept = Some(buffer.len()))?;
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0521):
//!
//! ```compile_fail,E0521
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! let mut data = [0u8; 10];
//! let mut kept = None;
//! memory.with_registered(&mut data, |buffer| kept = Some(buffer))?;
//! # Ok(())
//! # }
//! ```
//!
//! # Using one stream from two threads at once
//!
//! A stream may move to another thread, but not be shared. Right:
//!
//! ```
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! std::thread::scope(|scope| {
//!     scope.spawn(move || stream.synchronize());
//! });
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0277):
//!
//! ```compile_fail,E0277
//! # use pinfold::{Args, DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! std::thread::scope(|scope| {
//!     scope.spawn(|| stream.synchronize());
//! });
//! # Ok(())
//! # }
//! ```
//!
//! # Publishing into one cell from two threads
//!
//! A kernel that publishes writes the cell, so launching it takes the cell mutably. Right:
//!
//! ```
//! # use pinfold::kernels::dot::Dot;
//! # use pinfold::{DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let ones = memory.upload_in_place::<f32>(8)?.lend();
//! let mut cells = [memory.scalar_cell()?, memory.scalar_cell()?];
//! let [first, second] = &mut cells;
//! std::thread::scope(|scope| {
//!     for cell in [first, second] {
//!         let (memory, device, ones) = (&memory, &device, &ones);
//!         scope.spawn(move || -> Result<(), pinfold::Error> {
//!             let stream = device.stream()?;
//!             let mut dot = Dot::load(memory, &stream)?;
//!             dot.run(&stream, ones, ones, cell).map(drop)
//!         });
//!     }
//! });
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0499):
//!
//! ```compile_fail,E0499
//! # use pinfold::kernels::dot::Dot;
//! # use pinfold::{DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let ones = memory.upload_in_place::<f32>(8)?.lend();
//! let mut cells = [memory.scalar_cell()?, memory.scalar_cell()?];
//! let [first, second] = &mut cells;
//! std::thread::scope(|scope| {
//!     for cell in [first, &mut cells[0]] {
//!         let (memory, device, ones) = (&memory, &device, &ones);
//!         scope.spawn(move || -> Result<(), pinfold::Error> {
//!             let stream = device.stream()?;
//!             let mut dot = Dot::load(memory, &stream)?;
//!             dot.run(&stream, ones, ones, cell).map(drop)
//!         });
//!     }
//! });
//! # Ok(())
//! # }
//! ```
//!
//! # Launching a graph while the host has its buffers
//!
//! [`Graph::host`](crate::Graph::host) lends them, and a launch needs them back. Right:
//!
//! ```
//! # use pinfold::{DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! # let (up, mut on_device) = (memory.upload::<f32>(10)?, memory.device::<f32>(10)?);
//! let mut graph = device.capture(|recorder| Ok(recorder.upload(up, &mut on_device)?))?;
//! let up = graph.host()?;
//! up.write(0, &[1.0])?;
//! graph.launch(&stream)?;
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0499):
//!
//! ```compile_fail,E0499
//! # use pinfold::{DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! # let (up, mut on_device) = (memory.upload::<f32>(10)?, memory.device::<f32>(10)?);
//! let mut graph = device.capture(|recorder| Ok(recorder.upload(up, &mut on_device)?))?;
//! let up = graph.host()?;
//! graph.launch(&stream)?;
//! up.write(0, &[1.0])?;
//! # Ok(())
//! # }
//! ```
//!
//! # Keeping the stream of a capture
//!
//! Work on it would be recorded for a graph that is there already. Right:
//!
//! ```
//! # use pinfold::{DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! # let (up, mut on_device) = (memory.upload::<f32>(10)?, memory.device::<f32>(10)?);
//! let mut recorded = false;
//! let graph = device.capture(|recorder| {
//!     recorded = true;
//!     recorder.fill(&mut on_device, 0)
//! })?;
//! # assert!(recorded);
//! # Ok(())
//! # }
//! ```
//!
//! Wrong (E0521):
//!
//! ```compile_fail,E0521
//! # use pinfold::{DeviceChoice, Memory};
//! # fn main() -> Result<(), pinfold::Error> {
//! # let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! # let memory = Memory::new(&device);
//! # let stream = device.stream()?;
//! # let (up, mut on_device) = (memory.upload::<f32>(10)?, memory.device::<f32>(10)?);
//! let mut kept = None;
//! let graph = device.capture(|recorder| {
//!     kept = Some(recorder);
//!     recorder.fill(&mut on_device, 0)
//! })?;
//! # Ok(())
//! # }
//! ```
