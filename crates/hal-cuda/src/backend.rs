//! Devices, their attributes, and the clock.

use crate::callback;
use crate::context::{Cuda, call};
use crate::machine::{self, Machine};
use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute};
use pinfold_hal::{
    BackendInfo, BackendOps, Capabilities, DeviceId, DeviceInfo, DriverError, ErrorCode, Result,
};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint};

/// `CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED`, which CUDA 13.0 brought.
const HOST_MEMORY_POOLS_SUPPORTED: c_uint = 144;

/// Longest name that is asked for, with its NUL.
const NAME_BYTES: usize = 256;

/// So many calls of `pause` spin for one that gives the processor away.
const PAUSES_PER_YIELD: u32 = 64;

impl Cuda {
    fn machine(&self) -> &Machine {
        self.machine.get_or_init(Machine::ask)
    }

    /// One attribute of a device. One that this driver does not know yet is reported as zero, which
    /// for every attribute used here means "it cannot".
    fn attribute(&self, device: CUdevice, attribute: c_uint) -> Result<u32> {
        let mut value = 0;
        // SAFETY: `value` is valid for the write; an unknown attribute is refused by the driver.
        let status = unsafe { (self.symbols.cuDeviceGetAttribute)(&mut value, attribute, device) };
        match self.symbols.check("cuDeviceGetAttribute", status) {
            Err(error) if error.code == ErrorCode::InvalidValue => Ok(0),
            Err(error) => Err(error),
            Ok(()) => Ok(u32::try_from(value).unwrap_or(0)),
        }
    }

    fn capabilities(&self, device: CUdevice) -> Result<Capabilities> {
        let number = |attribute: Attribute| self.attribute(device, attribute as c_uint);
        let yes = |attribute: Attribute| number(attribute).map(|value| value != 0);
        Ok(Capabilities {
            unified_addressing: yes(Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)?,
            can_map_host_memory: yes(Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)?,
            host_register: yes(Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)?,
            host_register_read_only: yes(
                Attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
            )?,
            host_pointer_for_registered: yes(
                Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
            )?,
            pageable_memory_access: yes(Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)?,
            concurrent_managed_access: yes(
                Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
            )?,
            host_native_atomics: yes(Attribute::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED)?,
            integrated: yes(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)?,
            async_engines: number(Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)?,
            memory_pools: yes(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)?,
            host_memory_pools: self.attribute(device, HOST_MEMORY_POOLS_SUPPORTED)? != 0,
            ipc_events: yes(Attribute::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED)?,
        })
    }

    fn name(&self, device: CUdevice) -> Result<String> {
        let mut text = [0 as c_char; NAME_BYTES];
        // SAFETY: the buffer is valid for writes of the length passed.
        let status = unsafe {
            (self.symbols.cuDeviceGetName)(text.as_mut_ptr(), NAME_BYTES as c_int, device)
        };
        self.symbols.check("cuDeviceGetName", status)?;
        Ok(text_of(&text))
    }

    fn pci_address(&self, device: CUdevice) -> Option<String> {
        let mut text = [0 as c_char; NAME_BYTES];
        // SAFETY: the buffer is valid for writes of the length passed.
        let status = unsafe {
            (self.symbols.cuDeviceGetPCIBusId)(text.as_mut_ptr(), NAME_BYTES as c_int, device)
        };
        self.symbols.check("cuDeviceGetPCIBusId", status).ok()?;
        Some(text_of(&text)).filter(|address| !address.is_empty())
    }

    fn memory_bytes(&self, device: CUdevice) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: `bytes` is valid for the write.
        let status = unsafe { (self.symbols.cuDeviceTotalMem_v2)(&mut bytes, device) };
        self.symbols.check("cuDeviceTotalMem_v2", status)?;
        Ok(bytes as u64)
    }
}

/// The text before the first NUL; empty where there is none.
fn text_of(buffer: &[c_char; NAME_BYTES]) -> String {
    let bytes = buffer.map(|unit| unit as u8);
    CStr::from_bytes_until_nul(&bytes)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default()
}

impl BackendOps for Cuda {
    fn info(&self) -> BackendInfo {
        BackendInfo {
            name: "cuda".to_owned(),
            simulated: false,
            driver_version: self.version,
            driver_release: self.machine().release.clone(),
            missing_symbols: self.missing.clone(),
        }
    }

    fn device_count(&self) -> Result<u32> {
        u32::try_from(self.slots.len())
            .map_err(|_| DriverError::new(ErrorCode::Unknown, "cuDeviceGetCount"))
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo> {
        callback::refuse_inside("cuDeviceGetAttribute")?;
        let handle = self.slot(device)?.handle;
        let number = |attribute: Attribute| self.attribute(handle, attribute as c_uint);
        let pci_address = self.pci_address(handle);
        let address = pci_address.as_deref();
        Ok(DeviceInfo {
            name: self.name(handle)?,
            simulated: false,
            compute_capability: (
                number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            l2_bytes: u64::from(number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
            memory_bytes: self.memory_bytes(handle)?,
            numa_node: address.and_then(machine::numa_node),
            link: address.and_then(|address| self.machine().link(address)),
            capabilities: self.capabilities(handle)?,
            pci_address,
        })
    }

    fn open(&self, device: DeviceId) -> Result<()> {
        self.retain(device)
    }

    unsafe fn close(&self, device: DeviceId) -> Result<()> {
        self.release(device)
    }

    fn device_memory(&self, device: DeviceId) -> Result<(u64, u64)> {
        let at = self.enter(device)?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are valid for the write.
        unsafe { call!(at, cuMemGetInfo_v2(&mut free, &mut total)) }?;
        Ok((free as u64, total as u64))
    }

    fn now_ns(&self) -> u64 {
        // 2^64 ns are 584 years.
        self.started.elapsed().as_nanos() as u64
    }

    fn pause(&self) {
        thread_local!(static PAUSES: Cell<u32> = const { Cell::new(0) });
        let pauses = PAUSES.get().wrapping_add(1);
        PAUSES.set(pauses);
        if pauses.is_multiple_of(PAUSES_PER_YIELD) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_their_nul() {
        let mut buffer = [0 as c_char; NAME_BYTES];
        for (unit, byte) in buffer.iter_mut().zip(*b"NVIDIA H200\0junk") {
            *unit = byte as c_char;
        }
        assert_eq!(text_of(&buffer), "NVIDIA H200");
        assert_eq!(text_of(&[b'x' as c_char; NAME_BYTES]), "");
    }
}
