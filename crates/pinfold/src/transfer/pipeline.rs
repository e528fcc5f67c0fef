//! Work on data that lies in ordinary memory, chunk by chunk: while one chunk is on its way to the
//! device, others are worked on, and others come back.

use super::Engine;
use super::control::Control;
use super::job::Job;
use super::lanes::Lanes;
use crate::buffer::{DeviceBuffer, DownloadBuffer, HandOver, UploadBuffer};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::stream::Stream;
use parking_lot::Mutex;
use pinfold_hal::HostWork;

/// Elements of a chunk, in and out. The last chunk may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSizes {
    /// Elements that go to the device at a time.
    pub input: usize,
    /// Elements that come back for them.
    pub output: usize,
}

/// What one thread keeps from chunk to chunk of the same size.
struct Kept<T: Element, U: Element> {
    input: UploadBuffer<T>,
    on_device: DeviceBuffer<T>,
    result: DeviceBuffer<U>,
    output: DownloadBuffer<U>,
}

impl Engine {
    /// Has `work` turn each chunk of `input` into the chunk of `output` with the same number. Up to
    /// as many chunks as the engine has threads are under way at a time: copies both ways and
    /// kernels overlap.
    ///
    /// `make` makes what a thread needs for the work, such as a loaded kernel with its scratch
    /// memory, once for each thread; `work` enqueues the work on one chunk. Chunks are begun in
    /// order, and may end in any. `control` tells of the input's bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for chunks of no elements, [`Error::Length`] where input and output
    /// are not the same number of chunks, what `make` and `work` say, and as
    /// [`upload_part`](Engine::upload_part). The output's content is not specified after an error.
    pub fn pipeline<T: Element, U: Element, S>(
        &self,
        input: &[T],
        output: &mut [U],
        sizes: ChunkSizes,
        make: impl Fn(&Stream) -> Result<S> + Sync,
        work: impl Fn(&mut S, &Stream, &DeviceBuffer<T>, &mut DeviceBuffer<U>) -> Result<()> + Sync,
        control: &Control,
    ) -> Result<()> {
        const { assert!(std::mem::size_of::<T>() > 0) };
        let lanes = &self.inner.lanes;
        check(sizes, input.len(), output.len())?;
        let outputs: Vec<Mutex<&mut [U]>> =
            output.chunks_mut(sizes.output).map(Mutex::new).collect();
        // The job's chunks are those of the input, so that progress is told in its bytes.
        let chunk_bytes = (sizes.input * std::mem::size_of::<T>()) as u64;
        let job = Job::new(std::mem::size_of_val(input) as u64, chunk_bytes, control);
        lanes.on_all(&job, |lane| {
            let stream = &lane.stream;
            let (mut tools, mut kept) = (None, None);
            while let Some(range) = job.claim() {
                let at = (range.start / chunk_bytes) as usize;
                let from = chunk_of(input, at, sizes.input);
                let mut to = outputs[at].lock();
                let tools = match &mut tools {
                    Some(tools) => tools,
                    none => none.insert(make(stream)?),
                };
                let work = |a: &DeviceBuffer<T>, b: &mut DeviceBuffer<U>| work(tools, stream, a, b);
                kept = Some(one(lanes, stream, kept.take(), from, &mut to, work)?);
                job.arrived(range.end - range.start);
            }
            Ok(())
        })
    }
}

/// # Errors
/// For chunks of no elements, and where the two are not the same number of chunks.
fn check(sizes: ChunkSizes, input: usize, output: usize) -> Result<()> {
    if sizes.input == 0 || sizes.output == 0 {
        let (start, end, len) = (0, 0, 0);
        return Err(Error::OutOfRange { start, end, len });
    }
    let (got, want) = (output.div_ceil(sizes.output), input.div_ceil(sizes.input));
    crate::error::same_length("chunks of output", got, want)
}

fn chunk_of<T>(all: &[T], number: usize, elements: usize) -> &[T] {
    let start = number * elements;
    &all[start..all.len().min(start + elements)]
}

/// One chunk, to the device, through the work, and back.
fn one<T: Element, U: Element>(
    lanes: &Lanes,
    stream: &Stream,
    kept: Option<Kept<T, U>>,
    from: &[T],
    to: &mut [U],
    work: impl FnOnce(&DeviceBuffer<T>, &mut DeviceBuffer<U>) -> Result<()>,
) -> Result<Kept<T, U>> {
    let fits = |kept: &Kept<T, U>| (kept.input.len(), kept.output.len()) == (from.len(), to.len());
    let Kept {
        mut input,
        mut on_device,
        mut result,
        output,
    } = match kept.filter(fits) {
        Some(kept) => kept,
        None => {
            let (memory, device) = (lanes.memory(), lanes.device());
            Kept {
                input: memory.upload(from.len())?,
                on_device: memory.device_on(device, from.len())?,
                result: memory.device_on(device, to.len())?,
                output: memory.download(to.len())?,
            }
        }
    };
    input.write(0, from)?;
    let flight = stream.upload(input, &mut on_device)?;
    work(&on_device, &mut result)?;
    let output = stream.download(&result, output.hand_over())?.wait()?;
    to.copy_from_slice(&output);
    if lanes.device().is_simulated() {
        lanes.device().declare_host_work(HostWork::Copy {
            bytes: std::mem::size_of_val(to) as u64,
            threads: lanes.count(),
        });
    }
    Ok(Kept {
        input: flight.wait()?,
        on_device,
        result,
        output,
    })
}
