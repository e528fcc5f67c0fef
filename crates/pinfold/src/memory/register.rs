//! Memory of somebody else's, page-locked where it lies.

use super::block::Block;
use super::pin_on_use::{Pin, Pinned, TURN_LIMIT};
use super::source::{Keep, Origin, RawBlock};
use super::{MemoryInner, Placement, Reason, ReasonCode};
use crate::buffer::{HostRange, RegisteredBuffer, ScopedSlice};
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Refused, Result};
use crate::graph::thread;
use crate::registry::{Claim, Found, PageLocker, Registry, Wanted};
use pinfold_hal::{DeviceAddr, DeviceId, DriverError, HostAddr, RegisterFlags};
use pinfold_model::MemoryKind;
use smallvec::SmallVec;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

type Addrs = SmallVec<[(DeviceId, DeviceAddr); 1]>;

/// Page-locks an owner's memory and takes the owner in.
pub(super) fn register<O: HostRange + Send + Sync + 'static>(
    memory: &Arc<MemoryInner>,
    mut owner: O,
    site: &'static Location<'static>,
) -> Result<RegisteredBuffer<O>, Refused<O>> {
    let elements = owner.len();
    let start = owner.start().0;
    let wanted = Wanted {
        range: start..start + elements * std::mem::size_of::<O::Item>(),
        read_only: O::READ_ONLY,
        writable: O::WRITABLE,
        site,
    };
    match pin(memory, &wanted, true) {
        Ok((mut raw, placement)) => {
            raw.keep = Some(Box::new(owner));
            let block = Block::new(memory.clone(), raw, placement);
            Ok(RegisteredBuffer::new(block, elements))
        }
        Err(error) => Err(Refused::new(error, owner)),
    }
}

/// Page-locks a slice while `scope` runs.
///
/// # Errors
/// Where the slice cannot be page-locked, the device was lost, or the driver does not let go of the
/// slice.
pub(super) fn scoped<T: Element, R>(
    memory: &Arc<MemoryInner>,
    slice: &mut [T],
    scope: impl for<'s> FnOnce(RegisteredBuffer<ScopedSlice<'s, T>>) -> R,
    site: &'static Location<'static>,
) -> Result<R> {
    let start = slice.as_mut_ptr().expose_provenance();
    let wanted = Wanted {
        range: start..start + std::mem::size_of_val(slice),
        read_only: false,
        writable: true,
        site,
    };
    let (raw, placement) = pin(memory, &wanted, false)?;
    let block = Block::new(memory.clone(), raw, placement);
    /// Ends the registration also when the scope panics.
    struct End(Option<Arc<Block>>);
    impl End {
        fn end(&mut self) -> Result<()> {
            let Some(block) = self.0.take() else {
                return Ok(());
            };
            let settled = block.settle();
            if let Err(error) = &settled
                && !error.device_is_lost()
            {
                give_up(error);
            }
            let closed = block.close();
            settled.and(closed)
        }
    }
    impl Drop for End {
        fn drop(&mut self) {
            // Only reached while a panic of the scope unwinds, which is what the caller will hear
            // of.
            let _ = self.end();
        }
    }
    let mut end = End(Some(block.clone()));
    let value = scope(RegisteredBuffer::new(block, slice.len()));
    end.end()?;
    Ok(value)
}

/// Ends the process where the device may be using a slice whose borrow is about to end, and the
/// driver refuses every wait: to go on would be to let the program race with the device.
pub(crate) fn give_up(error: &Error) -> ! {
    eprintln!(
        "pinfold: the driver refuses to wait for work on borrowed memory ({error}); ending the \
         process, since the memory cannot be given back"
    );
    std::process::abort()
}

fn reason(found: Found) -> Reason {
    match found {
        Found::New => Reason::new(
            ReasonCode::Registered,
            "the caller's own memory, page-locked where it lies",
        ),
        Found::Shared => Reason::new(
            ReasonCode::Registered,
            "the caller's own memory, inside of a range that is page-locked already",
        ),
        Found::Borrowed => Reason::new(
            ReasonCode::Borrowed,
            "the caller's own memory, which other code had page-locked already: used as it is, and \
             never unlocked from here",
        ),
    }
}

/// The devices of a memory manager, to page-lock memory for.
struct Locker {
    devices: Vec<Device>,
}

impl Locker {
    /// The device in whose name memory is registered.
    fn first(&self) -> &Device {
        &self.devices[0]
    }

    fn is_mapped(&self) -> bool {
        self.first().info().capabilities.can_map_host_memory
    }

    /// Where each device sees an address.
    fn addrs(&self, host: HostAddr) -> Result<Addrs, DriverError> {
        let addr = |d: &Device| Ok((d.id(), d.driver().device_address(d.id(), host)?));
        match self.is_mapped() {
            true => self.devices.iter().map(addr).collect(),
            false => Ok(SmallVec::new()),
        }
    }
}

impl PageLocker for Locker {
    fn lock(&self, range: &Range<usize>, read_only: bool) -> Result<(), DriverError> {
        let device = self.first();
        let flags = RegisterFlags {
            portable: self.devices.len() > 1,
            mapped: self.is_mapped(),
            read_only,
        };
        let (start, bytes) = (HostAddr(range.start), range.len() as u64);
        // SAFETY: the range belongs to owners that their blocks keep, or to a slice that is
        // borrowed until its block is closed. Each has a claim on it in the registry, and the last
        // one unregisters it before the memory goes.
        unsafe {
            device
                .driver()
                .host_register(device.id(), start, bytes, flags)
        }
    }

    fn unlock(&self, start: usize) -> Result<(), DriverError> {
        let device = self.first();
        // SAFETY: the range was registered by `lock`. Every claim that needs it so has been given
        // up, each after the device was done with its block.
        unsafe {
            device
                .driver()
                .host_unregister(device.id(), HostAddr(start))
        }
    }

    fn reaches(&self, range: &Range<usize>) -> bool {
        let last = (range.len() - 1) as u64;
        let (first_addrs, last_addrs) = (
            self.addrs(HostAddr(range.start)),
            self.addrs(HostAddr(range.start).offset(last)),
        );
        let (Ok(first_addrs), Ok(last_addrs)) = (first_addrs, last_addrs) else {
            return false;
        };
        let mut both = first_addrs.iter().zip(&last_addrs);
        self.is_mapped() && both.all(|(a, b)| a.1.offset(last) == b.1)
    }
}

/// A part of a range of the registry, for a block that can be ordinary memory while it idles.
pub(super) struct Registered {
    locker: Arc<Locker>,
    claim: Claim,
    range: Range<usize>,
}

impl Registered {
    fn registry(&self) -> &Registry {
        &self.locker.first().platform_inner().registry
    }

    pub(super) fn range(&self) -> &Range<usize> {
        &self.range
    }

    /// Makes it ordinary memory, where nobody else needs it page-locked. Bytes that are so now.
    pub(super) fn unlock(&self) -> u64 {
        match self.registry().unlock(self.claim) {
            true => self.range.len() as u64,
            false => 0,
        }
    }

    /// Page-locks it again: where devices see it now.
    ///
    /// # Errors
    /// The registry's answer; nothing has changed.
    pub(super) fn lock_again(&self) -> Result<Addrs> {
        let locker: Arc<dyn PageLocker> = self.locker.clone();
        self.registry().lock_again(self.claim, &locker)?;
        self.locker
            .addrs(HostAddr(self.range.start))
            .map_err(|error| {
                // Where the driver does not let go of it now, it is never asked to again.
                let _ = self.registry().release_lock(self.claim);
                Error::driver("page-locking memory in place again")(error)
            })
    }
}

/// Registers a range: all of it, or nothing.
fn pin(memory: &Arc<MemoryInner>, wanted: &Wanted, on_use: bool) -> Result<(RawBlock, Placement)> {
    let (range, bytes) = (&wanted.range, wanted.range.len() as u64);
    let kind = MemoryKind::Registered;
    let placed = |found| Placement::new(kind, bytes, reason(found), wanted.site);
    if bytes == 0 {
        return Ok((RawBlock::empty(kind), placed(Found::New)));
    }
    thread::refuse("page-locking memory in place")?;
    memory.devices.iter().try_for_each(Device::ensure_open)?;
    let device = &memory.devices[0];
    if wanted.read_only && !device.info().capabilities.host_register_read_only {
        let device = device.name().to_owned();
        return Err(Error::ReadOnly { device });
    }
    let locker = Arc::new(Locker {
        devices: memory.devices.clone(),
    });
    let as_dyn: Arc<dyn PageLocker> = locker.clone();
    let registry = &device.platform_inner().registry;
    let claim = registry.enter(wanted, &as_dyn)?;
    let host = HostAddr(range.start);
    let addrs = locker.addrs(host).map_err(|error| {
        // The claim's own failure is the one to tell of.
        let _ = registry.leave(claim, true);
        Error::driver("page-locking memory in place")(error)
    })?;
    let mut raw = RawBlock {
        origin: Origin::Registered(claim),
        host: Some(host),
        device: SmallVec::new(),
        bytes,
        held_bytes: bytes,
        is_cut: false,
        kind,
        keep: None,
        pin: None,
    };
    if on_use && claim.found != Found::Borrowed {
        let registered = Registered {
            locker,
            claim,
            range: range.clone(),
        };
        raw.pin = Some(Pin::new(Pinned::Registered(registered), &addrs));
    } else {
        raw.device = addrs;
    }
    Ok((raw, placed(claim.found)))
}

/// Gives registered memory back to its owner.
///
/// # Errors
/// Where the driver does not let go of the range. It stays page-locked, so it is never unmapped:
/// the owner is kept for ever.
pub(crate) fn into_owner<O: HostRange + Send + Sync + 'static>(
    device: &Device,
    mut raw: RawBlock,
) -> Result<Option<O>> {
    let keep = unregister(device, &mut raw)?;
    Ok(keep
        .and_then(|keep| keep.downcast().ok())
        .map(|owner| *owner))
}

/// Gives up what a block of registered memory has of the registry, and returns what kept it alive;
/// see [`into_owner`] for failures.
pub(super) fn unregister(device: &Device, raw: &mut RawBlock) -> Result<Option<Keep>> {
    let keep = raw.keep.take();
    let Origin::Registered(claim) = raw.origin else {
        return Ok(keep);
    };
    let is_locked = match raw.pin.take() {
        None => Some(true),
        Some(pin) => pin.end(),
    };
    let left = match is_locked {
        Some(is_locked) => device.platform_inner().registry.leave(claim, is_locked),
        None => Err(Error::Timeout {
            what: "unpinning of the buffer by another thread",
            limit: TURN_LIMIT,
            diagnosis: "the driver does not answer that thread's call".to_owned(),
        }),
    };
    match left {
        Ok(()) => Ok(keep),
        Err(error) => {
            std::mem::forget(keep);
            Err(error)
        }
    }
}

/// Ends the registration of a borrowed slice.
///
/// # Errors
/// Where the driver does not let go of it.
pub(super) fn end_scoped(device: &Device, raw: &RawBlock) -> Result<()> {
    match raw.origin {
        Origin::Registered(claim) => device.platform_inner().registry.leave(claim, true),
        _ => Ok(()),
    }
}
