//! The suite's kernels, loaded, and how to catch the device at work.

use crate::failure::{Check, Failure};
use crate::fixture::{Context, DeviceMemory};
use crate::image;
use bytemuck::Pod;
use pinfold_hal::{
    Access, DeviceAddr, FunctionId, Launch, LaunchArg, MemoryArg, ModuleId, Pattern, Scalar,
    StreamId,
};

/// Threads a block.
const BLOCK: u32 = 128;

/// What a spinning kernel reads, and on a simulated device takes its time from.
const SCRATCH_BYTES: u64 = 1 << 20;

/// A pass over the scratch memory takes a device of some terabytes a second about so many cycles.
const CYCLES_PER_PASS: f64 = 512.0;

/// How long a stream is held, in cycles: some milliseconds, and longer in each further try.
const SPIN_CYCLES: [u64; 3] = [20_000_000, 80_000_000, 320_000_000];

/// A range that a kernel may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) addr: DeviceAddr,
    pub(crate) bytes: u64,
}

/// The suite's module, unloaded when it drops, after all work of the device.
pub(crate) struct Kernels<'a> {
    context: &'a Context,
    pub(crate) module: ModuleId,
    pub(crate) add: FunctionId,
    publish: FunctionId,
    spin: FunctionId,
    scratch: DeviceMemory<'a>,
}

/// Unloads the module unless all of it could be set up.
struct Module<'a>(&'a Context, ModuleId);

impl Drop for Module<'_> {
    fn drop(&mut self) {
        unload(self.0, self.1);
    }
}

fn unload(context: &Context, module: ModuleId) {
    context.settle();
    // SAFETY: made by `module_load`; all work of the device is done.
    let result = unsafe { context.driver.module_unload(module) };
    context.released("a module", result);
}

impl Context {
    /// Loads the suite's kernels.
    #[track_caller]
    pub(crate) fn kernels(&self) -> Check<Kernels<'_>> {
        let guard = Module(self, self.driver.module_load(self.device, &image::image())?);
        let module = guard.1;
        let scratch = self.device_memory(SCRATCH_BYTES)?;
        let stream = self.driver.default_stream(self.device);
        scratch.fill(stream, 0, 0, SCRATCH_BYTES)?;
        let kernels = Kernels {
            context: self,
            module,
            add: self.driver.function(module, image::ADD)?,
            publish: self.driver.function(module, image::PUBLISH)?,
            spin: self.driver.function(module, image::SPIN)?,
            scratch,
        };
        std::mem::forget(guard);
        // A driver may load a kernel at its first launch, and wait for other streams to do so.
        kernels.spin(stream, 1)?;
        self.driver.device_synchronize(self.device)?;
        Ok(kernels)
    }
}

/// Something that a kernel may be given as a value.
#[track_caller]
pub(crate) fn scalar<T: Pod>(value: T) -> Check<LaunchArg> {
    let scalar = Scalar::new(value).ok_or_else(|| Failure::new("a scalar above eight bytes"))?;
    Ok(LaunchArg::Scalar(scalar))
}

pub(crate) fn memory(place: Place, access: Access) -> LaunchArg {
    LaunchArg::Memory(MemoryArg {
        addr: place.addr,
        bytes: place.bytes,
        access,
        pattern: Pattern::ONCE,
    })
}

impl Kernels<'_> {
    /// Enqueues `dst[i] += 3 * src[i] + 1` over the smaller of both ranges.
    #[track_caller]
    pub(crate) fn add(&self, stream: StreamId, dst: Place, src: Place) -> Check<()> {
        let count = (dst.bytes.min(src.bytes) / 4) as u32;
        let args = [
            memory(dst, Access::ReadWrite),
            memory(src, Access::Read),
            scalar(count)?,
        ];
        self.launch(stream, self.add, count.div_ceil(BLOCK), &args)
    }

    /// Enqueues `data[i] = value + i`, then `flag[0] = value`. At most one block of elements.
    #[track_caller]
    pub(crate) fn publish(
        &self,
        stream: StreamId,
        data: Place,
        flag: Place,
        value: u32,
    ) -> Check<()> {
        let count = (data.bytes / 4).min(u64::from(BLOCK)) as u32;
        let args = [
            memory(data, Access::Write),
            memory(flag, Access::Write),
            scalar(value)?,
            scalar(count)?,
        ];
        self.launch(stream, self.publish, 1, &args)
    }

    /// Enqueues a kernel that takes so many cycles.
    #[track_caller]
    pub(crate) fn spin(&self, stream: StreamId, cycles: u64) -> Check<()> {
        let scratch = LaunchArg::Memory(MemoryArg {
            addr: self.scratch.addr,
            bytes: SCRATCH_BYTES,
            access: Access::Read,
            pattern: Pattern::Sequential {
                passes: cycles as f64 / CYCLES_PER_PASS,
            },
        });
        let args = [scratch, scalar(cycles)?];
        let launch = Launch {
            grid: [1, 1, 1],
            block: [1, 1, 1],
            shared_bytes: 0,
            args: &args,
        };
        // SAFETY: the arguments are those of the kernel; the scratch memory is freed after all
        // work.
        unsafe { self.context.driver.launch(stream, self.spin, &launch) }?;
        Ok(())
    }

    /// Runs `attempt` with longer and longer spins until it says that it caught the device at work.
    ///
    /// # Errors
    /// The failure of an attempt, or that none of them caught it.
    #[track_caller]
    pub(crate) fn catch(
        &self,
        what: &str,
        mut attempt: impl FnMut(u64) -> Check<bool>,
    ) -> Check<()> {
        for cycles in SPIN_CYCLES {
            if attempt(cycles)? {
                return Ok(());
            }
        }
        Err(Failure::new(what))
    }

    fn launch(
        &self,
        stream: StreamId,
        function: FunctionId,
        blocks: u32,
        args: &[LaunchArg],
    ) -> Check<()> {
        let launch = Launch {
            grid: [blocks, 1, 1],
            block: [BLOCK, 1, 1],
            shared_bytes: 0,
            args,
        };
        // SAFETY: the callers above pass the arguments that their kernel takes, over the ranges of
        // guards, which are freed after all work.
        unsafe { self.context.driver.launch(stream, function, &launch) }?;
        Ok(())
    }
}

impl Drop for Kernels<'_> {
    fn drop(&mut self) {
        unload(self.context, self.module);
    }
}

impl DeviceMemory<'_> {
    /// All of it, for a kernel.
    pub(crate) fn place(&self) -> Place {
        Place {
            addr: self.addr,
            bytes: self.bytes,
        }
    }
}

impl crate::host::HostMemory<'_> {
    /// All of it, for a kernel.
    #[track_caller]
    pub(crate) fn place(&self) -> Check<Place> {
        Ok(Place {
            addr: self.device_address()?,
            bytes: self.bytes,
        })
    }
}
