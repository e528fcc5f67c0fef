//! Page-locked memory from pools; everything else straight from driver and system.

use super::plain::{PlainSource, is_mapped, is_write_combined};
use super::source::{BlockSource, Origin, RawBlock, Refusal};
use crate::device::Device;
use crate::error::Result;
use crate::pool::core::{Core, Slot};
use crate::pool::{PoolOptions, PoolStats, cached, write_combined};
use pinfold_hal::{DriverError, ErrorCode, HostAddr};
use pinfold_model::MemoryKind;
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::Arc;

/// Two pools, one for each way that processors cache memory, and a plain source beside them.
pub(super) struct PooledSource {
    devices: Vec<Device>,
    plain: PlainSource,
    cached: Arc<Core>,
    write_combined: Arc<Core>,
}

impl PooledSource {
    pub(super) fn new(devices: &[Device], options: &PoolOptions) -> Self {
        PooledSource {
            devices: devices.to_vec(),
            plain: PlainSource::new(devices),
            cached: cached(devices, options),
            write_combined: write_combined(devices, options),
        }
    }

    fn core(&self, kind: MemoryKind) -> &Arc<Core> {
        if is_write_combined(kind) {
            &self.write_combined
        } else {
            &self.cached
        }
    }

    /// False for mapped memory where a device cannot map any.
    fn can(&self, kind: MemoryKind) -> bool {
        let maps = |d: &Device| d.info().capabilities.can_map_host_memory;
        !is_mapped(kind) || self.devices.iter().all(maps)
    }

    fn block(&self, kind: MemoryKind, slot: Slot) -> RawBlock {
        let core = self.core(kind);
        let there = |d: &Device| (d.id(), core.device_addr(d.id(), slot.addr));
        let device = match is_mapped(kind) {
            true => self.devices.iter().map(there).collect(),
            false => SmallVec::new(),
        };
        RawBlock {
            origin: Origin::Pooled,
            host: Some(HostAddr(slot.addr as usize)),
            device,
            bytes: slot.requested_bytes,
            held_bytes: slot.held_bytes,
            is_cut: true,
            kind,
            keep: None,
        }
    }
}

impl BlockSource for PooledSource {
    fn acquire_host(
        &self,
        kind: MemoryKind,
        bytes: u64,
        reclaim: &dyn Fn(),
    ) -> Result<RawBlock, Refusal> {
        if kind == MemoryKind::Pageable {
            return self.plain.acquire_host(kind, bytes, reclaim);
        }
        if !self.can(kind) {
            let call = "cuMemHostGetDevicePointer";
            return Err(DriverError::new(ErrorCode::NotSupported, call).into());
        }
        let slot = self.core(kind).take(bytes, reclaim)?;
        Ok(self.block(kind, slot))
    }

    fn acquire_cached(&self, kind: MemoryKind, bytes: u64) -> Option<RawBlock> {
        if kind == MemoryKind::Pageable || !self.can(kind) {
            return None;
        }
        let slot = self.core(kind).take_free(bytes)?;
        Some(self.block(kind, slot))
    }

    fn acquire_device(
        &self,
        device: &Device,
        bytes: u64,
        site: &'static Location<'static>,
    ) -> Result<RawBlock> {
        self.plain.acquire_device(device, bytes, site)
    }

    fn release(&self, block: RawBlock) -> bool {
        match block.origin {
            Origin::Pooled => {
                self.core(block.kind).give_back(Slot {
                    addr: block.host.map_or(0, |host| host.0 as u64),
                    requested_bytes: block.bytes,
                    held_bytes: block.held_bytes,
                });
                true
            }
            _ => self.plain.release(block),
        }
    }

    fn trim(&self, target_bytes: u64) {
        self.write_combined.trim(0);
        self.cached.trim(target_bytes);
    }

    fn tick(&self) {
        self.cached.decay();
        self.write_combined.decay();
    }

    fn pool_stats(&self) -> Option<[PoolStats; 2]> {
        Some([self.cached.stats(), self.write_combined.stats()])
    }
}
