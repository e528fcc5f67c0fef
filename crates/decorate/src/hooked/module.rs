//! Kernels, forwarded.

use super::{Hook, Hooked};
use crate::Call;
use pinfold_hal::{
    DeviceId, FunctionId, Launch, ModuleId, ModuleImage, ModuleOps, Result, StreamId,
};

impl<H: Hook> ModuleOps for Hooked<H> {
    fn module_load(&self, device: DeviceId, image: &ModuleImage) -> Result<ModuleId> {
        self.call(Call::ModuleLoad, device, |inner| {
            inner.module_load(device, image)
        })
    }

    unsafe fn module_unload(&self, module: ModuleId) -> Result<()> {
        self.call(Call::ModuleUnload, module.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.module_unload(module) }
        })
    }

    fn function(&self, module: ModuleId, name: &str) -> Result<FunctionId> {
        self.call(Call::Function, module.device, |inner| {
            inner.function(module, name)
        })
    }

    unsafe fn launch(
        &self,
        stream: StreamId,
        function: FunctionId,
        launch: &Launch<'_>,
    ) -> Result<()> {
        self.call(Call::Launch, stream.device, |inner| {
            // SAFETY: the caller's promise, passed on.
            unsafe { inner.launch(stream, function, launch) }
        })
    }
}
