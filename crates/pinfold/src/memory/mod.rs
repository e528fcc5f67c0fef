//! The memory manager: from what memory is for, to memory.
//!
//! A request travels like this: [`Memory`] takes the use and the rules → [`decide`] picks a kind
//! and says why → what the [`source`] has at hand is taken; else [`ladder`] asks it for more, and
//! steps down when that fails → the result is a [`Block`] with its [`Placement`], which a typed
//! buffer wraps. When the buffer goes away, the block waits in [`retire`] for the device, then goes
//! back to the source; while it lives and idles, [`pin_on_use`] may make it ordinary memory.
//! [`register`] takes in memory of the caller's own. [`pooled`] is the source that is used;
//! [`plain`] serves what a pool does not hold, and those who want none. [`told`] is what it tells
//! of itself.

pub(crate) mod block;
mod decide;
mod ladder;
pub(crate) mod pin_on_use;
mod placement;
mod plain;
mod pooled;
pub(crate) mod register;
mod retire;
pub(crate) mod source;
mod told;

pub use decide::{Measured, Use};
pub use pin_on_use::Unpinned;
pub use placement::{LadderStep, Placement, Reason, ReasonCode};

use crate::buffer::{
    DeviceBuffer, DownloadBuffer, ExchangeBuffer, HostRange, RegisteredBuffer, ScalarCell,
    ScopedSlice, UploadBuffer, ZeroCopyBuffer,
};
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Refused, Result};
use crate::graph::thread;
use crate::pool::{PinOnUse, PoolOptions};
use crate::registry::Registry;
use crate::track::books::Books;
use crate::track::leaks::Known;
use crate::track::live::Live;
use block::Block;
use decide::{Decisions, Desk};
use parking_lot::Mutex;
use pin_on_use::Pins;
use pinfold_model::MemoryKind;
use retire::Retired;
use source::BlockSource;
use std::panic::Location;
use std::sync::Arc;

/// Host memory (and device memory) for one device, or for several. Cheap to clone.
///
/// What a new buffer holds is not specified: zeros, or what an earlier one left there.
///
/// Nothing is page-locked and no context is made before the first buffer is asked for.
///
/// ```
/// use pinfold::{DeviceChoice, Memory};
///
/// # fn main() -> Result<(), pinfold::Error> {
/// let device = "sim".parse::<DeviceChoice>()?.open()?.device;
/// let memory = Memory::new(&device);
/// let mut up = memory.upload::<f32>(1024)?;
/// up.write(0, &[1.0; 1024])?;
/// println!("{}", up.placement().reason());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Memory {
    inner: Arc<MemoryInner>,
    rules: Rules,
}

pub(crate) struct MemoryInner {
    devices: Vec<Device>,
    source: Box<dyn BlockSource>,
    retired: Retired,
    pins: Pins,
    books: Arc<Books>,
    live: Arc<Live>,
    /// For reports of whatever is still in use.
    known: Arc<Known>,
    measured: Mutex<Option<Arc<Measured>>>,
    desk: Desk,
}

/// How a request may be served.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    strict: bool,
    kind: Option<MemoryKind>,
    /// The number of the pools that serve it.
    near: u32,
}

/// Every block begins on a multiple of this; elements may not ask for more.
const ALIGN_BYTES: usize = pinfold_pool::SLOT_ALIGN_BYTES as usize;
/// No allocation is larger than this.
const ALLOCATION_BYTES_MAX: u64 = 1 << 46;

impl Memory {
    /// Memory for one device, over a pool with the default options.
    pub fn new(device: &Device) -> Self {
        Self::over_pool(vec![device.clone()], &PoolOptions::default())
    }

    /// Memory that every one of the devices can reach (portable), over a pool with the default
    /// options. `None` for an empty list, or for devices of different platforms.
    pub fn for_devices(devices: &[Device]) -> Option<Self> {
        Self::pooled(devices, &PoolOptions::default())
    }

    /// Memory over a pool: page-locked requests are served from segments that the pool has, in
    /// nanoseconds and without the driver, and idle segments go back. `None` as in
    /// [`for_devices`](Self::for_devices).
    pub fn pooled(devices: &[Device], options: &PoolOptions) -> Option<Self> {
        one_platform(devices).then(|| Self::over_pool(devices.to_vec(), options))
    }

    /// Memory without a pool: every request goes to the driver, every release gives it back. To
    /// compare, or where page-locked memory is asked for once and kept. `None` as in
    /// [`for_devices`](Self::for_devices).
    pub fn unpooled(devices: &[Device]) -> Option<Self> {
        let source = || Box::new(plain::PlainSource::new(devices));
        one_platform(devices).then(|| Self::with_source(devices.to_vec(), source(), None))
    }

    fn over_pool(devices: Vec<Device>, options: &PoolOptions) -> Self {
        let source = Box::new(pooled::PooledSource::new(&devices, options));
        Self::with_source(devices, source, options.pin_on_use)
    }

    fn with_source(
        devices: Vec<Device>,
        source: Box<dyn BlockSource>,
        pin_on_use: Option<PinOnUse>,
    ) -> Self {
        let (books, live) = (Books::new(), Arc::<Live>::default());
        let inner = MemoryInner {
            source,
            desk: Desk::new(Decisions::new(&devices, None)),
            known: Known::enter(&devices, &books, &live),
            devices,
            retired: Retired::default(),
            pins: Pins::new(pin_on_use),
            books,
            live,
            measured: Mutex::new(None),
        };
        let inner = Arc::new(inner);
        Memory {
            inner,
            rules: Rules::default(),
        }
    }

    /// The same memory, but requests fail rather than step down to a slower kind.
    #[must_use]
    pub fn strict(&self) -> Self {
        Memory {
            rules: Rules {
                strict: true,
                ..self.rules
            },
            ..self.clone()
        }
    }

    /// The same memory, but host requests get this kind whatever pinfold would choose: to compare,
    /// or because you know better. With [`strict`](Self::strict) it is this kind or an error.
    #[must_use]
    pub fn of_kind(&self, kind: MemoryKind) -> Self {
        Memory {
            rules: Rules {
                kind: Some(kind),
                ..self.rules
            },
            ..self.clone()
        }
    }

    fn check_mine(&self, device: &Device) -> Result<()> {
        if self.inner.devices.contains(device) {
            return Ok(());
        }
        Err(Error::UnknownDevice {
            index: device.index(),
            count: self.inner.devices.len() as u32,
        })
    }

    /// The same memory, but kinds are chosen again.
    fn without_kind(&self) -> Self {
        Memory {
            rules: Rules {
                kind: None,
                ..self.rules
            },
            ..self.clone()
        }
    }

    /// Tells the manager what was measured on this machine. Without it, nothing that pays only on
    /// some machines is ever chosen.
    pub fn set_measured(&self, measured: Measured) {
        let decisions = Decisions::new(&self.inner.devices, Some(&measured));
        self.inner.desk.set(decisions);
        *self.inner.measured.lock() = Some(Arc::new(measured));
    }

    /// What was measured on this machine, where it was.
    pub fn measured(&self) -> Option<Arc<Measured>> {
        self.inner.measured.lock().clone()
    }

    /// The devices that can reach it.
    pub fn devices(&self) -> &[Device] {
        &self.inner.devices
    }

    /// Memory that the host fills and the device then takes copies of. It cannot be read by the
    /// host.
    ///
    /// # Errors
    /// [`Error::HostMemory`] where no kind on the ladder could be had, [`Error::TooLarge`].
    #[track_caller]
    pub fn upload<T: Element>(&self, elements: usize) -> Result<UploadBuffer<T>> {
        Ok(UploadBuffer::new(
            self.host_block::<T>(Use::Upload, elements)?,
            elements,
        ))
    }

    /// Memory that the device copies results into and the host then reads.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    #[track_caller]
    pub fn download<T: Element>(&self, elements: usize) -> Result<DownloadBuffer<T>> {
        Ok(DownloadBuffer::new(
            self.host_block::<T>(Use::Download, elements)?,
            elements,
        ))
    }

    /// Memory that is copied both ways, or handed from one device to another.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    #[track_caller]
    pub fn exchange<T: Element>(&self, elements: usize) -> Result<ExchangeBuffer<T>> {
        Ok(ExchangeBuffer::new(
            self.host_block::<T>(Use::Exchange, elements)?,
            elements,
        ))
    }

    /// Memory that the host fills and kernels read in place. It cannot be read by the host.
    ///
    /// # Errors
    /// As [`upload`](Self::upload). There is no step down to pageable memory: kernels could not
    /// reach it.
    #[track_caller]
    pub fn upload_in_place<T: Element>(&self, elements: usize) -> Result<UploadBuffer<T>> {
        Ok(UploadBuffer::new(
            self.host_block::<T>(Use::UploadInPlace, elements)?,
            elements,
        ))
    }

    /// Host memory that kernels read and write in place, and the host too.
    ///
    /// # Errors
    /// As [`upload_in_place`](Self::upload_in_place).
    #[track_caller]
    pub fn zero_copy<T: Element>(&self, elements: usize) -> Result<ZeroCopyBuffer<T>> {
        Ok(ZeroCopyBuffer::new(
            self.host_block::<T>(Use::ZeroCopy, elements)?,
            elements,
        ))
    }

    /// A few words of host memory into which a kernel publishes scalars that the host polls for.
    ///
    /// # Errors
    /// As [`zero_copy`](Self::zero_copy).
    #[track_caller]
    pub fn scalar_cell(&self) -> Result<ScalarCell> {
        let block = self
            .strict()
            .without_kind()
            .host_block::<u64>(Use::ZeroCopy, ScalarCell::WORDS)?;
        Ok(ScalarCell::new(block))
    }

    /// Device memory of the first device.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::TooLarge`].
    #[track_caller]
    pub fn device<T: Element>(&self, elements: usize) -> Result<DeviceBuffer<T>> {
        self.device_on(&self.inner.devices[0], elements)
    }

    /// Device memory of one of the devices.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::TooLarge`], [`Error::UnknownDevice`] for a device that is
    /// none of this memory's.
    #[track_caller]
    pub fn device_on<T: Element>(
        &self,
        device: &Device,
        elements: usize,
    ) -> Result<DeviceBuffer<T>> {
        let site = Location::caller();
        self.check_mine(device)?;
        thread::refuse("getting device memory")?;
        let bytes = bytes_of::<T>(elements)?;
        // What fails here is told by whoever asks that device.
        let _ = self.collect();
        device.ensure_open()?;
        let raw = self.inner.source.acquire_device(device, bytes, site)?;
        let placement = Placement::new(MemoryKind::Device, bytes, Reason::device(), site);
        Ok(DeviceBuffer::new(
            Block::new(self.inner.clone(), raw, placement),
            elements,
        ))
    }

    /// Page-locks memory that the caller owns, in place. It is given back by
    /// [`RegisteredBuffer::into_inner`]. An empty range is never page-locked, and is no error.
    ///
    /// A range inside of one that is page-locked already shares it; the last owner's end makes it
    /// ordinary memory. A range that other code of the process has page-locked is used as it is,
    /// and never unlocked from here: that code must keep it so for longer than the buffer lives.
    /// [`placement`](RegisteredBuffer::placement) says which it was.
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`] where it overlaps another range in part, naming the first
    /// owner and what is free; [`Error::ReadOnly`], [`Error::Driver`]; the owner comes back.
    #[track_caller]
    pub fn register<O: HostRange + Send + Sync + 'static>(
        &self,
        owner: O,
    ) -> Result<RegisteredBuffer<O>, Refused<O>> {
        register::register(&self.inner, owner, Location::caller())
    }

    /// Page-locks a borrowed slice for as long as the closure runs. Whatever the closure does with
    /// the buffer, even leaking it, the device is done with the slice and the slice is ordinary
    /// again before this returns. Should the driver refuse every wait for the device, the process
    /// is aborted, since the slice could never be given back.
    ///
    /// # Errors
    /// As [`register`](Self::register); [`Error::Driver`] where the device failed meanwhile, or the
    /// driver does not let go of the slice, which then stays page-locked.
    #[track_caller]
    pub fn with_registered<T: Element, R>(
        &self,
        slice: &mut [T],
        scope: impl for<'s> FnOnce(RegisteredBuffer<ScopedSlice<'s, T>>) -> R,
    ) -> Result<R> {
        register::scoped(&self.inner, slice, scope, Location::caller())
    }

    /// Takes back the memory of dropped buffers that the device has finished with. Also happens
    /// whenever memory is asked for that is not at hand, and after every so many buffers or bytes
    /// that were dropped in flight.
    ///
    /// # Errors
    /// [`Error::Driver`] where a device is lost, or the driver cannot tell; nothing is freed early.
    pub fn collect(&self) -> Result<()> {
        self.inner.collect()
    }

    /// Gives idle page-locked memory back to the system until at most so many bytes are
    /// page-locked. Without a pool nothing idles, and this does nothing.
    ///
    /// # Errors
    /// As [`collect`](Self::collect), which is done first.
    pub fn trim(&self, target_bytes: u64) -> Result<()> {
        thread::refuse("giving idle memory back")?;
        self.collect()?;
        self.inner.source.trim(target_bytes);
        Ok(())
    }

    #[track_caller]
    fn host_block<T: Element>(&self, usage: Use, elements: usize) -> Result<Arc<Block>> {
        let site = Location::caller();
        let bytes = bytes_of::<T>(elements)?;
        if let Some(kind) = self.rules.kind.filter(|kind| !usage.allows(*kind)) {
            return Err(Error::KindNotAllowed { kind, usage });
        }
        let decision = self.inner.desk.decide(usage, self.rules.kind);
        if bytes > 0
            && let Some(raw) =
                (self.inner.source).acquire_cached(decision.kind, self.rules.near, bytes)
        {
            let placement = Placement::new(decision.kind, bytes, decision.reason, site);
            return Ok(Block::new(self.inner.clone(), raw, placement));
        }
        let (raw, placement) = ladder::acquire(&self.inner, decision, bytes, self.rules, site)?;
        Ok(Block::new(self.inner.clone(), raw, placement))
    }
}

impl MemoryInner {
    fn collect(&self) -> Result<()> {
        let outcome = self.collect_retired();
        self.source.tick();
        self.pins.tick(self.registry());
        outcome
    }

    fn registry(&self) -> &Registry {
        &self.devices[0].platform_inner().registry
    }
}

impl Drop for MemoryInner {
    fn drop(&mut self) {
        self.wait_for_retired();
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory")
            .field("devices", &self.inner.devices)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// True for a list that is not empty and all of one platform.
fn one_platform(devices: &[Device]) -> bool {
    let first = devices.first().map(Device::platform_inner);
    let same = |d: &Device| first.is_some_and(|first| Arc::ptr_eq(d.platform_inner(), first));
    !devices.is_empty() && devices.iter().all(same)
}

fn bytes_of<T: Element>(elements: usize) -> Result<u64> {
    const { assert!(std::mem::align_of::<T>() <= ALIGN_BYTES) };
    let element_bytes = std::mem::size_of::<T>();
    (elements as u64)
        .checked_mul(element_bytes as u64)
        .filter(|bytes| *bytes <= ALLOCATION_BYTES_MAX)
        .ok_or(Error::TooLarge {
            elements,
            element_bytes,
            limit_bytes: ALLOCATION_BYTES_MAX,
        })
}
