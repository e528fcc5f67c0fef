//! Why a test failed, and where in the suite.

use pinfold_hal::{DriverError, ErrorCode};
use std::fmt;
use std::panic::Location;

/// What a test and its helpers return.
pub type Check<T> = Result<T, Failure>;

/// What was wrong, and the line of the suite that saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    what: String,
    at: &'static Location<'static>,
}

impl Failure {
    /// A failure at the caller's line.
    #[track_caller]
    pub fn new(what: impl Into<String>) -> Self {
        Failure {
            what: what.into(),
            at: Location::caller(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.at.file().rsplit('/').next().unwrap_or_default();
        write!(f, "{} [{file}:{}]", self.what, self.at.line())
    }
}

impl std::error::Error for Failure {}

impl From<DriverError> for Failure {
    #[track_caller]
    fn from(error: DriverError) -> Self {
        Failure::new(format!("not expected to fail: {error}"))
    }
}

/// Fails with the message unless the condition holds.
#[track_caller]
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check<()> {
    if holds {
        return Ok(());
    }
    Err(Failure::new(what()))
}

/// Fails unless the call was refused with one of the codes.
#[track_caller]
pub(crate) fn refused<T>(
    what: &str,
    result: pinfold_hal::Result<T>,
    codes: &[ErrorCode],
) -> Check<()> {
    match result {
        Ok(_) => Err(Failure::new(format!(
            "{what}: succeeded, not {}",
            listed(codes)
        ))),
        Err(error) if codes.contains(&error.code) => Ok(()),
        Err(error) => Err(Failure::new(format!(
            "{what}: {error}, not {}",
            listed(codes)
        ))),
    }
}

fn listed(codes: &[ErrorCode]) -> String {
    let names: Vec<_> = codes.iter().map(|code| code.to_string()).collect();
    names.join(" or ")
}

/// Fails unless both are equal; names the first byte that differs.
#[track_caller]
pub(crate) fn same_bytes(what: &str, got: &[u8], wanted: &[u8]) -> Check<()> {
    if got == wanted {
        return Ok(());
    }
    if got.len() != wanted.len() {
        let (got, wanted) = (got.len(), wanted.len());
        return Err(Failure::new(format!("{what}: {got} bytes, not {wanted}")));
    }
    let differing = got.iter().zip(wanted).filter(|(g, w)| g != w).count();
    let first = got
        .iter()
        .zip(wanted)
        .position(|(g, w)| g != w)
        .unwrap_or(0);
    Err(Failure::new(format!(
        "{what}: {differing} of {} bytes differ, the first at {first}: {:#04x}, not {:#04x}",
        got.len(),
        got[first],
        wanted[first],
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_error_tells_the_line_of_the_question_mark() {
        fn failing() -> Check<()> {
            Err(DriverError::new(ErrorCode::OutOfMemory, "cuMemAlloc"))?;
            Ok(())
        }
        let text = failing().unwrap_err().to_string();
        assert!(
            text.contains("cuMemAlloc") && text.contains("[failure.rs:"),
            "{text}"
        );
    }

    #[test]
    fn a_refusal_has_to_be_the_right_one() {
        let error = || Err::<(), _>(DriverError::new(ErrorCode::NotFound, "cuModuleGetFunction"));
        assert!(refused("x", error(), &[ErrorCode::NotFound]).is_ok());
        assert!(refused("x", error(), &[ErrorCode::InvalidValue]).is_err());
        assert!(refused("x", Ok(()), &[ErrorCode::NotFound]).is_err());
    }

    #[test]
    fn the_first_differing_byte_is_named() {
        let text = same_bytes("copy", &[1, 2, 9, 8], &[1, 2, 3, 4])
            .unwrap_err()
            .to_string();
        assert!(text.contains("2 of 4") && text.contains("at 2"), "{text}");
        assert!(same_bytes("copy", &[1], &[1, 2]).is_err());
    }
}
