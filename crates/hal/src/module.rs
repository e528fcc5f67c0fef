//! Kernels: PTX, launch arguments with their declared accesses, and the Rust twin of a kernel.
//!
//! A kernel exists twice: as PTX for a real device, and as a [`Twin`], a Rust function with the
//! same name and arguments, for a simulated one. Both come in one [`ModuleImage`]. A launch
//! *declares* what memory each argument covers and how the kernel walks over it; a real device
//! ignores that, the simulator takes its time and its bounds from it.

use crate::{DeviceAddr, DeviceId, Result, StreamId};
use bytemuck::Pod;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A loaded module of one device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ModuleId {
    /// The device it is loaded on.
    pub device: DeviceId,
    /// The backend's own handle.
    pub raw: u64,
}

/// A kernel of a loaded module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FunctionId {
    /// The device it is loaded on.
    pub device: DeviceId,
    /// The backend's own handle.
    pub raw: u64,
}

/// Kernels to load: one text for real devices, and twins for simulated ones.
#[derive(Clone, Debug)]
pub struct ModuleImage {
    /// A name for messages.
    pub name: Cow<'static, str>,
    /// PTX text.
    pub ptx: Cow<'static, str>,
    /// The twins, by kernel name.
    pub twins: Vec<Twin>,
}

/// The Rust twin of a kernel: same name, same arguments in the same order, same results.
#[derive(Clone)]
pub struct Twin {
    /// The kernel's name in the PTX.
    pub name: Cow<'static, str>,
    /// What it does.
    pub body: TwinBody,
}

/// The function of a [`Twin`].
pub type TwinBody = Arc<dyn Fn(&mut TwinCall<'_>) -> Result<(), TwinError> + Send + Sync>;

impl Twin {
    /// A twin under the kernel's name.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        body: impl Fn(&mut TwinCall<'_>) -> Result<(), TwinError> + Send + Sync + 'static,
    ) -> Self {
        Twin {
            name: name.into(),
            body: Arc::new(body),
        }
    }
}

impl fmt::Debug for Twin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Twin")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why a twin could not do its work: arguments of the wrong number or kind. The simulator turns it
/// into `IllegalAddress`, as a real kernel with wrong arguments would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TwinError(pub String);

/// One launch, as a twin sees it.
#[derive(Debug)]
pub struct TwinCall<'a> {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads a block in x, y and z.
    pub block: [u32; 3],
    /// The arguments in order.
    pub args: Vec<TwinArg<'a>>,
}

/// One argument, as a twin sees it.
#[derive(Debug)]
pub enum TwinArg<'a> {
    /// Memory that the kernel only reads.
    Read(&'a [u8]),
    /// Memory that the kernel writes, or reads and writes.
    Write(&'a mut [u8]),
    /// A value.
    Scalar(Scalar),
}

impl<'a> TwinCall<'a> {
    /// Exactly `N` arguments, to be taken apart.
    ///
    /// # Errors
    /// Where there are more or fewer.
    pub fn args<const N: usize>(&mut self) -> Result<&mut [TwinArg<'a>; N], TwinError> {
        let got = self.args.len();
        self.args
            .as_mut_slice()
            .try_into()
            .map_err(|_| TwinError(format!("the kernel takes {N} arguments, not {got}")))
    }

    /// Threads in the whole grid, counting x only.
    pub fn threads_x(&self) -> usize {
        self.grid[0] as usize * self.block[0] as usize
    }
}

impl TwinArg<'_> {
    /// The memory as elements, to read.
    ///
    /// # Errors
    /// For a scalar, or where size or alignment do not fit the element type.
    pub fn read<T: Pod>(&self) -> Result<&[T], TwinError> {
        let bytes: &[u8] = match self {
            TwinArg::Read(bytes) => bytes,
            TwinArg::Write(bytes) => bytes,
            TwinArg::Scalar(_) => return Err(TwinError("a scalar where memory belongs".into())),
        };
        bytemuck::try_cast_slice(bytes).map_err(|e| TwinError(format!("memory argument: {e}")))
    }

    /// The memory as elements, to write.
    ///
    /// # Errors
    /// For a scalar, for memory declared as read only, or where size or alignment do not fit.
    pub fn write<T: Pod>(&mut self) -> Result<&mut [T], TwinError> {
        match self {
            TwinArg::Write(bytes) => bytemuck::try_cast_slice_mut(bytes)
                .map_err(|e| TwinError(format!("memory argument: {e}"))),
            TwinArg::Read(_) => Err(TwinError("a write to memory declared as read".into())),
            TwinArg::Scalar(_) => Err(TwinError("a scalar where memory belongs".into())),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// For memory, or where the size does not fit.
    pub fn scalar<T: Pod>(&self) -> Result<T, TwinError> {
        match self {
            TwinArg::Scalar(s) => bytemuck::try_pod_read_unaligned(s.bytes())
                .map_err(|e| TwinError(format!("scalar argument: {e}"))),
            _ => Err(TwinError("memory where a scalar belongs".into())),
        }
    }
}

/// A value argument of at most eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    value: [u8; 8],
    len: u8,
}

impl Scalar {
    /// A scalar from a plain value, or `None` where it is larger than eight bytes.
    pub fn new<T: Pod>(value: T) -> Option<Self> {
        let bytes = bytemuck::bytes_of(&value);
        let mut held = [0; 8];
        held.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Scalar {
            value: held,
            len: bytes.len() as u8,
        })
    }

    /// The value's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.value[..usize::from(self.len)]
    }
}

/// How a kernel may use an argument's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It only reads.
    Read,
    /// It writes every byte and reads none of the old contents.
    Write,
    /// It reads and writes.
    ReadWrite,
}

impl Access {
    /// True for `Read` and `ReadWrite`.
    pub fn reads(self) -> bool {
        matches!(self, Access::Read | Access::ReadWrite)
    }

    /// True for `Write` and `ReadWrite`.
    pub fn writes(self) -> bool {
        matches!(self, Access::Write | Access::ReadWrite)
    }
}

/// How a kernel walks over an argument's memory: decides the time in the cost model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// In order, all of it, `passes` times.
    Sequential {
        /// How often; may be a fraction of 1 where only a part is touched.
        passes: f64,
    },
    /// One element of `element_bytes` in every `stride_bytes`.
    Strided {
        /// Size of what is touched.
        element_bytes: u32,
        /// Distance between two of them.
        stride_bytes: u32,
    },
    /// `count` rows of `row_bytes` at places without order.
    Random {
        /// Size of a row.
        row_bytes: u32,
        /// Number of rows touched.
        count: u64,
    },
    /// As [`Random`](Self::Random), but in the order of address windows: at any moment all
    /// accesses lie in a window or two.
    Windowed {
        /// Size of a row.
        row_bytes: u32,
        /// Number of rows touched.
        count: u64,
        /// Size of a window.
        window_bytes: u64,
    },
    /// `count` words of four bytes, each found by the one before: a single load under way.
    Dependent {
        /// Number of loads.
        count: u64,
    },
}

impl Pattern {
    /// All of it once, in order.
    pub const ONCE: Pattern = Pattern::Sequential { passes: 1.0 };
}

/// A memory argument with what the kernel will do to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryArg {
    /// Where it begins.
    pub addr: DeviceAddr,
    /// How far the kernel may reach from there.
    pub bytes: u64,
    /// What it may do.
    pub access: Access,
    /// How it walks.
    pub pattern: Pattern,
}

/// One kernel argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LaunchArg {
    /// Passed as an eight-byte device address.
    Memory(MemoryArg),
    /// Passed by value.
    Scalar(Scalar),
}

/// One launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory a block.
    pub shared_bytes: u32,
    /// The arguments in order.
    pub args: &'a [LaunchArg],
}

/// Kernels.
pub trait ModuleOps {
    /// Loads kernels.
    ///
    /// # Errors
    /// `InvalidPtx`, `UnsupportedPtxVersion`, `NoBinaryForGpu`; the detail carries the compiler's
    /// log.
    fn module_load(&self, device: DeviceId, image: &ModuleImage) -> Result<ModuleId>;

    /// Unloads a module.
    ///
    /// # Safety
    /// No kernel of the module is in flight, and none of its functions is used again.
    unsafe fn module_unload(&self, module: ModuleId) -> Result<()>;

    /// Finds a kernel.
    ///
    /// # Errors
    /// `NotFound`, on a simulated device also where the kernel has no twin; `InvalidValue` for an
    /// empty name.
    fn function(&self, module: ModuleId, name: &str) -> Result<FunctionId>;

    /// Enqueues a kernel. An argument may lie in several page-locked ranges, unlike that of a copy,
    /// where their device addresses follow each other without a gap.
    ///
    /// # Errors
    /// `InvalidValue` for an empty or too large grid or block, `LaunchOutOfResources`.
    ///
    /// # Safety
    /// The arguments are those that the kernel takes; it touches only the declared ranges, in the
    /// declared way; these stay allocated, and no one else touches them, until the launch was
    /// waited for.
    unsafe fn launch(
        &self,
        stream: StreamId,
        function: FunctionId,
        launch: &Launch<'_>,
    ) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_keeps_its_bytes_and_refuses_large_ones() {
        assert_eq!(
            Scalar::new(7u32).map(|s| s.bytes().to_vec()),
            Some(vec![7, 0, 0, 0])
        );
        assert_eq!(Scalar::new([0u8; 9]), None);
    }

    #[test]
    fn twin_arguments_are_checked() {
        let data = [1.0f32, 2.0];
        let mut call = TwinCall {
            grid: [1, 1, 1],
            block: [32, 1, 1],
            args: vec![
                TwinArg::Read(bytemuck::cast_slice(&data)),
                TwinArg::Scalar(Scalar::new(3u64).unwrap()),
            ],
        };
        assert!(call.args::<3>().is_err());
        let [memory, n] = call.args::<2>().unwrap();
        assert_eq!(memory.read::<f32>().unwrap(), &data);
        assert!(memory.write::<f32>().is_err());
        assert!(memory.scalar::<u64>().is_err());
        assert_eq!(n.scalar::<u64>().unwrap(), 3);
        assert!(n.scalar::<u32>().is_err());
    }
}
