//! The nodes of a simulated host: which address range is on which node, as numbers only.

use super::{Nodes, NumaBinding};
use parking_lot::Mutex;
use pinfold_hal::{DriverError, HostAddr};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nodes of a simulated host. Memory lies where it is asked to, unless told to
/// [misplace](Self::misplace) it.
#[derive(Debug)]
pub struct SimulatedNodes {
    numbers: Vec<u32>,
    /// By start: bytes, and the node that they lie on.
    ranges: Mutex<BTreeMap<usize, (u64, u32)>>,
    misplaces: AtomicBool,
}

impl SimulatedNodes {
    /// Most nodes; the kernel has no more.
    const NODES_MAX: u32 = 1024;

    /// So many nodes, but at least one and at most 1024.
    pub fn new(count: u32) -> Self {
        SimulatedNodes {
            numbers: (0..count.clamp(1, Self::NODES_MAX)).collect(),
            ranges: Mutex::default(),
            misplaces: AtomicBool::new(false),
        }
    }

    /// Whether memory comes to lie on the node behind the one that it was asked for on, as where
    /// that one is full.
    pub fn misplace(&self, misplaces: bool) {
        self.misplaces.store(misplaces, Ordering::Relaxed);
    }

    /// Number of address ranges that lie on some node.
    pub fn ranges(&self) -> usize {
        self.ranges.lock().len()
    }

    fn put(&self, start: HostAddr, bytes: u64, node: u32) {
        let lies_on = match self.misplaces.load(Ordering::Relaxed) {
            true => (node + 1) % self.numbers.len() as u32,
            false => node,
        };
        self.ranges.lock().insert(start.0, (bytes, lies_on));
    }
}

impl Nodes for SimulatedNodes {
    fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    fn bind(&self, start: HostAddr, bytes: u64, node: u32) -> NumaBinding {
        self.put(start, bytes, node);
        NumaBinding::Bound
    }

    fn allocate_near(
        &self,
        node: u32,
        bytes: u64,
        allocate: &mut dyn FnMut() -> Result<HostAddr, DriverError>,
    ) -> (Result<HostAddr, DriverError>, NumaBinding) {
        let outcome = allocate();
        if let Ok(start) = outcome {
            self.put(start, bytes, node);
        }
        (outcome, NumaBinding::Bound)
    }

    fn run_near(&self, _node: u32) {}

    fn nodes_of(&self, pages: &[HostAddr]) -> Vec<Option<u32>> {
        let ranges = self.ranges.lock();
        let node_of = |page: &HostAddr| {
            let (start, (bytes, node)) = ranges.range(..=page.0).next_back()?;
            (((page.0 - start) as u64) < *bytes).then_some(*node)
        };
        pages.iter().map(node_of).collect()
    }

    fn forget(&self, start: HostAddr) {
        self.ranges.lock().remove(&start.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_lies_where_it_was_asked_for_until_it_goes_away() {
        let nodes = SimulatedNodes::new(2);
        nodes.bind(HostAddr(0x1000), 0x2000, 1);
        nodes.misplace(true);
        nodes.bind(HostAddr(0x3000), 0x1000, 1);
        let at = |addr| nodes.nodes_of(&[HostAddr(addr)])[0];
        assert_eq!(
            [at(0xfff), at(0x1000), at(0x2fff)],
            [None, Some(1), Some(1)]
        );
        assert_eq!([at(0x3fff), at(0x4000)], [Some(0), None]);
        nodes.forget(HostAddr(0x1000));
        assert_eq!(at(0x1000), None);
    }
}
