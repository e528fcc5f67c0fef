//! Kernels: PTX that is looked at, and twins that are run.

use crate::Sim;
use crate::error::{bad_handle, invalid};
use crate::operation::{KernelRequest, Request};
use crate::world::World;
use pinfold_hal::{
    DeviceId, DriverError, ErrorCode, FunctionId, Launch, ModuleId, ModuleImage, ModuleOps, Result,
    StreamId, Twin,
};
use std::collections::BTreeMap;

/// Most threads of a block, and in x, y and z (CUDA C++ Programming Guide, technical
/// specifications).
const BLOCK_THREADS_MAX: u64 = 1024;
const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];
/// Most blocks of a grid in x, y and z (as above).
const GRID_MAX: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Most dynamic shared memory of a block without asking for more (as above).
const SHARED_BYTES_MAX: u32 = 48 << 10;
/// Most arguments: 4 KiB of parameters of eight bytes.
const ARGS_MAX: usize = 512;

/// All modules and the kernels found in them.
#[derive(Default)]
pub(crate) struct Modules {
    modules: BTreeMap<u64, Module>,
    functions: BTreeMap<u64, Function>,
}

struct Module {
    device: DeviceId,
    image: ModuleImage,
}

struct Function {
    module: u64,
    device: DeviceId,
    twin: Twin,
}

impl Modules {
    pub(crate) fn count(&self) -> usize {
        self.modules.len()
    }
}

impl ModuleOps for Sim {
    fn module_load(&self, device: DeviceId, image: &ModuleImage) -> Result<ModuleId> {
        let call = "cuModuleLoadDataEx";
        let mut world = self.enter(call)?;
        world.usable(device, call)?;
        world.refuse_in_capture(call)?;
        let cost_ns = world.profile().calls.module_load_ns.value;
        world.spend(cost_ns);
        let directive = |name: &str| image.ptx.split_whitespace().any(|word| word == name);
        if !directive(".version") || !directive(".target") {
            let what = format!("{}: no .version and .target: this is no PTX", image.name);
            return Err(DriverError::with_detail(ErrorCode::InvalidPtx, call, what));
        }
        let raw = world.new_id();
        let module = Module {
            device,
            image: image.clone(),
        };
        world.modules.modules.insert(raw, module);
        Ok(ModuleId { device, raw })
    }

    unsafe fn module_unload(&self, module: ModuleId) -> Result<()> {
        let call = "cuModuleUnload";
        let mut world = self.enter(call)?;
        world.module(module, call)?;
        let device = module.device;
        let busy = world
            .operations
            .values()
            .any(|op| op.device == device && op.module == Some(module.raw));
        if busy {
            self.hazards
                .note(call, "a kernel of the module is in flight");
            let tails = world.device_tails(device);
            world.wait_for(&tails);
        }
        world.modules.modules.remove(&module.raw);
        world
            .modules
            .functions
            .retain(|_, function| function.module != module.raw);
        Ok(())
    }

    fn function(&self, module: ModuleId, name: &str) -> Result<FunctionId> {
        let call = "cuModuleGetFunction";
        let mut world = self.enter(call)?;
        let image = &world.module(module, call)?.image;
        let not_found = |what: &str| {
            let what = format!("{}: kernel {name} {what}", image.name);
            DriverError::with_detail(ErrorCode::NotFound, call, what)
        };
        if name.is_empty() {
            return Err(invalid(
                call,
                format!("{}: a kernel without a name", image.name),
            ));
        }
        if !has_entry(&image.ptx, name) {
            return Err(not_found("is not in the PTX"));
        }
        let twin = image.twins.iter().find(|twin| twin.name == name);
        let twin = twin
            .cloned()
            .ok_or_else(|| not_found("has no twin to simulate it"))?;
        let raw = world.new_id();
        let function = Function {
            module: module.raw,
            device: module.device,
            twin,
        };
        world.modules.functions.insert(raw, function);
        Ok(FunctionId {
            device: module.device,
            raw,
        })
    }

    unsafe fn launch(
        &self,
        stream: StreamId,
        function: FunctionId,
        launch: &Launch<'_>,
    ) -> Result<()> {
        let call = "cuLaunchKernel";
        let mut world = self.enter(call)?;
        world.stream(stream, call)?;
        let Some(held) = world.modules.functions.get(&function.raw) else {
            return Err(world.no_module(function.raw, call));
        };
        if held.device != stream.device {
            return Err(bad_handle(
                call,
                "kernel and stream are of different devices",
            ));
        }
        check_shape(call, launch)?;
        let request = Request::Kernel(KernelRequest {
            module: held.module,
            twin: held.twin.clone(),
            grid: launch.grid,
            block: launch.block,
            args: launch.args.to_vec(),
        });
        let cost_ns = world.profile().calls.launch_call_ns.value;
        world.spend(cost_ns);
        world.enqueue(call, stream, request)
    }
}

impl World {
    fn module(&mut self, id: ModuleId, call: &'static str) -> Result<&Module> {
        self.usable(id.device, call)?;
        if !self.modules.modules.contains_key(&id.raw) {
            return Err(self.no_module(id.raw, call));
        }
        let module = self.modules.modules.get(&id.raw);
        module
            .filter(|module| module.device == id.device)
            .ok_or_else(|| bad_handle(call, "the module is of another device"))
    }

    fn no_module(&self, raw: u64, call: &'static str) -> DriverError {
        if self.was_given_out(raw) {
            self.hazards
                .note(call, format!("module or kernel {raw} was unloaded"));
        }
        bad_handle(call, format!("there is no module or kernel {raw}"))
    }
}

/// True where the PTX has `.entry NAME`.
fn has_entry(ptx: &str, name: &str) -> bool {
    let mut after_entry = ptx.split(".entry").skip(1);
    after_entry.any(|text| {
        let found = text.trim_start();
        let end = found.find(|c: char| !(c.is_alphanumeric() || "_$%".contains(c)));
        &found[..end.unwrap_or(found.len())] == name
    })
}

fn check_shape(call: &'static str, launch: &Launch<'_>) -> Result<()> {
    let threads: u64 = launch.block.iter().map(|&n| u64::from(n)).product();
    for (what, shape, most) in [
        ("grid", launch.grid, GRID_MAX),
        ("block", launch.block, BLOCK_MAX),
    ] {
        if shape.iter().zip(most).any(|(&n, most)| n == 0 || n > most) {
            let what = format!("{what} {shape:?}; 1 to {most:?} is possible");
            return Err(invalid(call, what));
        }
    }
    if threads > BLOCK_THREADS_MAX {
        let what = format!("{threads} threads in a block; {BLOCK_THREADS_MAX} are possible");
        return Err(invalid(call, what));
    }
    if launch.shared_bytes > SHARED_BYTES_MAX {
        let what = format!(
            "{} bytes of shared memory in a block; {SHARED_BYTES_MAX} are possible",
            launch.shared_bytes
        );
        return Err(invalid(call, what));
    }
    if launch.args.len() > ARGS_MAX {
        let what = format!("{} arguments; {ARGS_MAX} are possible", launch.args.len());
        return Err(invalid(call, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_their_whole_name() {
        let ptx = ".version 7.0\n.visible .entry saxpy(\n.param .u64 a) { }\n.entry\tfoo_2 () {}";
        assert!(has_entry(ptx, "saxpy") && has_entry(ptx, "foo_2"));
        assert!(!has_entry(ptx, "sax") && !has_entry(ptx, "foo") && !has_entry(ptx, ""));
    }
}
