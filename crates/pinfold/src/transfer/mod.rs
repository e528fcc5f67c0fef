//! Moving data the fastest way this machine can.
//!
//! A [`Stream`](crate::Stream) copies between typed buffers. An [`Engine`] moves what lies
//! elsewhere: slices, vectors and files in ordinary memory, which the driver alone would carry at a
//! fraction of the link's rate.
//!
//! A transfer is cut into chunks ([`job`]). Each of several threads has a lane ([`lanes`]): a
//! stream and a few page-locked slots, which it fills while earlier slots are on the link
//! ([`staged`]). Small transfers are left to the driver: [`choose`] asks the cost model. A transfer
//! that owns its memory runs beside the caller ([`handle`]); [`file`] streams files; [`control`] is
//! how to watch one and stop it. [`rows`] fetches rows of a mapped table in the better order,
//! [`host_rows`] those of one in ordinary memory; [`pipeline`] works on chunks while others are on
//! their way.

mod choose;
pub mod control;
mod file;
mod handle;
mod host_rows;
mod job;
mod lanes;
mod pipeline;
mod rows;
mod staged;

pub use choose::{Path, PathReason, Way};
pub use control::{Control, Progress};
pub use file::FileRange;
pub use handle::{Begun, Ended, Transfer};
pub use pipeline::ChunkSizes;
pub use rows::{RowCarrier, RowOrder, RowReason};

use crate::buffer::DeviceBuffer;
use crate::buffer::raw::check_range;
use crate::device::Device;
use crate::element::Element;
use crate::error::Result;
use crate::memory::Memory;
use choose::Chooser;
use job::Job;
use lanes::Lanes;
use pinfold_model::{Direction, Profile};
use staged::{Place, fill_from, pour_into};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// How an engine works. The default suits one device on one link.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// Threads that carry data; `None` for as many as there are processors, at most 8: more gain
    /// nothing on any link that was measured.
    pub threads: Option<u32>,
    /// Bytes of a page-locked slot, from 64 KiB to 64 MiB.
    pub slot_bytes: u64,
    /// Slots of a thread, from 2 to 16.
    pub slots: u32,
    /// The way that every transfer goes; `None` lets the model decide for each.
    pub way: Option<Way>,
    /// What decides between ways; `None` for the shipped profile that is nearest to the device.
    pub profile: Option<Profile>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            threads: None,
            slot_bytes: 2 << 20,
            slots: 3,
            way: None,
            profile: None,
        }
    }
}

/// What a transfer did.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Bytes moved.
    pub bytes: u64,
    /// How.
    pub path: Path,
    /// Why that way.
    pub reason: PathReason,
}

/// Moves ordinary memory and files to and from one device. Cheap to clone; used from any thread.
///
/// Its threads, streams and page-locked slots are made by the first transfer that needs them, and
/// end with its last clone.
///
/// ```
/// use pinfold::{DeviceChoice, Memory, transfer::Engine};
///
/// # fn main() -> Result<(), pinfold::Error> {
/// let device = "sim".parse::<DeviceChoice>()?.open()?.device;
/// let memory = Memory::new(&device);
/// let engine = Engine::new(&memory, &device)?;
/// let data: Vec<f32> = (0..1_000_000).map(|i| i as f32).collect();
/// let mut on_device = memory.device(data.len())?;
/// let moved = engine.upload(&data, &mut on_device)?;
/// println!("{} by {}: {}", moved.bytes, moved.path, moved.reason);
/// let mut back = vec![0.0; data.len()];
/// engine.download(&on_device, &mut back)?;
/// assert_eq!(data, back);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    lanes: Lanes,
    chooser: Chooser,
    /// Transfers that run beside their callers.
    beside: AtomicUsize,
}

impl Engine {
    /// An engine for one of the memory's devices, with the default options.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`](crate::Error::UnknownDevice) for a device that is none of the
    /// memory's.
    pub fn new(memory: &Memory, device: &Device) -> Result<Self> {
        Self::with_options(memory, device, &EngineOptions::default())
    }

    /// An engine with these options; values out of range are brought into it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_options(memory: &Memory, device: &Device, options: &EngineOptions) -> Result<Self> {
        let lanes = Lanes::new(memory.near(device)?, device, options);
        let chooser = Chooser::new(device, options, lanes.count());
        Ok(Engine {
            inner: Arc::new(Inner {
                lanes,
                chooser,
                beside: AtomicUsize::new(0),
            }),
        })
    }

    /// The device that it serves.
    pub fn device(&self) -> &Device {
        self.inner.lanes.device()
    }

    /// Threads that it carries data with.
    pub fn threads(&self) -> u32 {
        self.inner.lanes.count()
    }

    /// Copies a slice of ordinary memory to a device buffer of the same length, and waits for it.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length),
    /// [`Error::WrongDevice`](crate::Error::WrongDevice), [`Error::HostMemory`] where no slots
    /// could be had, and what the device failed with. The device buffer's content is not specified
    /// after an error.
    ///
    /// [`Error::HostMemory`]: crate::Error::HostMemory
    pub fn upload<T: Element>(&self, from: &[T], to: &mut DeviceBuffer<T>) -> Result<Moved> {
        crate::error::same_length("upload target", to.len(), from.len())?;
        self.upload_part(from, to, 0, &Control::new())
    }

    /// Copies a slice of ordinary memory to a place in a device buffer; `control` watches it and
    /// may stop it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange),
    /// [`Error::Cancelled`](crate::Error::Cancelled), and as [`upload`](Self::upload).
    pub fn upload_part<T: Element>(
        &self,
        from: &[T],
        to: &mut DeviceBuffer<T>,
        at: usize,
        control: &Control,
    ) -> Result<Moved> {
        check_range(&(at..at.saturating_add(from.len())), to.len())?;
        let bytes: &[u8] = bytemuck::cast_slice(from);
        let place = Place::new::<T>(to.block(), self.device(), at)?;
        let (path, reason) = self.choose(Direction::ToDevice, bytes);
        match path {
            Path::Driver | Path::Direct => {
                self.inner.lanes.driver_upload(bytes, &place, control)?
            }
            Path::Staged { chunk_bytes, .. } => {
                let job = Job::new(bytes.len() as u64, chunk_bytes, control);
                self.inner
                    .lanes
                    .upload(&job, &place, &|at, slot| fill_from(bytes, at, slot))?;
            }
        }
        Ok(Moved {
            bytes: bytes.len() as u64,
            path,
            reason,
        })
    }

    /// Copies a device buffer to a slice of ordinary memory of the same length, and waits for it.
    ///
    /// # Errors
    /// As [`upload`](Self::upload); the slice's content is not specified after an error.
    pub fn download<T: Element>(&self, from: &DeviceBuffer<T>, to: &mut [T]) -> Result<Moved> {
        crate::error::same_length("download target", to.len(), from.len())?;
        self.download_part(from, 0, to, &Control::new())
    }

    /// Copies a part of a device buffer to a slice of ordinary memory; `control` watches it and may
    /// stop it.
    ///
    /// # Errors
    /// As [`upload_part`](Self::upload_part).
    pub fn download_part<T: Element>(
        &self,
        from: &DeviceBuffer<T>,
        at: usize,
        to: &mut [T],
        control: &Control,
    ) -> Result<Moved> {
        check_range(&(at..at.saturating_add(to.len())), from.len())?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(to);
        let total = bytes.len();
        let place = Place::new::<T>(from.block(), self.device(), at)?;
        let (path, reason) = self.choose(Direction::ToHost, bytes);
        match path {
            Path::Driver | Path::Direct => {
                self.inner.lanes.driver_download(bytes, &place, control)?
            }
            Path::Staged { chunk_bytes, .. } => {
                let job = Job::new(total as u64, chunk_bytes, control);
                let parts = pour_into(bytes, chunk_bytes);
                self.inner
                    .lanes
                    .download(&job, &place, &|at, slot| parts.pour(at, slot))?;
            }
        }
        Ok(Moved {
            bytes: total as u64,
            path,
            reason,
        })
    }

    /// The way for a slice.
    fn choose(&self, direction: Direction, slice: &[u8]) -> (Path, PathReason) {
        let start = slice.as_ptr().addr();
        let registry = &self.device().platform_inner().registry;
        let is_locked = registry.is_locked(&(start..start + slice.len()));
        self.choose_for(direction, slice.len() as u64, is_locked)
    }

    fn choose_for(&self, direction: Direction, bytes: u64, is_locked: bool) -> (Path, PathReason) {
        let inner = &self.inner;
        let slot_bytes = inner.lanes.slot_bytes();
        (inner.chooser).choose(direction, bytes, slot_bytes, is_locked)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("device", self.device())
            .field("threads", &self.threads())
            .finish_non_exhaustive()
    }
}
