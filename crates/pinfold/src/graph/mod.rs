//! Graphs: work that is recorded once and launched often, by one driver call each time.
//!
//! [`Device::capture`] records what a closure enqueues: uploads, downloads, copies, fills, kernels,
//! the built-in ones too. [`Graph::launch`] runs all of it, in that order, on any stream of the
//! device:
//!
//! ```
//! use pinfold::{DeviceChoice, Memory};
//!
//! # fn main() -> Result<(), pinfold::Error> {
//! let device = "sim".parse::<DeviceChoice>()?.open()?.device;
//! let memory = Memory::new(&device);
//! let stream = device.stream()?;
//! let (input, output) = (memory.exchange::<u32>(1000)?, memory.download::<u32>(1000)?);
//! let mut on_device = memory.device::<u32>(1000)?;
//!
//! let mut graph = device.capture(|recorder| {
//!     let input = recorder.upload(input, &mut on_device)?;
//!     Ok((input, recorder.download(&on_device, output)?))
//! })?;
//! for round in 0..3 {
//!     let (input, _) = graph.host()?; //  waits for launches, and lends the buffers
//!     input.fill(round);
//!     graph.launch(&stream)?;
//!     let (_, output) = graph.host()?;
//!     assert_eq!(output[999], round);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Whose are the buffers?
//!
//! A launch may come at any time, so the host has none of the buffers that a graph uses but by way
//! of it: [`Graph::host`] lends those whose handles the closure returned, [`Graph::into_kept`]
//! gives them back. Waiting for another handle of such a buffer is refused
//! ([`Error::InGraph`]) while the graph lives. All memory and all kernels
//! that a graph uses live as long as it, whoever else drops them.
//!
//! # Order
//!
//! A launch is one operation that uses all of the graph's memory: it comes after conflicting work
//! of other streams that was enqueued before the launch, and later work comes after it. Launches of
//! one graph never overlap.
//!
//! # Scalars
//!
//! A kernel of a graph publishes into a [`ScalarCell`](crate::ScalarCell) under the same number at
//! every launch. The launch sets the cell back before, so that
//! [`wait`](crate::ScalarCell::wait) finds the new values with the
//! [`Expected`](crate::buffer::Expected) from the capture, as often as the graph is launched. Where
//! the values of the launch before are not there yet, the next launch waits for them.

mod capture;
mod kept;
mod recording;
mod replay;
pub(crate) mod thread;

pub use kept::Kept;
pub(crate) use recording::Recording;

use crate::buffer::BlockRef;
use crate::device::Device;
use crate::error::{Error, Refused, Result};
use crate::stream::Stream;
use recording::address;
use replay::Replay;
use std::fmt;

/// Recorded work of one device, with the handles that its closure returned.
///
/// Dropping it waits for the launches that are in flight, and then releases what it holds; inside a
/// capture that is put off to its end. Where the driver refuses every wait its object is leaked.
#[must_use = "recorded work runs only when it is launched"]
pub struct Graph<K: Kept = ()> {
    /// Before what is kept: the graph ends first.
    replay: Box<Replay>,
    kept: K,
    /// The blocks of what is kept, by address.
    lent: Vec<usize>,
}

impl<K: Kept> Graph<K> {
    fn new(kept: K, replay: Replay) -> Self {
        Graph {
            replay: Box::new(replay),
            lent: addresses(&kept),
            kept,
        }
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Device {
        self.replay.device()
    }

    /// What the closure returned, for other kernels and for
    /// [`ScalarCell::wait`](crate::ScalarCell::wait).
    pub fn kept(&self) -> &K {
        &self.kept
    }

    /// Enqueues one run of the whole graph. Does not wait for earlier ones, but for scalars that
    /// an earlier one has still to publish.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] for a stream of another device; [`Error::InGraph`] where a buffer
    /// that [`host`](Self::host) lent was exchanged for another one; [`Error::Capturing`] while
    /// this thread captures; [`Error::Driver`]. Nothing was enqueued then.
    pub fn launch(&mut self, stream: &Stream) -> Result<()> {
        thread::refuse("launching a graph")?;
        if stream.device() != self.device() {
            return Err(Error::DeviceMismatch {
                what: "the graph",
                got: self.device().index(),
                want: stream.device().index(),
            });
        }
        self.check_all_there()?;
        self.replay.launch(stream)
    }

    /// Waits for the launches so far, and for whatever else uses the buffers, and lends them to the
    /// host: to read what came, and to fill in what the next launch takes.
    ///
    /// # Errors
    /// What the work failed with; [`Error::InGraph`] for a buffer that another graph uses too.
    pub fn host(&mut self) -> Result<K::Host<'_>> {
        self.wait()?;
        Ok(self.kept.host())
    }

    /// Waits as [`host`](Self::host) does, ends the graph and gives the buffers back.
    ///
    /// # Errors
    /// As there. The graph comes back in the error.
    pub fn into_kept(self) -> Result<K::Buffers, Refused<Self>> {
        match self.wait() {
            Ok(()) => {
                drop(self.replay);
                Ok(self.kept.into_buffers())
            }
            Err(error) => Err(Refused::new(error, self)),
        }
    }

    fn wait(&self) -> Result<()> {
        let mut outcome = Ok(());
        self.kept.each_block(&mut |BlockRef(block)| {
            if outcome.is_ok() {
                let own = u32::from(self.replay.uses(block));
                outcome = block.check_bound_at_most(own).and_then(|()| block.wait());
            }
        });
        outcome
    }

    /// Safe code can exchange a buffer that it was lent for another one, and so keep it.
    fn check_all_there(&self) -> Result<()> {
        let mut missing = None;
        let mut wanted = self.lent.iter();
        self.kept.each_block(&mut |BlockRef(block)| {
            if wanted.next() != Some(&address(block)) {
                missing.get_or_insert(block.placement().site());
            }
        });
        missing.map_or(Ok(()), |site| Err(Error::InGraph { site }))
    }
}

fn addresses(kept: &impl Kept) -> Vec<usize> {
    let mut found = Vec::new();
    kept.each_block(&mut |BlockRef(block)| found.push(address(block)));
    found
}

impl<K: Kept> fmt::Debug for Graph<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("device", self.device())
            .finish_non_exhaustive()
    }
}
