//! Whether this thread captures, and so what it must not ask the driver.
//!
//! While a thread captures, the driver refuses to wait, to be asked for progress, and to give or
//! take memory, and each such call breaks the capture. So they are refused here, before they are
//! made, and what can be put off is put off.

use crate::error::{Error, Result};
use std::cell::Cell;

thread_local! {
    static CAPTURES: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread captures.
#[inline]
pub(crate) fn captures() -> bool {
    CAPTURES.get()
}

pub(super) fn set_captures(on: bool) {
    CAPTURES.set(on);
}

/// Refuses what would break this thread's capture.
///
/// # Errors
/// [`Error::Capturing`] while this thread captures.
#[inline]
pub(crate) fn refuse(doing: &'static str) -> Result<()> {
    match captures() {
        true => Err(Error::Capturing { doing }),
        false => Ok(()),
    }
}
