//! Page-locked memory from pools, and what only memory over pools can do; everything else straight
//! from driver and system.

use super::pin_on_use::{Pin, Pinned};
use super::plain::{PlainSource, is_mapped, is_write_combined};
use super::source::{BlockSource, Origin, RawBlock, Refusal};
use super::{Memory, Rules};
use crate::device::Device;
use crate::error::Result;
use crate::graph::thread;
use crate::pool::core::{Core, Slot};
use crate::pool::numa::NumaNode;
use crate::pool::{Background, PoolOptions, PoolStats, Reservation, Whole, cached, write_combined};
use pinfold_hal::{DriverError, ErrorCode, HostAddr};
use pinfold_model::MemoryKind;
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::Arc;

/// Pools for each NUMA node that devices are on, and a plain source beside them.
pub(super) struct PooledSource {
    devices: Vec<Device>,
    plain: PlainSource,
    numa: NumaNode,
    /// From how many bytes on a block has a segment of its own, where any has.
    whole_least_bytes: Option<u64>,
    /// The first device's node first. Blocks know the number of theirs.
    nodes: SmallVec<[NodePools; 1]>,
}

/// The pools whose memory is on one node: one for each way that processors cache memory.
struct NodePools {
    node: Option<u32>,
    // Before the core, so that its thread has ended when the core goes away.
    background: Background,
    cached: Arc<Core>,
    write_combined: Arc<Core>,
}

/// Smaller blocks never have segments of their own: that would be a mapping and a registration for
/// each, of which there cannot be many.
const WHOLE_BYTES_MIN: u64 = 64 << 10;

impl NodePools {
    fn new(node: Option<u32>, devices: &[Device], options: &PoolOptions) -> Self {
        // What a pool does, it does by way of its first device: one that is near.
        let is_near = |d: &&Device| options.numa.near(d) == node;
        let (near, far): (Vec<&Device>, Vec<&Device>) = devices.iter().partition(is_near);
        let devices: Vec<Device> = near.into_iter().chain(far).cloned().collect();
        NodePools {
            node,
            background: Background::default(),
            cached: cached(&devices, options),
            write_combined: write_combined(&devices, options),
        }
    }
}

impl PooledSource {
    pub(super) fn new(devices: &[Device], options: &PoolOptions) -> Self {
        let mut nodes = SmallVec::<[NodePools; 1]>::new();
        for node in devices.iter().map(|device| options.numa.near(device)) {
            if nodes.iter().all(|pools| pools.node != node) {
                nodes.push(NodePools::new(node, devices, options));
            }
        }
        PooledSource {
            devices: devices.to_vec(),
            plain: PlainSource::new(devices),
            numa: options.numa,
            whole_least_bytes: options
                .pin_on_use
                .filter(|_| nodes.iter().all(|pools| pools.cached.can_be_whole()))
                .map(|pin_on_use| pin_on_use.least_bytes.max(WHOLE_BYTES_MIN)),
            nodes,
        }
    }

    fn core(&self, kind: MemoryKind, near: u32) -> &Arc<Core> {
        let pools = &self.nodes[near as usize];
        if is_write_combined(kind) {
            &pools.write_combined
        } else {
            &pools.cached
        }
    }

    /// False for mapped memory where a device cannot map any.
    fn can(&self, kind: MemoryKind) -> bool {
        let maps = |d: &Device| d.info().capabilities.can_map_host_memory;
        !is_mapped(kind) || self.devices.iter().all(maps)
    }

    /// True for a block that has a segment of its own.
    fn is_whole(&self, kind: MemoryKind, bytes: u64) -> bool {
        let least = self.whole_least_bytes;
        least.is_some_and(|least| bytes >= least) && !is_write_combined(kind)
    }

    fn whole_block(&self, kind: MemoryKind, bytes: u64, whole: Whole) -> RawBlock {
        let there = |d: &Device| (d.id(), whole.device_addr(d.id()));
        let addrs: SmallVec<[_; 1]> = match is_mapped(kind) {
            true => self.devices.iter().map(there).collect(),
            false => SmallVec::new(),
        };
        RawBlock {
            origin: Origin::Whole,
            host: Some(whole.host()),
            device: SmallVec::new(),
            bytes,
            held_bytes: whole.held_bytes(),
            is_cut: true,
            kind,
            keep: None,
            pin: Some(Pin::new(Pinned::Whole(whole), &addrs)),
        }
    }

    fn block(&self, kind: MemoryKind, near: u32, slot: Slot) -> RawBlock {
        let core = self.core(kind, near);
        let there = |d: &Device| (d.id(), core.device_addr(d.id(), slot.addr));
        let device = match is_mapped(kind) {
            true => self.devices.iter().map(there).collect(),
            false => SmallVec::new(),
        };
        RawBlock {
            origin: Origin::Pooled(near),
            host: Some(HostAddr(slot.addr as usize)),
            device,
            bytes: slot.requested_bytes,
            held_bytes: slot.held_bytes,
            is_cut: true,
            kind,
            keep: None,
            pin: None,
        }
    }
}

impl BlockSource for PooledSource {
    fn near(&self, device: &Device) -> u32 {
        let node = self.numa.near(device);
        let pools = self.nodes.iter().position(|pools| pools.node == node);
        pools.unwrap_or_default() as u32
    }

    fn acquire_host(
        &self,
        kind: MemoryKind,
        near: u32,
        bytes: u64,
        reclaim: &dyn Fn(),
    ) -> Result<RawBlock, Refusal> {
        if kind == MemoryKind::Pageable {
            return self.plain.acquire_host(kind, near, bytes, reclaim);
        }
        if !self.can(kind) {
            let call = "cuMemHostGetDevicePointer";
            return Err(DriverError::new(ErrorCode::NotSupported, call).into());
        }
        if self.is_whole(kind, bytes) {
            let whole = self.core(kind, near).take_whole(bytes, reclaim)?;
            return Ok(self.whole_block(kind, bytes, whole));
        }
        let slot = self.core(kind, near).take(bytes, reclaim)?;
        Ok(self.block(kind, near, slot))
    }

    fn acquire_cached(&self, kind: MemoryKind, near: u32, bytes: u64) -> Option<RawBlock> {
        if kind == MemoryKind::Pageable || !self.can(kind) || self.is_whole(kind, bytes) {
            return None;
        }
        let slot = self.core(kind, near).take_free(bytes)?;
        Some(self.block(kind, near, slot))
    }

    fn acquire_device(
        &self,
        device: &Device,
        bytes: u64,
        site: &'static Location<'static>,
    ) -> Result<RawBlock> {
        self.plain.acquire_device(device, bytes, site)
    }

    fn release(&self, block: &mut RawBlock) -> bool {
        match block.origin {
            Origin::Pooled(near) => {
                self.core(block.kind, near).give_back(Slot {
                    addr: block.host.map_or(0, |host| host.0 as u64),
                    requested_bytes: block.bytes,
                    held_bytes: block.held_bytes,
                });
                true
            }
            Origin::Whole => block.pin.take().is_none_or(|pin| pin.give_back_whole()),
            _ => self.plain.release(block),
        }
    }

    fn trim(&self, target_bytes: u64) {
        let mut left_bytes = target_bytes;
        for pools in &self.nodes {
            pools.write_combined.trim(0);
            pools.cached.trim(left_bytes);
            left_bytes = left_bytes.saturating_sub(pools.cached.stats().pinned_bytes);
        }
    }

    fn tick(&self) {
        for pools in &self.nodes {
            pools.cached.decay();
            pools.write_combined.decay();
        }
    }

    fn pool_stats(&self, near: u32) -> Option<[PoolStats; 2]> {
        let pools = self.nodes.get(near as usize)?;
        Some([pools.cached.stats(), pools.write_combined.stats()])
    }

    fn reserve(&self, near: u32, bytes: u64, reclaim: &dyn Fn()) -> Result<()> {
        let core = self.core(MemoryKind::PageLocked, near);
        Ok(core.reserve(bytes, reclaim)?)
    }

    fn reserve_in_background(&self, near: u32, bytes: u64) -> Result<Reservation> {
        let pools = &self.nodes[near as usize];
        pools.background.reserve(&pools.cached, bytes)
    }
}

impl Memory {
    /// The same memory, but page-locked requests are served from memory on the NUMA node of this
    /// device. Otherwise it is on that of the first one, whoever asks. Blocks go back to where they
    /// came from, and are never handed out for a device on another node.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`](crate::Error::UnknownDevice) for a device that is none of this
    /// memory's.
    pub fn near(&self, device: &Device) -> Result<Memory> {
        self.check_mine(device)?;
        Ok(Memory {
            rules: Rules {
                near: self.inner.source.near(device),
                ..self.rules
            },
            ..self.clone()
        })
    }

    /// Makes sure that so many bytes in a row of ordinary page-locked memory are there and free.
    ///
    /// # Errors
    /// As [`Pool::reserve`](crate::pool::Pool::reserve);
    /// [`Error::ReservationEnded`](crate::Error::ReservationEnded) without a pool.
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        thread::refuse("reserving page-locked memory")?;
        self.inner
            .devices
            .iter()
            .try_for_each(Device::ensure_open)?;
        // What fails here is told by whoever asks that device.
        let reclaim = || drop(self.inner.collect());
        reclaim();
        let source = &self.inner.source;
        source.reserve(self.rules.near, bytes, &reclaim)
    }

    /// Has so many bytes more of ordinary page-locked memory made ready by a thread of the pool, in
    /// pieces of 64 MiB that can be used as soon as each is there; see
    /// [`Pool::reserve_in_background`](crate::pool::Pool::reserve_in_background).
    ///
    /// # Errors
    /// As there; [`Error::ReservationEnded`](crate::Error::ReservationEnded) without a pool.
    pub fn reserve_in_background(&self, bytes: u64) -> Result<Reservation> {
        let source = &self.inner.source;
        source.reserve_in_background(self.rules.near, bytes)
    }
}
