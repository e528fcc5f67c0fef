//! Kernels: PTX becomes a module, and a launch passes its arguments by address.

use crate::context::{Cuda, call};
use crate::stream;
use cudarc::driver::sys::{CUfunction, CUjit_option, CUmodule};
use pinfold_hal::{
    DriverError, ErrorCode, FunctionId, Launch, LaunchArg, ModuleId, ModuleImage, ModuleOps,
    Result, StreamId,
};
use std::ffi::{CString, c_uint, c_void};
use std::ptr;

/// Most arguments of one launch.
pub const LAUNCH_ARGS_MAX: usize = 64;

/// Room for what the driver's compiler says about broken PTX.
const LOG_BYTES: usize = 8192;

fn handle(module: ModuleId) -> CUmodule {
    ptr::with_exposed_provenance_mut(module.raw as usize)
}

/// The arguments' values, each in a slot of its own: the driver reads as many bytes of a slot as
/// the kernel's parameter has.
fn pack(args: &[LaunchArg]) -> Result<[[u8; 8]; LAUNCH_ARGS_MAX]> {
    let mut slots = [[0; 8]; LAUNCH_ARGS_MAX];
    if args.len() > LAUNCH_ARGS_MAX {
        return Err(DriverError::with_detail(
            ErrorCode::InvalidValue,
            "cuLaunchKernel",
            format!("{} arguments are more than {LAUNCH_ARGS_MAX}", args.len()),
        ));
    }
    for (slot, arg) in slots.iter_mut().zip(args) {
        match arg {
            LaunchArg::Memory(memory) => *slot = memory.addr.0.to_ne_bytes(),
            LaunchArg::Scalar(scalar) => {
                let bytes = scalar.bytes();
                slot[..bytes.len()].copy_from_slice(bytes);
            }
        }
    }
    Ok(slots)
}

/// Slots at the alignment of the widest parameter.
#[repr(align(8))]
struct Slots([[u8; 8]; LAUNCH_ARGS_MAX]);

/// The text before the first NUL, without white space at its ends.
fn log_text(log: &[u8]) -> String {
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}

impl ModuleOps for Cuda {
    fn module_load(&self, device: pinfold_hal::DeviceId, image: &ModuleImage) -> Result<ModuleId> {
        let at = self.enter(device)?;
        let call = "cuModuleLoadDataEx";
        let text = CString::new(image.ptx.as_bytes()).map_err(|e| {
            let detail = format!(
                "{}: NUL at byte {} of the PTX",
                image.name,
                e.nul_position()
            );
            DriverError::with_detail(ErrorCode::InvalidPtx, call, detail)
        })?;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values: [*mut c_void; 2] = [
            log.as_mut_ptr().cast(),
            // The driver takes the size in place of a pointer.
            ptr::without_provenance_mut(LOG_BYTES),
        ];
        let mut module = ptr::null_mut();
        // SAFETY: the PTX ends with a NUL; options and values are two each, the buffer has the size
        // passed, and all of them outlive the call.
        let result = unsafe {
            let count = options.len() as c_uint;
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            let text = text.as_ptr().cast();
            call!(
                at,
                cuModuleLoadDataEx(&mut module, text, count, options, values)
            )
        };
        if let Err(mut error) = result {
            error.detail = format!("{}: {} {}", image.name, error.detail, log_text(&log));
            return Err(error);
        }
        let raw = module.expose_provenance() as u64;
        Ok(ModuleId { device, raw })
    }

    unsafe fn module_unload(&self, module: ModuleId) -> Result<()> {
        let at = self.enter(module.device)?;
        // SAFETY: the caller promises a module of ours whose kernels are not in flight.
        unsafe { call!(at, cuModuleUnload(handle(module))) }
    }

    fn function(&self, module: ModuleId, name: &str) -> Result<FunctionId> {
        let at = self.enter(module.device)?;
        let absent = |mut error: DriverError| {
            error.detail = format!("kernel `{name}`");
            error
        };
        let text = CString::new(name)
            .map_err(|_| absent(DriverError::new(ErrorCode::NotFound, "cuModuleGetFunction")))?;
        let mut function = ptr::null_mut();
        // SAFETY: `function` is valid for the write, the name ends with a NUL, and a `ModuleId`
        // stands for a loaded module.
        unsafe {
            call!(
                at,
                cuModuleGetFunction(&mut function, handle(module), text.as_ptr())
            )
        }
        .map_err(absent)?;
        Ok(FunctionId {
            device: module.device,
            raw: function.expose_provenance() as u64,
        })
    }

    unsafe fn launch(
        &self,
        stream: StreamId,
        function: FunctionId,
        launch: &Launch<'_>,
    ) -> Result<()> {
        let at = self.enter(stream.device)?;
        let mut slots = Slots(pack(launch.args)?);
        let mut params = [ptr::null_mut::<c_void>(); LAUNCH_ARGS_MAX];
        for (param, slot) in params.iter_mut().zip(&mut slots.0) {
            *param = slot.as_mut_ptr().cast();
        }
        let kernel: CUfunction = ptr::with_exposed_provenance_mut(function.raw as usize);
        let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
        let shared = launch.shared_bytes;
        let (queue, params, extra) = (stream::handle(stream), params.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the caller promises that the arguments are those that the kernel takes, and their
        // memory. The driver copies the values, of at most eight bytes each, before it returns.
        unsafe {
            call!(
                at,
                cuLaunchKernel(kernel, gx, gy, gz, bx, by, bz, shared, queue, params, extra)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_hal::{Access, DeviceAddr, MemoryArg, Pattern, Scalar};

    #[test]
    fn addresses_and_scalars_are_packed_from_the_slots_start() {
        let memory = MemoryArg {
            addr: DeviceAddr(0x7f00_1122_3344_5566),
            bytes: 64,
            access: Access::Read,
            pattern: Pattern::ONCE,
        };
        let args = [
            LaunchArg::Memory(memory),
            LaunchArg::Scalar(Scalar::new(0xAABB_CCDDu32).unwrap()),
            LaunchArg::Scalar(Scalar::new(1.5f64).unwrap()),
        ];
        let slots = pack(&args).unwrap();
        assert_eq!(slots[0], 0x7f00_1122_3344_5566u64.to_ne_bytes());
        assert_eq!(slots[1][..4], 0xAABB_CCDDu32.to_ne_bytes());
        assert_eq!(slots[2], 1.5f64.to_ne_bytes());
        assert_eq!(std::mem::align_of::<Slots>(), 8);
    }

    #[test]
    fn too_many_arguments_are_refused() {
        let one = LaunchArg::Scalar(Scalar::new(1u32).unwrap());
        assert!(pack(&[one; LAUNCH_ARGS_MAX]).is_ok());
        let error = pack(&[one; LAUNCH_ARGS_MAX + 1]).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidValue);
        assert!(error.detail.contains("65"), "{error}");
    }

    #[test]
    fn the_compilers_log_ends_at_its_nul() {
        assert_eq!(
            log_text(b"ptxas error: line 3\n\0rest"),
            "ptxas error: line 3"
        );
        assert_eq!(log_text(&[0; 16]), "");
    }
}
