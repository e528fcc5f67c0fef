//! Launches of a graph, and all that they need for as long as there may be one.

use super::recording::{Bound, Published, Recording, address};
use super::thread;
use crate::device::Device;
use crate::error::Result;
use crate::launch::Module;
use crate::memory::block::Block;
use crate::stream::Stream;
use crate::stream::order::{GRAPHS_TURN, StreamOrder};
use pinfold_hal::GraphExecId;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A graph that can be launched, with its blocks and kernels.
pub(super) struct Replay {
    device: Device,
    exec: GraphExecId,
    blocks: BTreeMap<usize, Bound>,
    published: Vec<Published>,
    /// The last launch: stream, and place in it. Those before are done when it is.
    last: Option<(Arc<StreamOrder>, u64)>,
    /// After the driver's object, which needs them.
    _modules: Vec<Module>,
}

impl Replay {
    pub(super) fn new(device: Device, exec: GraphExecId, recording: Recording) -> Self {
        Replay {
            device,
            exec,
            blocks: recording.blocks,
            published: recording.published,
            last: None,
            _modules: recording.modules,
        }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// True where launches use the block.
    pub(super) fn uses(&self, block: &Arc<Block>) -> bool {
        self.blocks.contains_key(&address(block))
    }

    /// Enqueues one run. No host code has any of the blocks.
    pub(super) fn launch(&mut self, stream: &Stream) -> Result<()> {
        // Also from here: two graphs may publish into one cell.
        let _turn = GRAPHS_TURN.lock();
        for published in &self.published {
            published.cell.until_published(published.sequence)?;
        }
        let bound = self.blocks.values();
        let uses: SmallVec<[(&Arc<Block>, bool); 16]> =
            bound.map(|b| (b.block(), b.writes)).collect();
        let (driver, id) = (self.device.driver(), stream.id());
        stream.enqueue(&uses, "launching a graph", || {
            let cells = self.published.iter();
            let before: SmallVec<[u64; 2]> = cells.map(|p| p.cell.rearm()).collect();
            // SAFETY: all blocks of the captured work are held here, and their uses are noted
            // behind the launch, so that they outlive it. The host has none of them: they are
            // bound, and the graph has not lent those that it keeps.
            let launched = unsafe { driver.graph_launch(self.exec, id) };
            if launched.is_err() {
                let cells = self.published.iter().zip(before);
                cells.for_each(|(p, sequence)| p.cell.take_back(sequence));
            }
            launched
        })?;
        self.last = Some((stream.order().clone(), stream.order().tail()));
        Ok(())
    }

    /// Waits for the launches so far.
    fn settle(&self) -> Result<()> {
        let Some((order, place)) = &self.last else {
            return Ok(());
        };
        match order.wait_for(*place) {
            Err(error) if !error.device_is_lost() => self.device.settle(),
            waited => waited,
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::captures() {
            let whole = Replay {
                device: self.device.clone(),
                exec: self.exec,
                blocks: std::mem::take(&mut self.blocks),
                published: std::mem::take(&mut self.published),
                last: self.last.take(),
                _modules: std::mem::take(&mut self._modules),
            };
            return thread::later(move || drop(whole));
        }
        // The driver's object must not go before its launches are done; else it is leaked. What it
        // used is released when the device is done in any case.
        if self.settle().is_err_and(|error| !error.device_is_lost()) {
            return;
        }
        // SAFETY: the launches are over, or the device is lost, and nobody else has the graph.
        let _ = unsafe { self.device.driver().graph_exec_destroy(self.exec) };
    }
}
