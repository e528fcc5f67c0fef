//! A pattern of words that differs everywhere: filled by a kernel, checked by a kernel. For tests
//! that look for bytes that went astray.

use super::reduce::{IntoSink, Scratch, Sink};
use crate::buffer::{DeviceRead, DeviceWrite};
use crate::error::{Error, Result};
use crate::launch::{Args, Kernel, Module, Shape};
use crate::memory::Memory;
use crate::stream::Stream;
use pinfold_hal::Pattern;
use pinfold_kernels::memory::{fill_shape, image};

/// Bytes of half a word.
const HALF_BYTES: u32 = 4;

/// The kernels with their scratch memory.
///
/// Word `i` of the pattern of a seed is [`splitmix64`](super::splitmix64) of `seed + i`.
pub struct Patterns {
    fill: Kernel,
    check: Kernel,
    check_strided: Kernel,
    scratch: Scratch,
}

impl Patterns {
    /// Loads the kernels for the stream's device.
    ///
    /// # Errors
    /// Where a kernel cannot be loaded or the scratch memory not be had.
    pub fn load(memory: &Memory, stream: &Stream) -> Result<Self> {
        let module = Module::load(stream.device(), &image())?;
        let blocks_max = fill_shape(u64::MAX).0 as usize;
        Ok(Patterns {
            fill: module.kernel("fill_u64")?,
            check: module.kernel("check_u64")?,
            check_strided: module.kernel("check_strided_u32")?,
            scratch: Scratch::new(memory, stream, 2 * blocks_max)?,
        })
    }

    /// Enqueues writing the seed's pattern.
    ///
    /// # Errors
    /// All of a launch.
    pub fn fill(
        &self,
        stream: &Stream,
        to: &mut impl DeviceWrite<Item = u64>,
        seed: u64,
    ) -> Result<()> {
        let n = to.elements() as u64;
        let (blocks, threads) = fill_shape(n);
        let args = Args::new().writes(to).scalar(n).scalar(seed);
        // SAFETY: these are the kernel's arguments; it writes `n` words.
        unsafe { stream.launch(&self.fill, Shape::linear(blocks, threads), args) }
    }

    /// Enqueues comparing with the seed's pattern. The first value of the sink is the number of
    /// words that differ, the second the index of the first of them.
    ///
    /// # Errors
    /// All of a launch.
    pub fn check<S: IntoSink>(
        &mut self,
        stream: &Stream,
        from: &impl DeviceRead<Item = u64>,
        seed: u64,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        let n = from.elements() as u64;
        let (blocks, threads) = fill_shape(n);
        let mut sink = sink.into_sink();
        let args = Args::new().reads(from).scalar(n).scalar(seed);
        let partials = 2 * blocks as usize;
        let args = self.scratch.finish(args, partials, &mut sink)?;
        // SAFETY: these are the arguments of `check_u64`; it reads `n` words, and writes two
        // partial results a block (words of eight bytes, as the scratch has), the ticket and the
        // cell.
        unsafe { stream.launch(&self.check, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }

    /// Enqueues comparing one half word in every `stride_bytes` with the seed's pattern, and
    /// touching nothing else. The first value of the sink is the number of half words that differ,
    /// the second the place of the first of them in half words.
    ///
    /// # Errors
    /// [`Error::Launch`] for a stride that is no multiple of 4 bytes, or none, and all of a launch.
    pub fn check_strided<S: IntoSink>(
        &mut self,
        stream: &Stream,
        from: &impl DeviceRead<Item = u64>,
        stride_bytes: u32,
        seed: u64,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        if stride_bytes == 0 || !stride_bytes.is_multiple_of(HALF_BYTES) {
            return Err(Error::Launch {
                kernel: "check_strided_u32".to_owned(),
                problem: format!("a stride of {stride_bytes} bytes; multiples of 4 work"),
            });
        }
        let n = from.elements() as u64;
        let stride = u64::from(stride_bytes / HALF_BYTES);
        let (blocks, threads) = fill_shape((2 * n).div_ceil(stride));
        let mut sink = sink.into_sink();
        let walk = Pattern::Strided {
            element_bytes: HALF_BYTES,
            stride_bytes,
        };
        let args = Args::new().reads_as(from, walk);
        let args = args.scalar(n).scalar(stride).scalar(seed);
        let args = self.scratch.finish(args, 2 * blocks as usize, &mut sink)?;
        // SAFETY: these are the arguments of `check_strided_u32`; it reads half words of `n` words,
        // and writes two partial results a block, the ticket and the cell.
        unsafe { stream.launch(&self.check_strided, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }
}

impl std::fmt::Debug for Patterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patterns").finish_non_exhaustive()
    }
}
