//! What a capture collects beside the driver's own notes: what has to live as long as the graph.

use crate::buffer::CellState;
use crate::error::{Error, Result};
use crate::launch::Module;
use crate::memory::block::Block;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// A block that a graph uses. While one of these exists the host cannot have the block, since the
/// graph may be launched at any time.
pub(crate) struct Bound {
    block: Arc<Block>,
    pub(super) writes: bool,
}

impl Bound {
    fn new(block: &Arc<Block>, writes: bool) -> Result<Self> {
        if block.is_borrowed() {
            return Err(Error::Borrowed {
                site: block.placement().site(),
            });
        }
        block.bind()?;
        Ok(Bound {
            block: block.clone(),
            writes,
        })
    }

    pub(super) fn block(&self) -> &Arc<Block> {
        &self.block
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.block.unbind();
    }
}

/// A cell that a graph publishes into, and the number of its last publication there.
pub(crate) struct Published {
    pub(super) cell: Arc<CellState>,
    pub(super) sequence: u64,
}

/// All that recorded work needs.
#[derive(Default)]
pub(crate) struct Recording {
    /// By address, which stays another one's for as long as the block is held.
    pub(super) blocks: BTreeMap<usize, Bound>,
    pub(super) published: Vec<Published>,
    /// Kernels of a graph live in these.
    pub(super) modules: Vec<Module>,
}

impl Recording {
    /// Binds the blocks of an operation that is about to be recorded.
    ///
    /// # Errors
    /// [`Error::Borrowed`] for memory whose borrow would end before the graph does; where a block
    /// cannot be page-locked.
    pub(crate) fn bind(uses: &[(&Arc<Block>, bool)]) -> Result<SmallVec<[Bound; 4]>> {
        let bind = |(block, writes): &(&Arc<Block>, bool)| Bound::new(block, *writes);
        uses.iter().map(bind).collect()
    }

    /// Notes the blocks of an operation that was recorded.
    pub(crate) fn note(&mut self, bound: SmallVec<[Bound; 4]>) {
        for bound in bound {
            match self.blocks.entry(address(&bound.block)) {
                Entry::Occupied(mut known) => known.get_mut().writes |= bound.writes,
                Entry::Vacant(place) => {
                    place.insert(bound);
                }
            }
        }
    }

    /// Notes the module of a kernel.
    pub(crate) fn keep(&mut self, module: &Module) {
        if !self.modules.iter().any(|known| known.is(module)) {
            self.modules.push(module.clone());
        }
    }

    /// Notes that a kernel publishes into a cell under a number, larger than all before.
    pub(crate) fn publishes(&mut self, cell: &Arc<CellState>, sequence: u64) {
        let known = self.published.iter_mut();
        let mut known = known.filter(|published| Arc::ptr_eq(&published.cell, cell));
        match known.next() {
            Some(published) => published.sequence = sequence,
            None => self.published.push(Published {
                cell: cell.clone(),
                sequence,
            }),
        }
    }
}

/// What tells a block from others while both are held.
pub(super) fn address(block: &Arc<Block>) -> usize {
    Arc::as_ptr(block).addr()
}
