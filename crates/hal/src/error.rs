//! Driver errors: a code with CUDA's own number, the call, and what the backend can add.

use std::fmt;
use std::str::FromStr;

/// What a backend operation returns.
pub type Result<T, E = DriverError> = std::result::Result<T, E>;

/// A driver call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {code}{}{detail}", if .detail.is_empty() { "" } else { ": " })]
pub struct DriverError {
    /// What the driver answered.
    pub code: ErrorCode,
    /// The driver's entry point, such as `cuMemHostAlloc`.
    pub call: &'static str,
    /// What the backend knows beyond the code; empty where it knows nothing.
    pub detail: String,
}

impl DriverError {
    /// An error without detail.
    pub fn new(code: ErrorCode, call: &'static str) -> Self {
        DriverError {
            code,
            call,
            detail: String::new(),
        }
    }

    /// An error that says more.
    pub fn with_detail(code: ErrorCode, call: &'static str, detail: impl Into<String>) -> Self {
        DriverError {
            code,
            call,
            detail: detail.into(),
        }
    }
}

/// A text that names no code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no error code: the names are like `OutOfMemory` or `CUDA_ERROR_OUT_OF_MEMORY`")]
pub struct ParseErrorCodeError(String);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal $cuda:literal;)*) => {
        /// A driver's answer, by CUDA's number (`CUresult` in the CUDA Driver API reference).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
            /// A code that is not listed here.
            Other(u32),
        }

        impl ErrorCode {
            /// CUDA's number.
            pub fn number(self) -> u32 {
                match self { $(ErrorCode::$name => $number,)* ErrorCode::Other(n) => n }
            }

            /// The code with CUDA's number.
            pub fn from_number(number: u32) -> Self {
                match number { $($number => ErrorCode::$name,)* n => ErrorCode::Other(n) }
            }

            /// CUDA's name.
            pub fn name(self) -> &'static str {
                match self { $(ErrorCode::$name => $cuda,)* ErrorCode::Other(_) => "CUDA_ERROR" }
            }
        }

        /// Reads a listed code by its name here or by CUDA's, such as `OutOfMemory` or
        /// `CUDA_ERROR_OUT_OF_MEMORY`.
        impl FromStr for ErrorCode {
            type Err = ParseErrorCodeError;

            fn from_str(text: &str) -> Result<Self, ParseErrorCodeError> {
                match text {
                    $(stringify!($name) | $cuda => Ok(ErrorCode::$name),)*
                    _ => Err(ParseErrorCodeError(text.into())),
                }
            }
        }
    };
}

codes! {
    /// A parameter is out of its range.
    InvalidValue = 1 "CUDA_ERROR_INVALID_VALUE";
    /// Not enough memory, of the host or the device: the call tells which.
    OutOfMemory = 2 "CUDA_ERROR_OUT_OF_MEMORY";
    /// The driver was not initialised.
    NotInitialized = 3 "CUDA_ERROR_NOT_INITIALIZED";
    /// The driver is shutting down.
    Deinitialized = 4 "CUDA_ERROR_DEINITIALIZED";
    /// The library is the stub that toolkits ship, not a driver.
    StubLibrary = 34 "CUDA_ERROR_STUB_LIBRARY";
    /// No device was found.
    NoDevice = 100 "CUDA_ERROR_NO_DEVICE";
    /// No such device.
    InvalidDevice = 101 "CUDA_ERROR_INVALID_DEVICE";
    /// The kernel image is broken.
    InvalidImage = 200 "CUDA_ERROR_INVALID_IMAGE";
    /// There is no usable context.
    InvalidContext = 201 "CUDA_ERROR_INVALID_CONTEXT";
    /// No kernel image fits this device.
    NoBinaryForGpu = 209 "CUDA_ERROR_NO_BINARY_FOR_GPU";
    /// The PTX did not compile.
    InvalidPtx = 218 "CUDA_ERROR_INVALID_PTX";
    /// The PTX is newer than the driver.
    UnsupportedPtxVersion = 222 "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
    /// The operating system refused.
    OperatingSystem = 304 "CUDA_ERROR_OPERATING_SYSTEM";
    /// A handle is not valid here.
    InvalidHandle = 400 "CUDA_ERROR_INVALID_HANDLE";
    /// The resource is not in a state for this.
    IllegalState = 401 "CUDA_ERROR_ILLEGAL_STATE";
    /// No such name in the module, or no such entry point in the driver.
    NotFound = 500 "CUDA_ERROR_NOT_FOUND";
    /// Not done yet.
    NotReady = 600 "CUDA_ERROR_NOT_READY";
    /// A kernel touched memory that it must not. Sticky.
    IllegalAddress = 700 "CUDA_ERROR_ILLEGAL_ADDRESS";
    /// The launch asks for more than the device has.
    LaunchOutOfResources = 701 "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
    /// A kernel ran too long. Sticky.
    LaunchTimeout = 702 "CUDA_ERROR_LAUNCH_TIMEOUT";
    /// The context is lost.
    ContextIsDestroyed = 709 "CUDA_ERROR_CONTEXT_IS_DESTROYED";
    /// The memory is page-locked already.
    HostMemoryAlreadyRegistered = 712 "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED";
    /// The memory is not registered.
    HostMemoryNotRegistered = 713 "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED";
    /// A kernel failed. Sticky.
    LaunchFailed = 719 "CUDA_ERROR_LAUNCH_FAILED";
    /// The call is not allowed here, such as from a host callback.
    NotPermitted = 800 "CUDA_ERROR_NOT_PERMITTED";
    /// Not supported by this device or driver.
    NotSupported = 801 "CUDA_ERROR_NOT_SUPPORTED";
    /// The call cannot be captured.
    StreamCaptureUnsupported = 900 "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    /// The capture was broken by an earlier call.
    StreamCaptureInvalidated = 901 "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    /// The capture would depend on work outside it.
    StreamCaptureIsolation = 905 "CUDA_ERROR_STREAM_CAPTURE_ISOLATION";
    /// A dependency of a captured stream on the default stream.
    StreamCaptureImplicit = 906 "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
    /// The event was recorded in a capture.
    CapturedEvent = 907 "CUDA_ERROR_CAPTURED_EVENT";
    /// Another thread's capture.
    StreamCaptureWrongThread = 908 "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD";
    /// The driver gives no reason.
    Unknown = 999 "CUDA_ERROR_UNKNOWN";
}

impl ErrorCode {
    /// True for codes after which the device's context is lost: every later call on it fails too,
    /// and the device no longer touches memory.
    pub fn is_sticky(self) -> bool {
        // Those without a name here: errors of ECC memory and NVLink that cannot be corrected, a
        // contained exception, an assertion, a broken stack, an illegal instruction, a misaligned
        // address, a wrong address space, a wrong program counter, and leaked tensor memory.
        matches!(
            self,
            ErrorCode::IllegalAddress
                | ErrorCode::LaunchTimeout
                | ErrorCode::LaunchFailed
                | ErrorCode::ContextIsDestroyed
                | ErrorCode::Deinitialized
                | ErrorCode::Other(214 | 220 | 226 | 710 | 714..=718 | 721)
        )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_codes_are_each_others_inverse() {
        for number in 0..1100 {
            assert_eq!(ErrorCode::from_number(number).number(), number);
        }
    }

    #[test]
    fn a_listed_code_is_read_by_either_name() {
        let listed = (0..1100).map(ErrorCode::from_number);
        for code in listed.filter(|code| !matches!(code, ErrorCode::Other(_))) {
            assert_eq!(code.name().parse(), Ok(code));
            assert_eq!(format!("{code:?}").parse(), Ok(code));
        }
        for text in ["", "CUDA_ERROR", "Other", "Other(3)", "2", "outofmemory"] {
            let error = text.parse::<ErrorCode>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn an_error_names_call_code_and_detail() {
        let plain = DriverError::new(ErrorCode::OutOfMemory, "cuMemHostAlloc");
        assert_eq!(
            plain.to_string(),
            "cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2)"
        );
        let full = DriverError::with_detail(ErrorCode::InvalidValue, "cuMemAlloc", "zero bytes");
        assert!(full.to_string().ends_with("(1): zero bytes"));
    }
}
