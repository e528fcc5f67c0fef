//! Memory: page-locked allocation, registration of existing memory, device memory.

use crate::Sim;
use crate::address::{HostKind, HostRange};
use crate::error::{invalid, no_memory, zero_bytes};
use crate::raw::{AlignedBytes, HostSpan, PAGE_BYTES};
use crate::world::{POISON, World};
use pinfold_hal::{
    DeviceAddr, DeviceId, DriverError, ErrorCode, HostAddr, HostAllocFlags, MemoryOps,
    RegisterFlags, Result,
};
use pinfold_model::{MemoryKind, cost};

// SAFETY: page-locked memory is a zeroed allocation of whole pages, held by its range until that is
// removed in `host_free` or the simulation drops; `AlignedBytes::span` exposes its provenance.
// Device memory has numbers for addresses that no block shares, and a device address of host memory
// is its own number or that number plus a constant. Registering notes a range and touches nothing.
unsafe impl MemoryOps for Sim {
    fn host_alloc(&self, device: DeviceId, bytes: u64, flags: HostAllocFlags) -> Result<HostAddr> {
        let call = "cuMemHostAlloc";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        world.refuse_in_capture(call)?;
        if bytes == 0 {
            return Err(zero_bytes(call));
        }
        world.check_pinnable(call, bytes)?;
        let limit = world.options.write_combined_limit_bytes.unwrap_or(u64::MAX);
        if flags.write_combined && bytes > limit {
            let what = format!("{bytes} bytes of write-combined memory; at most {limit} at a time");
            return Err(no_memory(call, what));
        }
        let kind = if flags.write_combined {
            MemoryKind::WriteCombined
        } else {
            MemoryKind::PageLocked
        };
        let cost_ns = cost::allocate_ns(world.profile(), kind, bytes);
        world.spend(cost_ns);
        // Whole pages, so that no page is shared with memory of somebody else.
        let pages = usize::try_from(bytes)
            .ok()
            .and_then(|b| b.checked_next_multiple_of(PAGE_BYTES));
        let memory = pages.and_then(AlignedBytes::zeroed);
        let span = memory
            .as_ref()
            .and_then(|memory| memory.span().part(0, bytes as usize));
        let (Some(memory), Some(span)) = (memory, span) else {
            return Err(no_memory(
                call,
                format!("the host has no {bytes} bytes left"),
            ));
        };
        if world.options.poisons() {
            span.fill(POISON);
        }
        let device_offset = world.host_offset();
        world.host.insert(HostRange {
            span,
            kind: HostKind::Allocated {
                write_combined: flags.write_combined,
                _memory: memory,
            },
            device,
            portable: flags.portable,
            mapped: flags.mapped,
            device_offset,
        });
        Ok(HostAddr(span.addr()))
    }

    unsafe fn host_free(&self, device: DeviceId, addr: HostAddr) -> Result<()> {
        let call = "cuMemFreeHost";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        world.refuse_in_capture(call)?;
        let allocated = world.host.starting_at(addr.0);
        let allocated = allocated.filter(|r| matches!(r.kind, HostKind::Allocated { .. }));
        let Some(span) = allocated.map(|range| range.span) else {
            self.hazards
                .note(call, format!("{addr:?} starts no live allocation"));
            return Err(invalid(
                call,
                format!("{addr:?} starts no page-locked allocation"),
            ));
        };
        world.remove_host_range(call, span, MemoryKind::PageLocked);
        Ok(())
    }

    unsafe fn host_register(
        &self,
        device: DeviceId,
        addr: HostAddr,
        bytes: u64,
        flags: RegisterFlags,
    ) -> Result<()> {
        let call = "cuMemHostRegister";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        world.refuse_in_capture(call)?;
        let bytes_here = world.check_registrable(call, device, addr, bytes, flags)?;
        let cost_ns = cost::allocate_ns(world.profile(), MemoryKind::Registered, bytes);
        let slower = world.options.registration_slowdown;
        world.spend(cost_ns * slower);
        // SAFETY: the caller of `host_register` promises the memory until it is unregistered, and
        // the span is forgotten then.
        let span = unsafe { HostSpan::new(addr.0, bytes_here) };
        let device_offset = world.registered_offset(addr.0);
        world.host.insert(HostRange {
            span,
            kind: HostKind::Registered {
                read_only: flags.read_only,
            },
            device,
            portable: flags.portable,
            mapped: flags.mapped,
            device_offset,
        });
        Ok(())
    }

    unsafe fn host_unregister(&self, device: DeviceId, addr: HostAddr) -> Result<()> {
        let call = "cuMemHostUnregister";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        world.refuse_in_capture(call)?;
        let range = world.host.containing(addr.0);
        let range = range.filter(|range| matches!(range.kind, HostKind::Registered { .. }));
        let Some(span) = range.map(|range| range.span) else {
            let what = format!("{addr:?} is in no registration");
            let code = ErrorCode::HostMemoryNotRegistered;
            return Err(DriverError::with_detail(code, call, what));
        };
        if span.addr() != addr.0 {
            let what = format!(
                "{addr:?} is inside the registration that starts at {:#x}",
                span.addr()
            );
            return Err(invalid(call, what));
        }
        world.remove_host_range(call, span, MemoryKind::Registered);
        Ok(())
    }

    fn device_address(&self, device: DeviceId, addr: HostAddr) -> Result<DeviceAddr> {
        let call = "cuMemHostGetDevicePointer";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        let range = world.host.containing(addr.0);
        match range.filter(|range| world.reaches(device, range)) {
            Some(range) => Ok(DeviceAddr(addr.0 as u64 + range.device_offset)),
            None => Err(invalid(
                call,
                format!("{addr:?} is in no page-locked memory that device {device} can reach"),
            )),
        }
    }

    fn device_alloc(&self, device: DeviceId, bytes: u64) -> Result<DeviceAddr> {
        let call = "cuMemAlloc";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        world.refuse_in_capture(call)?;
        if bytes == 0 {
            return Err(zero_bytes(call));
        }
        let cost_ns = world.profile().allocation.device_alloc_ns.value;
        world.spend(cost_ns);
        let total = world.profile().devices[device.0 as usize].memory_bytes;
        let free = total.saturating_sub(world.blocks.used_bytes(device));
        if bytes > free {
            let what = format!("{bytes} bytes of device memory; {free} of {total} are free");
            return Err(no_memory(call, what));
        }
        let addr = world.blocks.allocate(device, bytes);
        addr.map(DeviceAddr).ok_or_else(|| {
            no_memory(
                call,
                format!("the host cannot back {bytes} bytes of simulated memory"),
            )
        })
    }

    unsafe fn device_free(&self, device: DeviceId, addr: DeviceAddr) -> Result<()> {
        let call = "cuMemFree";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        world.refuse_in_capture(call)?;
        let block = world
            .blocks
            .get(addr.0)
            .filter(|block| block.device == device);
        let Some(bytes) = block.map(|block| block.bytes) else {
            self.hazards
                .note(call, format!("{addr:?} starts no live allocation"));
            let what = format!("{addr:?} starts no allocation of device {device}");
            return Err(invalid(call, what));
        };
        let cost_ns = world.profile().allocation.device_free_ns.value;
        world.spend(cost_ns);
        world.release(call, addr.0, addr.0 + bytes);
        world.blocks.free(addr.0);
        Ok(())
    }
}

impl World {
    /// Takes a range out of the page-locked ones, after all that still uses it.
    fn remove_host_range(&mut self, call: &'static str, span: HostSpan, kind: MemoryKind) {
        let cost_ns = cost::free_ns(self.profile(), kind, span.bytes() as u64);
        self.spend(cost_ns);
        self.release(call, span.addr() as u64, span.end() as u64);
        self.host.remove(span.addr());
    }

    /// Whether so many more bytes may be page-locked.
    fn check_pinnable(&self, call: &'static str, bytes: u64) -> Result<()> {
        let (allocated, registered, _) = self.host.totals();
        let held = allocated + registered;
        let machine = self.profile().host.memory_bytes;
        let budget = self.options.pin_limit_bytes.unwrap_or(u64::MAX);
        let (limit, name) = if budget < machine {
            (budget, "the limit of page-locked memory")
        } else {
            (machine, "the host's memory")
        };
        if bytes <= limit.saturating_sub(held) {
            return Ok(());
        }
        let what =
            format!("{bytes} bytes of host memory; {name} is {limit}, {held} are page-locked");
        Err(no_memory(call, what))
    }

    /// Whether a range may be registered; its size as the host counts.
    fn check_registrable(
        &self,
        call: &'static str,
        device: DeviceId,
        addr: HostAddr,
        bytes: u64,
        flags: RegisterFlags,
    ) -> Result<usize> {
        let can = &self.profile().devices[device.0 as usize].capabilities;
        if !can.host_register || (flags.read_only && !can.host_register_read_only) {
            return Err(DriverError::new(ErrorCode::NotSupported, call));
        }
        if bytes == 0 {
            return Err(zero_bytes(call));
        }
        let bytes_here = usize::try_from(bytes)
            .ok()
            .filter(|&b| addr.0.checked_add(b).is_some());
        let bytes_here = bytes_here.ok_or_else(|| {
            invalid(
                call,
                format!("{bytes} bytes at {addr:?} leave the address space"),
            )
        })?;
        if let Some(other) = self.host.overlapping(addr.0, bytes_here) {
            let code = match other.kind {
                HostKind::Registered { .. } => ErrorCode::HostMemoryAlreadyRegistered,
                HostKind::Allocated { .. } => ErrorCode::InvalidValue,
            };
            let other = other.describe();
            let what = format!("{addr:?} with {bytes} bytes overlaps memory {other}");
            return Err(DriverError::with_detail(code, call, what));
        }
        let limit = self.options.register_limit_bytes.unwrap_or(u64::MAX);
        if bytes > limit {
            let what = format!("{bytes} bytes in one registration; at most {limit} are possible");
            return Err(no_memory(call, what));
        }
        let (_, _, registrations) = self.host.totals();
        let limit = self.options.register_limit_segments.unwrap_or(u64::MAX);
        if registrations >= limit {
            let what =
                format!("there are {registrations} registrations; at most {limit} are possible");
            return Err(no_memory(call, what));
        }
        self.check_pinnable(call, bytes)?;
        Ok(bytes_here)
    }
}
