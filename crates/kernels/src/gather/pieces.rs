//! Pieces of mixed sizes, and the items that warps copy.

use super::{BLOCKS_MAX, THREADS};
use crate::reduce::{Grid, WARP, read_prefix};
use pinfold_hal::{TwinCall, TwinError};

/// Most bytes of one item. A warp copies an item, so that longer ones would leave other warps idle
/// at the end; a shorter one costs 24 bytes of list all the same, and up to two lines that its
/// neighbours read as well.
pub const ITEM_BYTES: u64 = 8 << 10;

/// An item as it lies in memory: place in the source, place in the target, and size, in bytes.
pub type PieceWords = [u64; 3];

/// A piece to copy: `bytes` from `from` in the source to `to` in the target, both in bytes from
/// their beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Where it begins in the source.
    pub from: u64,
    /// Where it begins in the target.
    pub to: u64,
    /// Its size.
    pub bytes: u64,
}

impl Piece {
    /// One past its last byte in the source; `None` where no memory is that large.
    pub fn from_end(&self) -> Option<u64> {
        self.from.checked_add(self.bytes)
    }

    /// One past its last byte in the target; `None` where no memory is that large.
    pub fn to_end(&self) -> Option<u64> {
        self.to.checked_add(self.bytes)
    }

    /// Number of items that it is cut into.
    pub fn item_count(&self) -> u64 {
        self.bytes.div_ceil(ITEM_BYTES)
    }

    /// Cuts off the next item: the first [`ITEM_BYTES`], or all there is. What is left has no bytes
    /// after [`item_count`](Self::item_count) items.
    pub fn cut_item(&mut self) -> PieceWords {
        let bytes = self.bytes.min(ITEM_BYTES);
        let item = [self.from, self.to, bytes];
        self.from = self.from.saturating_add(bytes);
        self.to = self.to.saturating_add(bytes);
        self.bytes -= bytes;
        item
    }
}

/// The launch shape `(blocks, threads)` for `items` items: a warp for each, up to full occupancy of
/// a large device.
pub fn pieces_shape(items: u64) -> (u32, u32) {
    let warps = u64::from(THREADS) / WARP as u64;
    let blocks = items.div_ceil(warps).clamp(1, 4 * BLOCKS_MAX);
    (blocks as u32, THREADS)
}

pub(super) fn copy_pieces(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    Grid::of(call)?;
    let [from, to, items, n] = call.args::<4>()?;
    let from = from.read::<u8>()?;
    let to = to.write::<u8>()?;
    for (k, item) in read_prefix::<PieceWords>("items", items, n.scalar()?)?
        .iter()
        .enumerate()
    {
        let [start, target, bytes] = item.map(|word| usize::try_from(word).unwrap_or(usize::MAX));
        let source = from.get(start..start.saturating_add(bytes));
        let target = to.get_mut(target..target.saturating_add(bytes));
        let (Some(source), Some(target)) = (source, target) else {
            return Err(TwinError(format!(
                "item {k}, {item:?}, leaves the source or the target"
            )));
        };
        target.copy_from_slice(source);
    }
    Ok(())
}
