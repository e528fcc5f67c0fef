//! NUMA nodes: how a pool's memory comes to lie near its device, and where it really lies.
//!
//! [`Nodes`] is what a host can be asked for. `system` asks the kernel of the machine that this
//! runs on, `simulated` stands for hosts with nodes that this machine does not have, and `place`
//! puts the segments of one pool where they belong and looks whether they got there.

pub(super) mod place;
mod simulated;
mod system;

pub use simulated::SimulatedNodes;

use crate::device::Device;
use pinfold_hal::{DeviceId, Driver, DriverError, HostAddr};
use serde::Serialize;
use std::sync::Arc;
use system::SystemNodes;

/// Where a pool's memory is to lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumaNode {
    /// On the node of the device. A [`Memory`](crate::Memory) for devices on several nodes has
    /// pools for each of them; a [`Pool`](super::Pool) goes by its first device.
    #[default]
    OfDevice,
    /// On this node, whatever the device.
    Fixed(u32),
    /// Wherever the system puts it.
    Any,
}

impl NumaNode {
    /// The node that memory for a device is to lie on, where there is one.
    pub(crate) fn near(self, device: &Device) -> Option<u32> {
        match self {
            NumaNode::OfDevice => device.info().numa_node,
            NumaNode::Fixed(node) => Some(node),
            NumaNode::Any => None,
        }
    }
}

/// What came of binding a pool's memory to its node: the answer for the newest segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NumaBinding {
    /// Nothing was page-locked yet.
    #[default]
    Unmade,
    /// Its pages may lie on the node only.
    Bound,
    /// Its pages lie on the node while that has room. Also where the node has so little left that
    /// to insist would have the kernel end processes.
    Preferred,
    /// Not bound: [`NumaNode::Any`] was asked for.
    Any,
    /// Not bound: the system does not tell the device's node.
    NodeUnknown,
    /// Not bound, and no need to: all memory of the host is on one node.
    OneNode,
    /// Not bound: the host has no memory on the node.
    NoSuchNode,
    /// Not bound: the process may not do that, or may not use the node.
    Refused,
}

/// The NUMA nodes of a host.
pub trait Nodes: Send + Sync {
    /// The numbers of those that have memory.
    fn numbers(&self) -> &[u32];

    /// Asks that memory that was not touched yet comes to lie on a node. It begins on a page and is
    /// made of whole ones.
    fn bind(&self, start: HostAddr, bytes: u64, node: u32) -> NumaBinding;

    /// Calls a function that allocates so many bytes and may touch them, such that they come to lie
    /// on a node.
    fn allocate_near(
        &self,
        node: u32,
        bytes: u64,
        allocate: &mut dyn FnMut() -> Result<HostAddr, DriverError>,
    ) -> (Result<HostAddr, DriverError>, NumaBinding);

    /// Has the calling thread run on processors of the node from now on, where it may.
    fn run_near(&self, node: u32);

    /// The node that each of some pages lies on; `None` where that cannot be told.
    fn nodes_of(&self, pages: &[HostAddr]) -> Vec<Option<u32>>;

    /// Told when memory that was bound or allocated near a node goes away.
    fn forget(&self, _start: HostAddr) {}
}

/// The nodes of the host that a driver's devices are in. A simulated host has as many as its
/// devices need.
pub(crate) fn of_host(driver: &dyn Driver) -> Result<Arc<dyn Nodes>, DriverError> {
    if !driver.info().simulated {
        return Ok(Arc::new(SystemNodes::read()));
    }
    let mut count = 1;
    for device in 0..driver.device_count()? {
        let node = driver.device_info(DeviceId(device))?.numa_node;
        count = count.max(node.map_or(0, |node| node.saturating_add(1)));
    }
    Ok(Arc::new(SimulatedNodes::new(count)))
}
