//! Reading floats once, in order, from wherever they are: what measurements of in-place reads do.

use super::reduce::{IntoSink, Scratch, Sink};
use crate::buffer::DeviceRead;
use crate::error::Result;
use crate::launch::{Args, Kernel, Module, Shape};
use crate::memory::Memory;
use crate::stream::Stream;
use pinfold_kernels::memory::{image, read_shape};

/// The kernel with its scratch memory.
pub struct Reader {
    kernel: Kernel,
    scratch: Scratch,
}

impl Reader {
    /// Loads the kernel for the stream's device.
    ///
    /// # Errors
    /// Where the kernel cannot be loaded or its scratch memory not be had.
    pub fn load(memory: &Memory, stream: &Stream) -> Result<Self> {
        let kernel = Module::load(stream.device(), &image())?.kernel("read_f32")?;
        let blocks_max = read_shape(u64::MAX).0;
        Ok(Reader {
            kernel,
            scratch: Scratch::new(memory, stream, blocks_max as usize)?,
        })
    }

    /// Enqueues the sum of all elements. The first value of the sink is the result.
    ///
    /// # Errors
    /// All of a launch.
    pub fn run<S: IntoSink>(
        &mut self,
        stream: &Stream,
        from: &impl DeviceRead<Item = f32>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        let n = from.elements() as u64;
        let (blocks, threads) = read_shape(n);
        let mut sink = sink.into_sink();
        let args = Args::new().reads(from).scalar(n);
        let args = self.scratch.finish(args, blocks as usize, &mut sink)?;
        // SAFETY: these are the arguments of `read_f32`; it reads `n` elements, and writes one
        // partial sum a block, the ticket and the cell.
        unsafe { stream.launch(&self.kernel, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}
