//! The table of libcuda's entry points: found by name at start-up, typed, and complete.

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUhostFn,
    CUipcEventHandle, CUjit_option, CUmodule, CUresult, CUstream, CUstreamCaptureMode,
    CUstreamCaptureStatus,
};
use pinfold_hal::ErrorCode;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::fs;

/// What every entry point returns: a `CUresult` as its number, since a newer driver may answer with
/// one that no enum of ours lists.
pub(crate) type Status = c_uint;

/// The driver said yes.
pub(crate) const SUCCESS: Status = 0;

/// Why there is no CUDA backend on this machine, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// libcuda was not found.
    #[error(
        "libcuda was not found: install the NVIDIA driver (in a container, pass the GPU in, such \
         as with `--gpus all`)"
    )]
    NoLibrary,
    /// The library found is the stub that toolkits ship for linking.
    #[error(
        "the libcuda found first is the toolkit's stub, not a driver: take the folder `stubs` out \
         of LD_LIBRARY_PATH"
    )]
    StubLibrary,
    /// The driver works and sees no device.
    #[error(
        "the NVIDIA driver finds no device: look at `nvidia-smi -L` and at CUDA_VISIBLE_DEVICES"
    )]
    NoDevice,
    /// The library lacks an entry point that the backend cannot do without.
    #[error(
        "the NVIDIA driver ({driver}) has no entry point {symbol}: it is too old, install a newer \
         one"
    )]
    MissingSymbol {
        /// The entry point.
        symbol: &'static str,
        /// Which driver, as far as it tells.
        driver: String,
    },
    /// The driver is there and does not start.
    #[error(
        "the NVIDIA driver does not start: {call} answered {code}. Run `nvidia-smi`: it fails \
         alike where the kernel module is not loaded, or is of another release than libcuda"
    )]
    Broken {
        /// The entry point that failed.
        call: &'static str,
        /// What it answered.
        code: ErrorCode,
    },
}

/// An entry point's address in libcuda, or null where it has none of that name.
fn address(name: &str) -> *const c_void {
    // SAFETY: only called after `is_culib_present` said yes (`Loaded::open`), so that `culib` does
    // not panic. The symbol is read as an untyped address, which every symbol is.
    unsafe {
        let library = sys::culib();
        match library.get::<*const c_void>(name.as_bytes()) {
            Ok(symbol) => *symbol,
            Err(_) => std::ptr::null(),
        }
    }
}

macro_rules! entry_points {
    (
        required { $(fn $name:ident($($arg:ty),*);)* }
        numbered { $(fn $number:ident($($number_arg:ty),*);)* }
        optional { $(fn $option:ident($($option_arg:ty),*);)* }
    ) => {
        /// Every entry point in use, under CUDA's own name.
        #[allow(non_snake_case, reason = "fields carry the names of the C functions")]
        pub(crate) struct Symbols {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) -> Status,)*
            $(pub(crate) $number: unsafe extern "C" fn($($number_arg),*) -> Status,)*
            $(pub(crate) $option: Option<unsafe extern "C" fn($($option_arg),*) -> Status>,)*
        }

        // The compiler compares each signature with cudarc's, which is made from NVIDIA's header.
        const _: () = {
            $(let _: unsafe fn($($arg),*) -> CUresult = sys::$name;)*
            $(let _: unsafe fn($($option_arg),*) -> CUresult = sys::$option;)*
        };

        impl Symbols {
            /// Finds all of them through `address`, which gives null for an absent one. Also
            /// returns the names of optional ones that are absent.
            ///
            /// # Errors
            /// The name of the first required one that is absent.
            ///
            /// # Safety
            /// `address` gives the entry point of that name in a libcuda that stays loaded, or
            /// null.
            pub(crate) unsafe fn resolve(
                address: impl Fn(&str) -> *const c_void,
            ) -> Result<(Self, Vec<String>), &'static str> {
                let mut missing = Vec::new();
                let symbols = Symbols {
                    $($name: {
                        let found = address(stringify!($name));
                        if found.is_null() {
                            return Err(stringify!($name));
                        }
                        // SAFETY: not null, and a function of this name has this signature: it was
                        // compared with NVIDIA's header above. `CUresult` is a 32-bit number in C.
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                unsafe extern "C" fn($($arg),*) -> Status,
                            >(found)
                        }
                    },)*
                    $($number: {
                        let found = address(stringify!($number));
                        if found.is_null() {
                            return Err(stringify!($number));
                        }
                        // SAFETY: not null. The signature is the header's with an enum, 32 bits in
                        // C, as its number.
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                unsafe extern "C" fn($($number_arg),*) -> Status,
                            >(found)
                        }
                    },)*
                    $($option: {
                        let found = address(stringify!($option));
                        if found.is_null() {
                            missing.push(stringify!($option).to_owned());
                        }
                        // SAFETY: null becomes `None`; else as for the required ones.
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                Option<unsafe extern "C" fn($($option_arg),*) -> Status>,
                            >(found)
                        }
                    },)*
                };
                Ok((symbols, missing))
            }
        }
    };
}

entry_points! {
    required {
        fn cuInit(c_uint);
        fn cuDriverGetVersion(*mut c_int);
        fn cuDeviceGetCount(*mut c_int);
        fn cuDeviceGet(*mut CUdevice, c_int);
        fn cuDeviceGetName(*mut c_char, c_int, CUdevice);
        fn cuDeviceTotalMem_v2(*mut usize, CUdevice);
        fn cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
        fn cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
        fn cuDevicePrimaryCtxRelease_v2(CUdevice);
        fn cuCtxGetCurrent(*mut CUcontext);
        fn cuCtxSetCurrent(CUcontext);
        fn cuCtxPushCurrent_v2(CUcontext);
        fn cuCtxPopCurrent_v2(*mut CUcontext);
        fn cuCtxSynchronize();
        fn cuMemGetInfo_v2(*mut usize, *mut usize);
        fn cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        fn cuMemFreeHost(*mut c_void);
        fn cuMemHostRegister_v2(*mut c_void, usize, c_uint);
        fn cuMemHostUnregister(*mut c_void);
        fn cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
        fn cuMemAlloc_v2(*mut CUdeviceptr, usize);
        fn cuMemFree_v2(CUdeviceptr);
        fn cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
        fn cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
        fn cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
        fn cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
        fn cuMemsetD8Async(CUdeviceptr, c_uchar, usize, CUstream);
        fn cuStreamCreate(*mut CUstream, c_uint);
        fn cuStreamDestroy_v2(CUstream);
        fn cuStreamQuery(CUstream);
        fn cuStreamSynchronize(CUstream);
        fn cuStreamWaitEvent(CUstream, CUevent, c_uint);
        fn cuEventCreate(*mut CUevent, c_uint);
        fn cuEventDestroy_v2(CUevent);
        fn cuEventRecord(CUevent, CUstream);
        fn cuEventQuery(CUevent);
        fn cuEventSynchronize(CUevent);
        fn cuEventElapsedTime(*mut f32, CUevent, CUevent);
        fn cuModuleLoadDataEx(
            *mut CUmodule, *const c_void, c_uint, *mut CUjit_option, *mut *mut c_void
        );
        fn cuModuleUnload(CUmodule);
        fn cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
        fn cuLaunchKernel(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
            *mut *mut c_void, *mut *mut c_void
        );
    }
    // Here an enum argument is declared as its number, so that values newer than cudarc's header
    // can be asked about.
    numbered {
        fn cuDeviceGetAttribute(*mut c_int, c_uint, CUdevice);
        fn cuPointerGetAttribute(*mut c_void, c_uint, CUdeviceptr);
        fn cuGetErrorName(Status, *mut *const c_char);
        fn cuGetErrorString(Status, *mut *const c_char);
    }
    optional {
        fn cuLaunchHostFunc(CUstream, CUhostFn, *mut c_void);
        fn cuStreamGetCtx(CUstream, *mut CUcontext);
        fn cuIpcGetEventHandle(*mut CUipcEventHandle, CUevent);
        fn cuIpcOpenEventHandle(*mut CUevent, CUipcEventHandle);
        fn cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
        fn cuStreamEndCapture(CUstream, *mut CUgraph);
        fn cuStreamIsCapturing(CUstream, *mut CUstreamCaptureStatus);
        fn cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, c_ulonglong);
        fn cuGraphLaunch(CUgraphExec, CUstream);
        fn cuGraphDestroy(CUgraph);
        fn cuGraphExecDestroy(CUgraphExec);
    }
}

/// A driver that has started.
pub(crate) struct Loaded {
    pub(crate) symbols: Symbols,
    pub(crate) missing: Vec<String>,
    /// `major * 1000 + minor * 10`.
    pub(crate) version: u32,
    /// The devices' handles, by number.
    pub(crate) devices: Vec<CUdevice>,
}

impl Loaded {
    /// Finds libcuda, starts it and lists its devices. Creates no context.
    pub(crate) fn open() -> Result<Self, LoadError> {
        // SAFETY: loading a library runs its initialisers; libcuda's are meant for that.
        if !unsafe { sys::is_culib_present() } {
            return Err(LoadError::NoLibrary);
        }
        // SAFETY: `address` looks into libcuda, which cudarc keeps loaded for ever.
        let (symbols, missing) = unsafe { Symbols::resolve(address) }.map_err(missing_symbol)?;
        // SAFETY: zero is the only value that the driver takes.
        judge_start(unsafe { (symbols.cuInit)(0) })?;
        let version = version(&symbols)?;
        let devices = devices(&symbols)?;
        Ok(Loaded {
            symbols,
            missing,
            version,
            devices,
        })
    }
}

/// What the answer of `cuInit` means.
fn judge_start(status: Status) -> Result<(), LoadError> {
    if status == SUCCESS {
        return Ok(());
    }
    Err(match ErrorCode::from_number(status) {
        ErrorCode::StubLibrary => LoadError::StubLibrary,
        ErrorCode::NoDevice => LoadError::NoDevice,
        code => LoadError::Broken {
            call: "cuInit",
            code,
        },
    })
}

/// The driver's CUDA version.
fn version(symbols: &Symbols) -> Result<u32, LoadError> {
    let mut version = 0;
    // SAFETY: `version` is valid for the write.
    let status = unsafe { (symbols.cuDriverGetVersion)(&mut version) };
    broken("cuDriverGetVersion", status)?;
    Ok(u32::try_from(version).unwrap_or(0))
}

/// The handles of all devices.
fn devices(symbols: &Symbols) -> Result<Vec<CUdevice>, LoadError> {
    let mut count = 0;
    // SAFETY: `count` is valid for the write.
    let status = unsafe { (symbols.cuDeviceGetCount)(&mut count) };
    broken("cuDeviceGetCount", status)?;
    let mut handles = Vec::new();
    for number in 0..count {
        let mut handle = 0;
        // SAFETY: `handle` is valid for the write, and `number` is below the count.
        let status = unsafe { (symbols.cuDeviceGet)(&mut handle, number) };
        broken("cuDeviceGet", status)?;
        handles.push(handle);
    }
    if handles.is_empty() {
        return Err(LoadError::NoDevice);
    }
    Ok(handles)
}

/// A failure of a call that does not fail on a driver that works.
fn broken(call: &'static str, status: Status) -> Result<(), LoadError> {
    if status == SUCCESS {
        return Ok(());
    }
    let code = ErrorCode::from_number(status);
    Err(LoadError::Broken { call, code })
}

fn missing_symbol(symbol: &'static str) -> LoadError {
    LoadError::MissingSymbol {
        symbol,
        driver: kernel_module_release().unwrap_or_else(|| "of unknown release".to_owned()),
    }
}

/// The release of the loaded kernel module, such as `580.159.04`.
pub(crate) fn kernel_module_release() -> Option<String> {
    let text = fs::read_to_string("/sys/module/nvidia/version").ok()?;
    let release = text.trim();
    (!release.is_empty()).then(|| release.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in for an entry point; never called.
    fn somewhere() -> *const c_void {
        judge_start as fn(Status) -> Result<(), LoadError> as *const c_void
    }

    #[test]
    fn a_missing_required_symbol_is_named() {
        let without = |absent: &'static str| {
            move |name: &str| {
                if name == absent {
                    std::ptr::null()
                } else {
                    somewhere()
                }
            }
        };
        // SAFETY: the table is dropped without a call through it.
        let result = unsafe { Symbols::resolve(without("cuMemHostAlloc")) };
        assert_eq!(result.err(), Some("cuMemHostAlloc"));
        // SAFETY: as above.
        let result = unsafe { Symbols::resolve(without("cuDeviceGetAttribute")) };
        assert_eq!(result.err(), Some("cuDeviceGetAttribute"));
    }

    #[test]
    fn missing_optional_symbols_are_listed_and_have_no_pointer() {
        let address = |name: &str| {
            if name.starts_with("cuGraph") {
                std::ptr::null()
            } else {
                somewhere()
            }
        };
        // SAFETY: the table is dropped without a call through it.
        let Ok((symbols, missing)) = (unsafe { Symbols::resolve(address) }) else {
            panic!("all required symbols were given");
        };
        assert_eq!(missing.len(), 4);
        assert!(missing.contains(&"cuGraphLaunch".to_owned()));
        assert!(symbols.cuGraphLaunch.is_none());
        assert!(symbols.cuLaunchHostFunc.is_some());
    }

    #[test]
    fn the_answer_of_cu_init_is_told_apart() {
        assert_eq!(judge_start(0), Ok(()));
        assert_eq!(judge_start(34), Err(LoadError::StubLibrary));
        assert_eq!(judge_start(100), Err(LoadError::NoDevice));
        let Err(broken) = judge_start(803) else {
            panic!("803 is a failure");
        };
        assert!(broken.to_string().contains("803"), "{broken}");
        assert!(broken.to_string().contains("nvidia-smi"), "{broken}");
    }

    #[test]
    fn a_missing_symbol_says_what_to_do() {
        let error = missing_symbol("cuEventQuery").to_string();
        assert!(error.contains("cuEventQuery"), "{error}");
        assert!(error.contains("install a newer one"), "{error}");
    }
}
