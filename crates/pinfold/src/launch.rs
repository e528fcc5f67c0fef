//! Kernels: loading PTX with its twins, and launching with arguments that say what they touch.

use crate::buffer::{CellState, DeviceRead, DeviceWrite, Expected, ScalarCell};
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::graph::thread;
use crate::memory::block::Block;
use crate::memory::pin_on_use::InUse;
use crate::stream::Stream;
use pinfold_hal::{
    Access, FunctionId, Launch, LaunchArg, MemoryArg, ModuleId, ModuleImage, Pattern, Scalar,
};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Loaded kernels of one device: PTX on a real one, Rust twins on a simulated one.
#[derive(Clone)]
pub struct Module {
    inner: Arc<ModuleInner>,
}

struct ModuleInner {
    device: Device,
    id: ModuleId,
}

impl Module {
    /// Loads kernels. A simulated device runs the image's twins, a real one its PTX.
    ///
    /// # Errors
    /// [`Error::Driver`]; for PTX that does not compile the text carries the compiler's log.
    pub fn load(device: &Device, image: &ModuleImage) -> Result<Self> {
        thread::refuse("loading kernels")?;
        device.ensure_open()?;
        let id = device
            .driver()
            .module_load(device.id(), image)
            .map_err(Error::driver("loading kernels"))?;
        Ok(Module {
            inner: Arc::new(ModuleInner {
                device: device.clone(),
                id,
            }),
        })
    }

    /// True for two holders of one module.
    pub(crate) fn is(&self, other: &Module) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Finds a kernel by its name.
    ///
    /// # Errors
    /// [`Error::Driver`] where the module has no such kernel, or the twin is missing.
    pub fn kernel(&self, name: impl Into<Cow<'static, str>>) -> Result<Kernel> {
        let name = name.into();
        let device = &self.inner.device;
        let id = device
            .driver()
            .function(self.inner.id, &name)
            .map_err(Error::driver("looking up a kernel"))?;
        Ok(Kernel {
            module: self.clone(),
            id,
            name,
        })
    }
}

impl Drop for ModuleInner {
    fn drop(&mut self) {
        let (device, id) = (self.device.clone(), self.id);
        match thread::captures() {
            true => thread::later(move || unload(&device, id)),
            false => unload(&device, id),
        }
    }
}

fn unload(device: &Device, id: ModuleId) {
    // Kernels of the module may be in flight on any stream; unloading is rare, so wait for
    // all. Where that cannot be done the module stays loaded.
    let settled = device.settle();
    if settled.is_err_and(|error| !error.device_is_lost()) {
        return;
    }
    // SAFETY: the device is idle or lost, and the last holder of the module's kernels is gone.
    let _ = unsafe { device.driver().module_unload(id) };
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("device", &self.inner.device)
            .finish_non_exhaustive()
    }
}

/// One kernel of a module.
#[derive(Clone, Debug)]
pub struct Kernel {
    module: Module,
    id: FunctionId,
    name: Cow<'static, str>,
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device it is loaded on.
    pub fn device(&self) -> &Device {
        &self.module.inner.device
    }
}

/// Blocks, threads a block, and dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory a block.
    pub shared_bytes: u32,
}

impl Shape {
    /// A row of `blocks` blocks of `threads` threads.
    pub fn linear(blocks: u32, threads: u32) -> Self {
        Shape {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
        }
    }
}

/// Arguments of a launch, in the kernel's order. Each memory argument says what the kernel does to
/// it.
#[derive(Default)]
pub struct Args<'a> {
    items: SmallVec<[Item<'a>; 12]>,
    /// Cells that are published into, and the numbers.
    published: SmallVec<[(&'a Arc<CellState>, u64); 1]>,
    too_large: bool,
}

enum Item<'a> {
    Memory {
        block: &'a Arc<Block>,
        offset: u64,
        bytes: u64,
        access: Access,
        pattern: Pattern,
    },
    Scalar(Scalar),
}

impl<'a> Args<'a> {
    /// No arguments yet.
    pub fn new() -> Self {
        Args::default()
    }

    /// Memory that the kernel reads once, in order.
    #[must_use]
    pub fn reads(self, memory: &'a impl DeviceRead) -> Self {
        self.reads_as(memory, Pattern::ONCE)
    }

    /// Memory that the kernel reads, with how it walks over it.
    #[must_use]
    pub fn reads_as(self, memory: &'a impl DeviceRead, pattern: Pattern) -> Self {
        let span = memory.span();
        self.memory(
            span.block,
            span.offset_bytes,
            span.bytes,
            Access::Read,
            pattern,
        )
    }

    /// Memory of which the kernel writes every byte and reads none.
    #[must_use]
    pub fn writes(self, memory: &'a mut impl DeviceWrite) -> Self {
        let span = (*memory).span();
        self.memory(
            span.block,
            span.offset_bytes,
            span.bytes,
            Access::Write,
            Pattern::ONCE,
        )
    }

    /// Memory that the kernel reads and writes, once and in order.
    #[must_use]
    pub fn updates(self, memory: &'a mut impl DeviceWrite) -> Self {
        self.updates_as(memory, Pattern::ONCE)
    }

    /// Memory that the kernel reads and writes, or writes in part, with how it walks over it.
    #[must_use]
    pub fn updates_as(self, memory: &'a mut impl DeviceWrite, pattern: Pattern) -> Self {
        let span = (*memory).span();
        self.memory(
            span.block,
            span.offset_bytes,
            span.bytes,
            Access::ReadWrite,
            pattern,
        )
    }

    /// The first `elements` of memory, which the kernel reads and writes once and in order.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where there are not so many.
    pub fn updates_prefix<W: DeviceWrite>(
        self,
        memory: &'a mut W,
        elements: usize,
    ) -> Result<Self> {
        crate::buffer::raw::check_range(&(0..elements), memory.elements())?;
        let span = (*memory).span();
        let bytes = (elements * std::mem::size_of::<W::Item>()) as u64;
        Ok(self.memory(
            span.block,
            span.offset_bytes,
            bytes,
            Access::ReadWrite,
            Pattern::ONCE,
        ))
    }

    /// A cell that the kernel publishes into, followed by the number to publish under.
    #[must_use]
    pub fn publishes(mut self, cell: &'a mut ScalarCell, expected: &Expected) -> Self {
        let cell = (*cell).state();
        self.published.push((cell, expected.sequence()));
        let block = cell.block();
        self.memory(block, 0, block.bytes(), Access::ReadWrite, Pattern::ONCE)
            .scalar(expected.sequence())
    }

    /// A value of at most eight bytes.
    #[must_use]
    pub fn scalar<T: Element>(mut self, value: T) -> Self {
        match Scalar::new(value) {
            Some(scalar) => self.items.push(Item::Scalar(scalar)),
            None => self.too_large = true,
        }
        self
    }

    fn memory(
        mut self,
        block: &'a Arc<Block>,
        offset: u64,
        bytes: u64,
        access: Access,
        pattern: Pattern,
    ) -> Self {
        self.items.push(Item::Memory {
            block,
            offset,
            bytes,
            access,
            pattern,
        });
        self
    }
}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Args")
            .field("count", &self.items.len())
            .finish_non_exhaustive()
    }
}

impl Stream {
    /// Enqueues a kernel. Its memory arguments are ordered after other streams' conflicting work.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`], [`Error::WrongDevice`], [`Error::Launch`], [`Error::Driver`].
    ///
    /// # Safety
    /// The kernel takes exactly these arguments, touches no memory but that of its memory
    /// arguments, and does to each only what was declared. Its twin does the same.
    pub unsafe fn launch(&self, kernel: &Kernel, shape: Shape, args: Args<'_>) -> Result<()> {
        if kernel.device() != self.device() {
            return Err(Error::DeviceMismatch {
                what: "the kernel",
                got: kernel.device().index(),
                want: self.device().index(),
            });
        }
        if args.too_large {
            return Err(Error::Launch {
                kernel: kernel.name.clone().into_owned(),
                problem: "a scalar argument is larger than eight bytes".to_owned(),
            });
        }
        let mut list: SmallVec<[LaunchArg; 12]> = SmallVec::new();
        let mut uses: SmallVec<[(&Arc<Block>, bool); 12]> = SmallVec::new();
        let mut in_use: SmallVec<[InUse<'_>; 4]> = SmallVec::new();
        for item in &args.items {
            list.push(match item {
                Item::Scalar(scalar) => LaunchArg::Scalar(*scalar),
                Item::Memory {
                    block,
                    offset,
                    bytes,
                    access,
                    pattern,
                } => {
                    uses.push((block, access.writes()));
                    in_use.extend(block.begin_use()?);
                    let addr = block.device_addr(self.device())?.offset(*offset);
                    let (bytes, access, pattern) = (*bytes, *access, *pattern);
                    LaunchArg::Memory(MemoryArg {
                        addr,
                        bytes,
                        access,
                        pattern,
                    })
                }
            });
        }
        let launch = Launch {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            args: &list,
        };
        self.enqueue(&uses, "launching a kernel", || {
            // SAFETY: the caller vouches for kernel and arguments. Every range lies in a buffer
            // that is borrowed now and whose uses are noted behind the launch, so that its memory
            // lives on and nobody touches it until the launch was waited for.
            unsafe { self.device().driver().launch(self.id(), kernel.id, &launch) }
        })?;
        if let Some(recording) = self.recording() {
            let mut recording = recording.borrow_mut();
            recording.keep(&kernel.module);
            for (cell, sequence) in args.published {
                recording.publishes(cell, sequence);
            }
        }
        Ok(())
    }
}
