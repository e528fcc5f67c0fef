//! The dot product of two float vectors, summed in double in an order that depends on the length
//! only: the same bits on every device.

use super::reduce::{IntoSink, Scratch, Sink};
use crate::buffer::DeviceRead;
use crate::error::{Error, Result};
use crate::launch::{Args, Kernel, Module, Shape};
use crate::memory::Memory;
use crate::stream::Stream;
use pinfold_kernels::dot::{dot_shape, image};

/// The kernel with its scratch memory.
pub struct Dot {
    kernel: Kernel,
    scratch: Scratch,
}

impl Dot {
    /// Loads the kernel for the stream's device.
    ///
    /// # Errors
    /// Where the kernel cannot be loaded or its scratch memory not be had.
    pub fn load(memory: &Memory, stream: &Stream) -> Result<Self> {
        let kernel = Module::load(stream.device(), &image())?.kernel("dot_f32")?;
        let blocks_max = dot_shape(u64::MAX).0;
        Ok(Dot {
            kernel,
            scratch: Scratch::new(memory, stream, blocks_max as usize)?,
        })
    }

    /// Enqueues `a . b`. The vectors may lie on the device or, lent, in host memory. The first
    /// value of the sink is the result.
    ///
    /// # Errors
    /// [`Error::Length`] for vectors of different lengths, and all of a launch.
    pub fn run<S: IntoSink>(
        &mut self,
        stream: &Stream,
        a: &impl DeviceRead<Item = f32>,
        b: &impl DeviceRead<Item = f32>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        if a.elements() != b.elements() {
            return Err(Error::Length {
                what: "second vector",
                got: b.elements(),
                want: a.elements(),
            });
        }
        let n = a.elements() as u64;
        let (blocks, threads) = dot_shape(n);
        let mut sink = sink.into_sink();
        let args = Args::new().reads(a).reads(b).scalar(n);
        let args = self.scratch.finish(args, blocks as usize, &mut sink)?;
        // SAFETY: these are the arguments of `dot_f32`; it reads `n` elements of both vectors,
        // which are that long, and writes one partial sum a block, the ticket and the cell.
        unsafe { stream.launch(&self.kernel, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }
}

impl std::fmt::Debug for Dot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dot").finish_non_exhaustive()
    }
}
