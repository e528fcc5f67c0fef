//! Puts the segments of one pool on their node, and looks whether they got there.

use super::{Nodes, NumaBinding, NumaNode};
use crate::device::Device;
use parking_lot::Mutex;
use pinfold_hal::{DriverError, HostAddr};

/// One page in so many bytes is asked where it lies: each huge page, where there are any.
const SAMPLE_EVERY_BYTES: u64 = 2 << 20;
/// Most pages of a segment that are asked.
const SAMPLES_MAX: u64 = 4096;

/// Where the segments of one pool are to lie.
pub(in crate::pool) struct Place {
    device: Device,
    node: Option<u32>,
    wanted: NumaNode,
    binding: Mutex<NumaBinding>,
}

impl Place {
    /// For a pool whose first device this is.
    pub(in crate::pool) fn new(device: &Device, wanted: NumaNode) -> Self {
        Place {
            device: device.clone(),
            node: wanted.near(device),
            wanted,
            binding: Mutex::default(),
        }
    }

    /// The node, where one is wanted.
    pub(in crate::pool) fn node(&self) -> Option<u32> {
        self.node
    }

    /// What came of binding the newest segment.
    pub(in crate::pool) fn binding(&self) -> NumaBinding {
        *self.binding.lock()
    }

    /// The host's nodes and the one to bind to; `None` where there is nothing to bind. Says why.
    fn wanted(&self) -> Result<Option<(&dyn Nodes, u32)>, DriverError> {
        let Some(node) = self.node else {
            *self.binding.lock() = match self.wanted {
                NumaNode::Any => NumaBinding::Any,
                _ => NumaBinding::NodeUnknown,
            };
            return Ok(None);
        };
        let nodes = self.device.platform_inner().nodes()?;
        let why_not = match nodes.numbers() {
            [only] if *only == node => NumaBinding::OneNode,
            numbers if !numbers.contains(&node) => NumaBinding::NoSuchNode,
            _ => return Ok(Some((nodes, node))),
        };
        *self.binding.lock() = why_not;
        Ok(None)
    }

    /// Binds memory that was not touched yet. Returns whether there are nodes to choose from.
    pub(in crate::pool) fn bind(&self, start: HostAddr, bytes: u64) -> Result<bool, DriverError> {
        let Some((nodes, node)) = self.wanted()? else {
            return Ok(false);
        };
        let binding = nodes.bind(start, bytes, node);
        *self.binding.lock() = binding;
        Ok(true)
    }

    /// Allocates so many bytes near the node.
    pub(in crate::pool) fn allocate(
        &self,
        bytes: u64,
        allocate: &mut dyn FnMut() -> Result<HostAddr, DriverError>,
    ) -> Result<HostAddr, DriverError> {
        let Some((nodes, node)) = self.wanted()? else {
            return allocate();
        };
        let (start, binding) = nodes.allocate_near(node, bytes, allocate);
        *self.binding.lock() = binding;
        start
    }

    /// Has the calling thread run near the node from now on, where it may.
    pub(in crate::pool) fn run_near(&self) {
        if let (Some(node), Ok(nodes)) = (self.node, self.device.platform_inner().nodes()) {
            nodes.run_near(node);
        }
    }

    /// How many bytes of memory that was touched lie on another node, by a sample of its pages.
    pub(in crate::pool) fn misplaced_bytes(&self, start: HostAddr, bytes: u64) -> u64 {
        let (Some(node), Ok(nodes)) = (self.node, self.device.platform_inner().nodes()) else {
            return 0;
        };
        if nodes.numbers().len() < 2 {
            return 0;
        }
        let every = SAMPLE_EVERY_BYTES.max(bytes.div_ceil(SAMPLES_MAX).next_multiple_of(4096));
        let pages: Vec<HostAddr> = (0..bytes.div_ceil(every))
            .map(|n| HostAddr(start.0 + (n * every) as usize))
            .collect();
        let elsewhere = nodes.nodes_of(&pages).into_iter().enumerate();
        elsewhere
            .filter(|(_, lies_on)| lies_on.is_some_and(|lies_on| lies_on != node))
            .map(|(n, _)| every.min(bytes - n as u64 * every))
            .sum()
    }

    /// The memory goes away.
    pub(in crate::pool) fn forget(&self, start: HostAddr) {
        if let (Some(_), Ok(nodes)) = (self.node, self.device.platform_inner().nodes()) {
            nodes.forget(start);
        }
    }
}
