//! What all kernels that sum share: scratch memory, and where the sum goes.

use crate::buffer::{DeviceBuffer, Expected, ScalarCell};
use crate::error::Result;
use crate::launch::Args;
use crate::memory::Memory;
use crate::stream::Stream;
use pinfold_kernels::CellWords;

/// A cell in device memory, to be copied back: one element.
pub type CellBuffer = DeviceBuffer<CellWords>;

/// Where a kernel puts its scalars: a [`ScalarCell`] that the host polls, or a [`CellBuffer`] that
/// is copied back.
///
/// Only these two kinds: launches rely on what a sink adds to their arguments.
pub trait Sink: sealed::Sealed {
    /// What the caller gets to find them by.
    type Promise;

    #[doc(hidden)]
    fn add_to<'a>(&'a mut self, args: Args<'a>) -> Result<Args<'a>>;

    #[doc(hidden)]
    fn promise(self) -> Self::Promise;
}

/// Publishes under a number that the host polls for.
#[derive(Debug)]
#[doc(hidden)]
pub struct Publish<'c> {
    cell: &'c mut ScalarCell,
    expected: Expected,
}

mod sealed {
    /// Keeps a trait to this module.
    pub trait Sealed {}
    impl Sealed for super::Publish<'_> {}
    impl Sealed for &mut super::ScalarCell {}
    impl Sealed for &mut super::CellBuffer {}
}

/// What can be turned into a [`Sink`] for one launch.
pub trait IntoSink: sealed::Sealed {
    /// The sink.
    type Sink: Sink;

    #[doc(hidden)]
    fn into_sink(self) -> Self::Sink;
}

impl<'c> IntoSink for &'c mut ScalarCell {
    type Sink = Publish<'c>;

    fn into_sink(self) -> Publish<'c> {
        let expected = self.expect();
        Publish {
            cell: self,
            expected,
        }
    }
}

impl Sink for Publish<'_> {
    type Promise = Expected;

    fn add_to<'a>(&'a mut self, args: Args<'a>) -> Result<Args<'a>> {
        Ok(args.publishes(self.cell, &self.expected))
    }

    fn promise(self) -> Expected {
        self.expected
    }
}

impl IntoSink for &mut CellBuffer {
    type Sink = Self;

    fn into_sink(self) -> Self {
        self
    }
}

impl Sink for &mut CellBuffer {
    type Promise = ();

    fn add_to<'a>(&'a mut self, args: Args<'a>) -> Result<Args<'a>> {
        Ok(args.updates_prefix(*self, 1)?.scalar(0u64))
    }

    fn promise(self) {}
}

/// Scratch memory of kernels that sum: the blocks' partial sums, and the ticket by which the last
/// block is found. One launch at a time uses it; streams order themselves on it.
pub(super) struct Scratch {
    partial: DeviceBuffer<f64>,
    ticket: DeviceBuffer<u32>,
}

impl Scratch {
    /// Room for `partials` partial sums.
    pub(super) fn new(memory: &Memory, stream: &Stream, partials: usize) -> Result<Self> {
        let device = stream.device();
        let partial = memory.device_on(device, partials)?;
        let mut ticket = memory.device_on(device, 1)?;
        stream.fill(&mut ticket, 0)?;
        Ok(Scratch { partial, ticket })
    }

    /// The last arguments of every kernel that sums.
    pub(super) fn finish<'a>(
        &'a mut self,
        args: Args<'a>,
        blocks: usize,
        sink: &'a mut impl Sink,
    ) -> Result<Args<'a>> {
        let Scratch { partial, ticket } = self;
        let used = args.updates_prefix(partial, blocks)?.updates(ticket);
        sink.add_to(used)
    }

    /// The ticket alone, for a kernel that finds its last block and sums nothing up.
    pub(super) fn ticket<'a>(&'a mut self, args: Args<'a>) -> Args<'a> {
        args.updates(&mut self.ticket)
    }
}
