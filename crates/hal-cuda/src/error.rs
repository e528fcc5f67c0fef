//! From the driver's number to a `DriverError`.

use crate::load::{SUCCESS, Status, Symbols};
use pinfold_hal::{DriverError, ErrorCode, Result};
use std::ffi::{CStr, c_char};

impl Symbols {
    /// The driver's answer as a result. A code that `ErrorCode` has no name for is explained by the
    /// driver's own words.
    pub(crate) fn check(&self, call: &'static str, status: Status) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        let code = ErrorCode::from_number(status);
        let detail = match code {
            ErrorCode::Other(number) => self.words(number),
            _ => String::new(),
        };
        Err(DriverError::with_detail(code, call, detail))
    }

    /// The driver's name and description of a code; empty where it does not know the code.
    fn words(&self, status: Status) -> String {
        let mut name = std::ptr::null();
        let mut text = std::ptr::null();
        // SAFETY: both pointers are valid for the write. Any number may be asked about: for an
        // unknown one the driver stores null.
        unsafe {
            (self.cuGetErrorName)(status, &mut name);
            (self.cuGetErrorString)(status, &mut text);
        }
        // SAFETY: what the driver stored is null or a string that lives as long as the library.
        let (name, text) = unsafe { (owned(name), owned(text)) };
        match (name, text) {
            (Some(name), Some(text)) => format!("{name}, {text}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => String::new(),
        }
    }
}

/// A copy of a C string.
///
/// # Safety
/// `text` is null or points to a string with a NUL at its end.
unsafe fn owned(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null; the rest is the caller's promise.
    Some(
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    )
}

/// What an operation answers where this driver lacks the entry point it needs.
pub(crate) fn lacking(symbol: &'static str) -> DriverError {
    DriverError::with_detail(
        ErrorCode::NotSupported,
        symbol,
        "this driver has no such entry point; a newer driver has",
    )
}

/// A 64-bit size in the machine's own width.
///
/// # Errors
/// `InvalidValue` where it does not fit.
pub(crate) fn size(bytes: u64, call: &'static str) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| {
        DriverError::with_detail(
            ErrorCode::InvalidValue,
            call,
            format!("{bytes} bytes are more than this machine can address"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_void;

    unsafe extern "C" fn name(status: Status, out: *mut *const c_char) -> Status {
        let text = if status == 803 {
            c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH".as_ptr()
        } else {
            std::ptr::null()
        };
        // SAFETY: the caller passes a pointer that is valid for the write.
        unsafe { *out = text };
        u32::from(text.is_null())
    }

    /// A driver of which only the two functions that name codes are called.
    fn symbols() -> Symbols {
        let name = name as unsafe extern "C" fn(Status, *mut *const c_char) -> Status;
        // SAFETY: `words` calls the two functions that name codes, and both have `name`'s
        // signature.
        match unsafe { Symbols::resolve(|_| name as *const c_void) } {
            Ok((symbols, _)) => symbols,
            Err(symbol) => panic!("{symbol} was given"),
        }
    }

    #[test]
    fn success_is_ok_and_listed_codes_need_no_words() {
        let symbols = symbols();
        assert_eq!(symbols.check("cuInit", 0), Ok(()));
        let error = symbols.check("cuMemAlloc_v2", 2).unwrap_err();
        assert_eq!(
            error,
            DriverError::new(ErrorCode::OutOfMemory, "cuMemAlloc_v2")
        );
    }

    #[test]
    fn other_codes_carry_the_drivers_words() {
        let symbols = symbols();
        let error = symbols.check("cuInit", 803).unwrap_err();
        assert_eq!(error.code, ErrorCode::Other(803));
        assert!(error.detail.contains("SYSTEM_DRIVER_MISMATCH"), "{error}");
        let unknown = symbols.check("cuInit", 64_000).unwrap_err();
        assert_eq!(unknown.code, ErrorCode::Other(64_000));
        assert_eq!(unknown.detail, "");
    }

    #[test]
    fn sticky_codes_are_those_that_lose_the_context() {
        use cudarc::driver::sys::CUresult::*;
        let losing = [
            CUDA_ERROR_DEINITIALIZED,
            CUDA_ERROR_ECC_UNCORRECTABLE,
            CUDA_ERROR_NVLINK_UNCORRECTABLE,
            CUDA_ERROR_CONTAINED,
            CUDA_ERROR_ILLEGAL_ADDRESS,
            CUDA_ERROR_LAUNCH_TIMEOUT,
            CUDA_ERROR_CONTEXT_IS_DESTROYED,
            CUDA_ERROR_ASSERT,
            CUDA_ERROR_HARDWARE_STACK_ERROR,
            CUDA_ERROR_ILLEGAL_INSTRUCTION,
            CUDA_ERROR_MISALIGNED_ADDRESS,
            CUDA_ERROR_INVALID_ADDRESS_SPACE,
            CUDA_ERROR_INVALID_PC,
            CUDA_ERROR_LAUNCH_FAILED,
            CUDA_ERROR_TENSOR_MEMORY_LEAK,
        ];
        let sticky = (0..1100).filter(|&number| ErrorCode::from_number(number).is_sticky());
        assert!(sticky.eq(losing.map(|code| code as Status)));
    }

    #[test]
    fn a_lacking_symbol_is_not_supported_and_named() {
        let error = lacking("cuGraphLaunch");
        assert_eq!(error.code, ErrorCode::NotSupported);
        assert!(error.to_string().contains("cuGraphLaunch"));
    }
}
