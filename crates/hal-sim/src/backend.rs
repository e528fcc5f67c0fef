//! The machine: what the profile says it is, and its virtual clock.

use crate::address::Cover;
use crate::hazard;
use crate::world::World;
use crate::{Sim, error};
use pinfold_hal::{
    BackendInfo, BackendOps, Capabilities, DeviceId, DeviceInfo, Hazard, HostAddr, HostWork,
    PcieLink, Result,
};
use pinfold_model::sections::{Device, DeviceCapabilities};

/// The driver version that is played.
const DRIVER_VERSION: u32 = 13000;

impl BackendOps for Sim {
    fn info(&self) -> BackendInfo {
        BackendInfo {
            name: "sim".into(),
            simulated: true,
            driver_version: DRIVER_VERSION,
            driver_release: None,
            missing_symbols: self.missing_symbols.clone(),
        }
    }

    fn device_count(&self) -> Result<u32> {
        Ok(self.enter("cuDeviceGetCount")?.devices.len() as u32)
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo> {
        let call = "cuDeviceGetAttribute";
        let mut world = self.enter(call)?;
        world.existing(device, call)?;
        let split = world.options.split_addresses;
        let profile = world.profile();
        let facts = &profile.devices[device.0 as usize];
        Ok(device_info(device, &profile.name, facts, split))
    }

    fn open(&self, device: DeviceId) -> Result<()> {
        let call = "cuDevicePrimaryCtxRetain";
        let mut world = self.enter(call)?;
        let cost_ns = world.profile().calls.context_open_ns.value;
        let opened = world.existing(device, call)?;
        let first = opened.opens == 0;
        opened.opens = opened
            .opens
            .checked_add(1)
            .ok_or_else(|| error::invalid(call, "opened too often"))?;
        if first {
            world.spend(cost_ns);
        }
        Ok(())
    }

    unsafe fn close(&self, device: DeviceId) -> Result<()> {
        let call = "cuDevicePrimaryCtxRelease";
        let mut world = self.enter(call)?;
        let closed = world.existing(device, call)?;
        match closed.opens {
            0 => return Err(error::not_open(call, device)),
            1 => world.end_context(call, device),
            _ => {}
        }
        world.existing(device, call)?.opens -= 1;
        Ok(())
    }

    fn device_memory(&self, device: DeviceId) -> Result<(u64, u64)> {
        let call = "cuMemGetInfo";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        let total = world.profile().devices[device.0 as usize].memory_bytes;
        Ok((total.saturating_sub(world.blocks.used_bytes(device)), total))
    }

    fn now_ns(&self) -> u64 {
        hazard::callback_ps().unwrap_or_else(|| self.world.lock().clock_ps) / 1000
    }

    fn host_work(&self, work: HostWork) {
        if let Ok(mut world) = self.enter("host work") {
            let nanoseconds = world.host_work_ns(work);
            world.spend(nanoseconds);
        }
    }

    fn pause(&self) {
        if let Ok(mut world) = self.enter("pause") {
            world.pause();
        }
    }

    fn hazards(&self) -> Vec<Hazard> {
        self.hazards.all()
    }
}

impl World {
    /// The end of a device's context: what was in flight ends, and a lost device is as new.
    fn end_context(&mut self, call: &'static str, device: DeviceId) {
        let tails = self.device_tails(device);
        let in_flight = tails
            .iter()
            .filter(|tail| self.operations.contains_key(&tail.id));
        if in_flight.count() > 0 && !self.is_lost(device) {
            self.hazards
                .note(call, format!("device {device} closed with work in flight"));
        }
        self.wait_for(&tails);
        if let Some(device) = self.devices.get_mut(device.0 as usize) {
            device.lost = None;
            device.orphans.clear();
        }
    }

    fn host_work_ns(&self, work: HostWork) -> f64 {
        let rates = &self.profile().host_rates;
        let write_combined = |addr: HostAddr| {
            let cover = self.host.cover(addr.0, 1);
            matches!(
                cover,
                Cover::PageLocked {
                    write_combined: true,
                    ..
                }
            )
        };
        let (bytes, rate) = match work {
            HostWork::Compute { nanoseconds } => return nanoseconds as f64,
            HostWork::Wake => return self.profile().staging.wake_ns.value,
            HostWork::Copy { bytes, threads } => {
                let rate = self.profile().staging.thread_bytes_per_s.value;
                return bytes as f64 / (rate * f64::from(threads.max(1))) * 1e9;
            }
            HostWork::Write { addr, bytes } if write_combined(addr) => {
                (bytes, rates.write_write_combined_bytes_per_s)
            }
            HostWork::Write { bytes, .. } => (bytes, rates.write_page_locked_bytes_per_s),
            HostWork::Read { addr, bytes } if write_combined(addr) => {
                (bytes, rates.read_write_combined_bytes_per_s)
            }
            HostWork::Read { bytes, .. } => (bytes, rates.read_page_locked_bytes_per_s),
        };
        bytes as f64 / rate.value * 1e9
    }
}

fn device_info(id: DeviceId, profile: &str, facts: &Device, split: bool) -> DeviceInfo {
    let link = (facts.pcie_generation > 0).then_some(PcieLink {
        generation_now: facts.pcie_generation,
        generation_max: facts.pcie_generation,
        width_now: facts.pcie_width,
        width_max: facts.pcie_width,
    });
    DeviceInfo {
        name: format!("simulated {profile}"),
        simulated: true,
        compute_capability: (facts.compute_capability[0], facts.compute_capability[1]),
        multiprocessors: facts.multiprocessors,
        l2_bytes: facts.l2_bytes,
        memory_bytes: facts.memory_bytes,
        pci_address: link.map(|_| format!("0000:{:02x}:00.0", id.0 + 1)),
        numa_node: Some(facts.numa_node),
        link,
        capabilities: capabilities(&facts.capabilities, split),
    }
}

fn capabilities(c: &DeviceCapabilities, split: bool) -> Capabilities {
    Capabilities {
        unified_addressing: c.unified_addressing,
        can_map_host_memory: c.can_map_host_memory,
        host_register: c.host_register,
        host_register_read_only: c.host_register_read_only,
        host_pointer_for_registered: c.host_pointer_for_registered && !split,
        pageable_memory_access: c.pageable_memory_access,
        concurrent_managed_access: c.concurrent_managed_access,
        host_native_atomics: c.host_native_atomics,
        integrated: c.integrated,
        async_engines: c.async_engines,
        memory_pools: c.memory_pools,
        host_memory_pools: c.host_memory_pools,
        ipc_events: c.ipc_events,
    }
}
