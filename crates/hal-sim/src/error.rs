//! The errors that several calls give, with their words.

use pinfold_hal::{DeviceId, DriverError, ErrorCode};

/// A parameter out of its range.
pub(crate) fn invalid(call: &'static str, what: impl Into<String>) -> DriverError {
    DriverError::with_detail(ErrorCode::InvalidValue, call, what)
}

/// A handle that names nothing here.
pub(crate) fn bad_handle(call: &'static str, what: impl Into<String>) -> DriverError {
    DriverError::with_detail(ErrorCode::InvalidHandle, call, what)
}

/// Memory that there is not; `what` says which, how much, and what limits it.
pub(crate) fn no_memory(call: &'static str, what: impl Into<String>) -> DriverError {
    DriverError::with_detail(ErrorCode::OutOfMemory, call, what)
}

/// Zero bytes where there must be some.
pub(crate) fn zero_bytes(call: &'static str) -> DriverError {
    invalid(call, "zero bytes")
}

/// An entry point that the driver does not have.
pub(crate) fn lacking(call: &'static str) -> DriverError {
    let what = "this driver has no such entry point; a newer driver has";
    DriverError::with_detail(ErrorCode::NotSupported, call, what)
}

/// A device that has to be opened first.
pub(crate) fn not_open(call: &'static str, device: DeviceId) -> DriverError {
    let what = format!("device {device} is not open");
    DriverError::with_detail(ErrorCode::InvalidContext, call, what)
}
