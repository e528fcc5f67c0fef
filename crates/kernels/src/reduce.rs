//! Sums over a whole grid in one fixed order: the twin of `reduce.cuh`.
//!
//! ```text
//! thread   adds up its own elements                           (the kernel's own business)
//! warp     32 threads: v[i] += v[i + 16], + 8, + 4, + 2, + 1  (tree_sum)
//! block    the warps' sums, padded with 0 to 32, same tree    (block_sum)
//! grid     partial[block]; then thread t of one block adds up
//!          partial[t], partial[t + threads], ... and the
//!          block's tree follows once more                     (Finish::sums)
//! ```

use bytemuck::Pod;
use pinfold_hal::{TwinArg, TwinCall, TwinError};

/// Threads of a warp.
pub const WARP: usize = 32;

/// Most threads of a block that the kernels are compiled for (`THREADS_MAX` in `reduce.cuh`).
pub const THREADS_MAX: usize = 512;

/// A [`Cell`] as it lies in memory, aligned to 8 bytes: the element type for the memory that a
/// kernel publishes into.
pub type CellWords = [u64; 4];

/// What a kernel publishes: two values, and the sequence number that it was launched with.
///
/// The kernel writes the values first and the sequence with a system-scope release store. A host
/// that polls mapped memory reads the sequence with an acquire load, and then the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Cell(CellWords);

impl Cell {
    /// Size in memory.
    pub const BYTES: usize = size_of::<CellWords>();

    /// Where the sequence number lies, counted from the start of the cell.
    pub const SEQUENCE_OFFSET_BYTES: usize = 16;

    /// A cell with this content; the last word is reserved and 0.
    pub fn new(values: [f64; 2], sequence: u64) -> Self {
        Cell([values[0].to_bits(), values[1].to_bits(), sequence, 0])
    }

    /// Value 0 or 1; `None` beyond.
    pub fn value(&self, index: usize) -> Option<f64> {
        self.values().get(index).copied()
    }

    /// Both values.
    pub fn values(&self) -> [f64; 2] {
        [f64::from_bits(self.0[0]), f64::from_bits(self.0[1])]
    }

    /// The sequence number of the launch that wrote the values.
    pub fn sequence(&self) -> u64 {
        self.0[2]
    }
}

impl From<CellWords> for Cell {
    fn from(words: CellWords) -> Self {
        Cell(words)
    }
}

impl From<Cell> for CellWords {
    fn from(cell: Cell) -> Self {
        cell.0
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks of the grid.
    pub blocks: usize,
    /// Threads of each block.
    pub threads: usize,
}

impl Grid {
    /// The shape of a call.
    ///
    /// # Errors
    /// For a shape that the kernels cannot run with: more than one dimension, no block, or a
    /// block that is not a multiple of 32 threads, up to [`THREADS_MAX`].
    pub fn of(call: &TwinCall<'_>) -> Result<Self, TwinError> {
        let grid = Grid {
            blocks: call.grid[0] as usize,
            threads: call.block[0] as usize,
        };
        let flat = call.grid[1..] == [1, 1] && call.block[1..] == [1, 1];
        let whole_warps = grid.threads.is_multiple_of(WARP) && grid.threads > 0;
        if flat && grid.blocks > 0 && whole_warps && grid.threads <= THREADS_MAX {
            return Ok(grid);
        }
        Err(TwinError(format!(
            "grid {:?} of blocks {:?}: one dimension, at least one block, and a multiple of {WARP} \
             threads up to {THREADS_MAX} are needed",
            call.grid, call.block
        )))
    }

    /// Threads of the whole grid.
    pub fn total(&self) -> usize {
        self.blocks * self.threads
    }
}

/// `needed` as an index, where memory of `held` elements is long enough for it.
///
/// # Errors
/// Names the argument where it is not.
fn prefix(name: &str, held: usize, needed: u64) -> Result<usize, TwinError> {
    match usize::try_from(needed) {
        Ok(needed) if needed <= held => Ok(needed),
        _ => Err(TwinError(format!(
            "argument `{name}` covers {held} elements, and the kernel reaches {needed}"
        ))),
    }
}

/// The first `needed` elements of an argument, to read.
///
/// # Errors
/// Names the argument where it is shorter, or not such memory.
pub fn read_prefix<'a, T: Pod>(
    name: &str,
    arg: &'a TwinArg<'_>,
    needed: u64,
) -> Result<&'a [T], TwinError> {
    let all = arg.read::<T>()?;
    let needed = prefix(name, all.len(), needed)?;
    Ok(&all[..needed])
}

/// The first `needed` elements of an argument, to write.
///
/// # Errors
/// Names the argument where it is shorter, read-only, or not such memory.
pub fn write_prefix<'a, T: Pod>(
    name: &str,
    arg: &'a mut TwinArg<'_>,
    needed: u64,
) -> Result<&'a mut [T], TwinError> {
    let all = arg.write::<T>()?;
    let needed = prefix(name, all.len(), needed)?;
    Ok(&mut all[..needed])
}

/// The sum of up to 32 lanes (a power of two) in the order of `lanes_reduce<Sum>`: halve, and add
/// the upper half to the lower. Overwrites `lanes`; 0 where there are none.
pub fn tree_sum(lanes: &mut [f64]) -> f64 {
    let mut width = lanes.len();
    while width > 1 {
        let half = width / 2;
        let (low, high) = lanes[..width].split_at_mut(half);
        for (low, high) in low.iter_mut().zip(high) {
            *low += *high;
        }
        width = half;
    }
    lanes.first().copied().unwrap_or(0.0)
}

/// The sum of one value of every thread of a block in the order of `block_reduce<Sum>`. Takes a
/// multiple of 32 values, up to [`THREADS_MAX`], and overwrites them.
pub fn block_sum(threads: &mut [f64]) -> f64 {
    let mut warps = [0.0; WARP];
    for (sum, lanes) in warps.iter_mut().zip(threads.chunks_exact_mut(WARP)) {
        *sum = tree_sum(lanes);
    }
    tree_sum(&mut warps)
}

/// The last four arguments of every kernel that sums: scratch for the blocks' sums, the ticket
/// that finds the last block, the cell to publish into, and the sequence number to publish.
#[derive(Debug)]
pub struct Finish<'a, T> {
    grid: Grid,
    partial: &'a mut [T],
    cell: &'a mut CellWords,
    sequence: u64,
}

impl<'a, T: Pod> Finish<'a, T> {
    /// Takes the arguments apart. `per_block` is the number of scratch elements a block.
    ///
    /// # Errors
    /// For memory that is too short or of the wrong kind, and for a ticket that is not 0: a real
    /// kernel would then never find its last block.
    pub fn new(
        grid: Grid,
        per_block: usize,
        [partial, ticket, cell, sequence]: [&'a mut TwinArg<'_>; 4],
    ) -> Result<Self, TwinError> {
        let held = ticket.write::<u32>()?;
        prefix("ticket", held.len(), 1)?;
        if held[0] != 0 {
            return Err(TwinError(format!(
                "the ticket is {:#x}: set it to 0 before the first launch",
                held[0]
            )));
        }
        let cells = cell.write::<CellWords>()?;
        let held = cells.len();
        let Some(cell) = cells.first_mut() else {
            return Err(TwinError(format!("argument `cell` covers {held} cells")));
        };
        Ok(Finish {
            grid,
            partial: write_prefix("partial", partial, (per_block * grid.blocks) as u64)?,
            cell,
            sequence: sequence.scalar()?,
        })
    }

    /// The scratch memory, to be filled with the blocks' results: all of the first, then all of
    /// the second.
    pub fn partial(&mut self) -> &mut [T] {
        self.partial
    }

    /// Publishes two values, as `publish` does.
    pub fn publish(self, values: [f64; 2]) {
        self.cell[0] = values[0].to_bits();
        self.cell[1] = values[1].to_bits();
        self.cell[2] = self.sequence;
    }
}

impl Finish<'_, f64> {
    /// What the last block does: adds up the one or two sums of all blocks, and publishes them.
    pub fn sums(self) {
        let mut totals = [0.0; 2];
        for (total, blocks) in totals
            .iter_mut()
            .zip(self.partial.chunks_exact(self.grid.blocks))
        {
            let mut threads = vec![0.0; self.grid.threads];
            for round in blocks.chunks(self.grid.threads) {
                for (thread, sum) in threads.iter_mut().zip(round) {
                    *thread += sum;
                }
            }
            *total = block_sum(&mut threads);
        }
        self.publish(totals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_pairs_the_halves() {
        // 2^53 + 1 is lost in one order and kept in the other.
        let big = 9_007_199_254_740_992.0;
        assert_eq!(tree_sum(&mut [big, 1.0, -big, 1.0]), 2.0);
        assert_eq!(tree_sum(&mut [big, -big, 1.0, 1.0]), 1.0);
        assert_eq!(tree_sum(&mut []), 0.0);
    }

    #[test]
    fn a_block_sums_all_of_its_threads() {
        for threads in (WARP..=THREADS_MAX).step_by(WARP) {
            let mut values: Vec<f64> = (1..=threads).map(|i| i as f64).collect();
            assert_eq!(block_sum(&mut values), (threads * (threads + 1) / 2) as f64);
        }
    }

    #[test]
    fn a_cell_is_its_words() {
        let cell = Cell::new([1.5, -2.0], 7);
        let words: CellWords = cell.into();
        assert_eq!(words[Cell::SEQUENCE_OFFSET_BYTES / 8], 7);
        assert_eq!(Cell::from(words), cell);
        assert_eq!(cell.value(1), Some(-2.0));
        assert_eq!(cell.value(2), None);
        assert_eq!(Cell::BYTES, 32);
    }

    #[test]
    fn unfit_shapes_are_refused() {
        let shape = |grid, block| {
            Grid::of(&TwinCall {
                grid,
                block,
                args: Vec::new(),
            })
        };
        assert!(shape([3, 1, 1], [64, 1, 1]).is_ok());
        for (grid, block) in [
            ([0, 1, 1], [32, 1, 1]),
            ([1, 2, 1], [32, 1, 1]),
            ([1, 1, 1], [32, 2, 1]),
            ([1, 1, 1], [0, 1, 1]),
            ([1, 1, 1], [33, 1, 1]),
            ([1, 1, 1], [544, 1, 1]),
        ] {
            assert!(shape(grid, block).is_err(), "{grid:?} {block:?}");
        }
    }
}
