//! A driver around a driver, with a hook before and after every call that can fail.

mod backend;
mod event;
mod graph;
mod memory;
mod module;
mod stream;

use crate::Call;
use pinfold_hal::{DeviceId, Driver, Result};
use std::fmt;
use std::sync::Arc;

/// What is done around every call. Called on the thread that makes the call; must not call the
/// driver that it hooks into.
pub trait Hook: Send + Sync {
    /// Asked before a call; `device` is `None` for [`Call::DeviceCount`] only.
    ///
    /// # Errors
    /// An error refuses the call: the inner driver never hears of it, and the caller gets the
    /// error. A [sticky](pinfold_hal::ErrorCode::is_sticky) code tells callers that the device no
    /// longer touches memory; a hook that answers with one has to see to it that this is so.
    fn before(&self, _call: Call, _device: Option<DeviceId>) -> Result<()> {
        Ok(())
    }

    /// Told after a call that was not refused; `ok` is false where the inner driver failed it.
    fn after(&self, _call: Call, _ok: bool) {}
}

/// Forwards every operation to an inner driver; those that can fail go by way of a [`Hook`].
pub struct Hooked<H: Hook> {
    inner: Arc<dyn Driver>,
    hook: H,
}

impl<H: Hook> Hooked<H> {
    /// The driver with the hook around it.
    pub fn new(inner: Arc<dyn Driver>, hook: H) -> Self {
        Hooked { inner, hook }
    }

    /// The hook.
    pub fn hook(&self) -> &H {
        &self.hook
    }

    /// The way of every call that is for one device.
    fn call<T>(
        &self,
        call: Call,
        device: DeviceId,
        operation: impl FnOnce(&dyn Driver) -> Result<T>,
    ) -> Result<T> {
        self.call_any(call, Some(device), operation)
    }

    /// The way of every call.
    fn call_any<T>(
        &self,
        call: Call,
        device: Option<DeviceId>,
        operation: impl FnOnce(&dyn Driver) -> Result<T>,
    ) -> Result<T> {
        self.hook.before(call, device)?;
        let outcome = operation(&*self.inner);
        self.hook.after(call, outcome.is_ok());
        outcome
    }
}

impl<H: Hook> fmt::Debug for Hooked<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked").finish_non_exhaustive()
    }
}
