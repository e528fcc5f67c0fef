//! Memory of somebody else's, page-locked where it lies.

use super::block::Block;
use super::source::{Keep, Origin, RawBlock};
use super::{MemoryInner, Placement, Reason, ReasonCode};
use crate::buffer::{HostRange, RegisteredBuffer, ScopedSlice};
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Refused, Result};
use crate::graph::thread;
use pinfold_hal::{DeviceAddr, DeviceId, DriverError, HostAddr, RegisterFlags};
use pinfold_model::MemoryKind;
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::Arc;

/// Page-locks an owner's memory and takes the owner in.
pub(super) fn register<O: HostRange + Send + Sync + 'static>(
    memory: &Arc<MemoryInner>,
    mut owner: O,
    site: &'static Location<'static>,
) -> Result<RegisteredBuffer<O>, Refused<O>> {
    let elements = owner.len();
    let bytes = elements * std::mem::size_of::<O::Item>();
    match pin(memory, owner.start(), bytes, O::WRITABLE, site) {
        Ok(mut raw) => {
            raw.keep = Some(Box::new(owner));
            let block = Block::new(memory.clone(), raw, placement(bytes as u64, site));
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
    let start = HostAddr(slice.as_mut_ptr().expose_provenance());
    let bytes = std::mem::size_of_val(slice);
    let raw = pin(memory, start, bytes, true, site)?;
    let block = Block::new(memory.clone(), raw, placement(bytes as u64, site));
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

fn placement(bytes: u64, site: &'static Location<'static>) -> Placement {
    let text = "the caller's own memory, page-locked where it lies";
    Placement::new(
        MemoryKind::Registered,
        bytes,
        Reason::new(ReasonCode::Registered, text),
        site,
    )
}

/// Registers a range: all of it, or nothing.
fn pin(
    memory: &Arc<MemoryInner>,
    host: HostAddr,
    bytes: usize,
    writable: bool,
    site: &'static Location<'static>,
) -> Result<RawBlock> {
    if bytes == 0 {
        return Ok(RawBlock::empty(MemoryKind::Registered));
    }
    thread::refuse("page-locking memory in place")?;
    memory.devices.iter().try_for_each(Device::ensure_open)?;
    let device = &memory.devices[0];
    let registry = &device.platform_inner().registry;
    registry.enter(host.0, bytes, site)?;
    match pin_with_driver(memory, host, bytes as u64, writable) {
        Ok(addrs) => Ok(RawBlock {
            origin: Origin::Registered,
            host: Some(host),
            device: addrs,
            bytes: bytes as u64,
            held_bytes: bytes as u64,
            is_cut: false,
            kind: MemoryKind::Registered,
            keep: None,
        }),
        Err(error) => {
            registry.leave(host.0);
            Err(explain(error, host, bytes))
        }
    }
}

fn pin_with_driver(
    memory: &MemoryInner,
    host: HostAddr,
    bytes: u64,
    writable: bool,
) -> Result<SmallVec<[(DeviceId, DeviceAddr); 1]>, DriverError> {
    let device = &memory.devices[0];
    let flags = RegisterFlags {
        portable: memory.devices.len() > 1,
        mapped: device.info().capabilities.can_map_host_memory,
        read_only: !writable,
    };
    // SAFETY: the range belongs to an owner that the block keeps, or to a slice that is borrowed
    // until the block is closed; it is unregistered before either ends.
    unsafe {
        device
            .driver()
            .host_register(device.id(), host, bytes, flags)?
    };
    let addr = |d: &Device| Ok((d.id(), d.driver().device_address(d.id(), host)?));
    if !flags.mapped {
        return Ok(SmallVec::new());
    }
    let addrs: Result<_, DriverError> = memory.devices.iter().map(addr).collect();
    if addrs.is_err() {
        // SAFETY: registered just now, used by nobody.
        let _ = unsafe { device.driver().host_unregister(device.id(), host) };
    }
    addrs
}

fn explain(error: DriverError, host: HostAddr, bytes: usize) -> Error {
    if error.code == pinfold_hal::ErrorCode::HostMemoryAlreadyRegistered {
        let owner = "other code of this process, or another platform".to_owned();
        return Error::AlreadyRegistered {
            start: host.0,
            end: host.0 + bytes,
            owner,
        };
    }
    Error::driver("page-locking memory in place")(error)
}

/// Gives registered memory back to its owner.
///
/// # Errors
/// Where the driver does not let go of the range. It stays page-locked, so it is never unmapped:
/// the owner is kept for ever.
pub(crate) fn into_owner<O: HostRange + Send + Sync + 'static>(
    device: &Device,
    raw: RawBlock,
) -> Result<Option<O>> {
    let keep = match raw.host {
        Some(host) if matches!(raw.origin, Origin::Registered) => {
            unregister(device, host, raw.keep)?
        }
        _ => raw.keep,
    };
    Ok(keep
        .and_then(|keep| keep.downcast().ok())
        .map(|owner| *owner))
}

/// Unregisters a range and returns what kept it alive; see [`into_owner`] for failures.
pub(super) fn unregister(
    device: &Device,
    host: HostAddr,
    keep: Option<Keep>,
) -> Result<Option<Keep>> {
    // SAFETY: the range was registered by `pin`, and no device uses it any more.
    let outcome = unsafe { device.driver().host_unregister(device.id(), host) };
    match outcome {
        Ok(()) => {
            device.platform_inner().registry.leave(host.0);
            Ok(keep)
        }
        Err(error) => {
            std::mem::forget(keep);
            Err(Error::driver(
                "unlocking memory that was page-locked in place",
            )(error))
        }
    }
}
