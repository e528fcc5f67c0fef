//! Loads of which each finds the next one: what one access to memory takes, with nothing beside it.

use super::reduce::{IntoSink, Scratch, Sink};
use crate::buffer::DeviceRead;
use crate::error::Result;
use crate::launch::{Args, Kernel, Module, Shape};
use crate::memory::Memory;
use crate::stream::Stream;
use pinfold_hal::Pattern;
use pinfold_kernels::memory::image;

/// Threads of the one block: as few as a block has. One of them walks.
const THREADS: u32 = 32;

/// The kernel with its scratch memory.
pub struct Chaser {
    kernel: Kernel,
    scratch: Scratch,
}

impl Chaser {
    /// Loads the kernel for the stream's device.
    ///
    /// # Errors
    /// Where the kernel cannot be loaded or its scratch memory not be had.
    pub fn load(memory: &Memory, stream: &Stream) -> Result<Self> {
        let kernel = Module::load(stream.device(), &image())?.kernel("chase_u32")?;
        Ok(Chaser {
            kernel,
            scratch: Scratch::new(memory, stream, 1)?,
        })
    }

    /// Enqueues a walk of `steps` loads that begins at place 0 and goes from each place to the one
    /// that it names; what names no place leads back to place 0. The first value of the sink is the
    /// place where the walk ends.
    ///
    /// # Errors
    /// All of a launch.
    pub fn run<S: IntoSink>(
        &mut self,
        stream: &Stream,
        places: &impl DeviceRead<Item = u32>,
        steps: u64,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        let n = places.elements() as u64;
        // Over no places there is no walk.
        let steps = if n == 0 { 0 } else { steps };
        let mut sink = sink.into_sink();
        let args = Args::new().reads_as(places, Pattern::Dependent { count: steps });
        let args = self
            .scratch
            .finish(args.scalar(n).scalar(steps), 1, &mut sink)?;
        // SAFETY: these are the arguments of `chase_u32`; it reads places below `n`, which there
        // are, and writes one partial result, the ticket and the cell.
        unsafe { stream.launch(&self.kernel, Shape::linear(1, THREADS), args)? };
        Ok(sink.promise())
    }
}

impl std::fmt::Debug for Chaser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chaser").finish_non_exhaustive()
    }
}
