//! Whether this thread captures, and so what it must not ask the driver.
//!
//! While a thread captures, the driver refuses to wait, to be asked for progress, and to give or
//! take memory, and each such call breaks the capture. So they are refused here, before they are
//! made, and what can be put off is put off.

use crate::error::{Error, Result};
use std::cell::{Cell, RefCell};

thread_local! {
    static CAPTURES: Cell<bool> = const { Cell::new(false) };
    /// What was put off until the capture is over.
    static LATER: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// True while this thread captures.
#[inline]
pub(crate) fn captures() -> bool {
    CAPTURES.get()
}

pub(super) fn begin() {
    CAPTURES.set(true);
}

/// Ends what [`begin`] began, and does what was put off.
pub(super) fn end() {
    CAPTURES.set(false);
    let later = LATER.take();
    later.into_iter().for_each(|work| work());
}

/// Puts off what a drop cannot do while this thread captures. There is room for as much as is
/// dropped in one closure.
pub(crate) fn later(work: impl FnOnce() + 'static) {
    LATER.with_borrow_mut(|later| later.push(Box::new(work)));
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
