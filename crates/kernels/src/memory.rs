//! Kernels that measure and check memory, and one that holds a stream: the twin of `memory.cu`.
//!
//! ```text
//! fill_u64(dst: u64[n] write, n: u64, seed: u64)
//!     dst[i] = splitmix64(seed + i)
//! check_u64(src: u64[n] read, n: u64, seed: u64, partial: u64[2 * blocks] write, FINISH)
//!     compares src with the same           publishes the number of mismatches, and the index
//!                                          of the first, or n
//! read_f32(src: f32[n] read, n: u64, partial: f64[blocks] write, FINISH)
//!     reads all of it once, in order       publishes the sum and 0
//! check_strided_u32(src: u64[n] read strided, n: u64, stride: u64, seed: u64,
//!                   partial: u64[2 * blocks] write, FINISH)
//!     compares every stride-th half word   publishes the number of mismatches, and the place
//!                                          of the first in half words, or 2 n
//! chase_u32(src: u32[n] read, n: u64, steps: u64, partial: f64[blocks] write, FINISH)
//!     place = src[place], steps times      publishes the place and 0
//! spin(cycles: u64)
//!     keeps busy for at least so many cycles of the device's clock
//!
//! FINISH is ticket: u32[1] read-write, cell: CellWords[1] read-write, sequence: u64
//! ```
//!
//! The ticket is 0 before the first launch, and the kernels leave it at 0. Counts and indices are
//! published as doubles: exact up to 2^53.

use crate::quad::sum_by_quads;
use crate::reduce::{Finish, Grid, read_prefix, write_prefix};
use pinfold_hal::{ModuleImage, Twin, TwinCall, TwinError};

pub use crate::quad::quad_shape as read_shape;

/// Threads a block.
const THREADS: u32 = 256;

/// Eight blocks for each multiprocessor of a large device (132): its 2048 threads.
const BLOCKS_MAX: u64 = 1056;

/// The family's PTX and twins.
pub fn image() -> ModuleImage {
    ModuleImage {
        name: "memory".into(),
        ptx: include_str!("../../../kernels/ptx/memory.ptx").into(),
        twins: vec![
            Twin::new("fill_u64", fill_u64),
            Twin::new("check_u64", check_u64),
            Twin::new("read_f32", read_f32),
            Twin::new("check_strided_u32", check_strided_u32),
            Twin::new("chase_u32", chase_u32),
            Twin::new("spin", spin),
        ],
    }
}

/// The launch shape `(blocks, threads)` to fill or check `n` words with.
pub fn fill_shape(n: u64) -> (u32, u32) {
    let blocks = n.div_ceil(u64::from(THREADS)).clamp(1, BLOCKS_MAX);
    (blocks as u32, THREADS)
}

/// The output of the SplitMix64 generator one step on from state `x`: a bijection that scatters
/// neighbouring numbers (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*,
/// OOPSLA 2014).
pub fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn fill_u64(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    Grid::of(call)?;
    let [dst, n, seed] = call.args::<3>()?;
    let seed = seed.scalar::<u64>()?;
    let dst = write_prefix::<u64>("dst", dst, n.scalar()?)?;
    for (i, word) in (0u64..).zip(dst) {
        *word = splitmix64(seed.wrapping_add(i));
    }
    Ok(())
}

fn check_u64(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [src, n, seed, partial, ticket, cell, sequence] = call.args::<7>()?;
    let (n, seed) = (n.scalar::<u64>()?, seed.scalar::<u64>()?);
    let src = read_prefix::<u64>("src", src, n)?;
    let mut finish = Finish::<u64>::new(grid, 2, [partial, ticket, cell, sequence])?;
    let (counts, firsts) = finish.partial().split_at_mut(grid.blocks);
    counts.fill(0);
    firsts.fill(n);
    for (strip, words) in src.chunks(grid.threads).enumerate() {
        let start = (strip * grid.threads) as u64;
        for (i, word) in (start..).zip(words) {
            if *word != splitmix64(seed.wrapping_add(i)) {
                let block = strip % grid.blocks;
                counts[block] += 1;
                firsts[block] = firsts[block].min(i);
            }
        }
    }
    let count: u64 = counts.iter().sum();
    let first = firsts.iter().fold(n, |first, i| first.min(*i));
    finish.publish([count as f64, first as f64]);
    Ok(())
}

fn read_f32(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [src, n, partial, ticket, cell, sequence] = call.args::<6>()?;
    let src = read_prefix::<f32>("src", src, n.scalar()?)?;
    let mut finish = Finish::<f64>::new(grid, 1, [partial, ticket, cell, sequence])?;
    sum_by_quads(grid, src.len(), finish.partial(), |sums, part| {
        for (sum, value) in sums.iter_mut().zip(&src[part]) {
            *sum += f64::from(*value);
        }
    });
    finish.sums();
    Ok(())
}

fn check_strided_u32(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [src, n, stride, seed, partial, ticket, cell, sequence] = call.args::<8>()?;
    let (n, stride) = (n.scalar::<u64>()?, stride.scalar::<u64>()?);
    let seed = seed.scalar::<u64>()?;
    if stride == 0 {
        return Err(TwinError("a stride of no half words".into()));
    }
    let src = read_prefix::<u64>("src", src, n)?;
    let mut finish = Finish::<u64>::new(grid, 2, [partial, ticket, cell, sequence])?;
    let (counts, firsts) = finish.partial().split_at_mut(grid.blocks);
    counts.fill(0);
    firsts.fill(2 * n);
    for k in 0..(2 * n).div_ceil(stride) {
        let i = k * stride;
        let half = |word: u64| (word >> (32 * (i % 2))) as u32;
        if half(src[(i / 2) as usize]) != half(splitmix64(seed.wrapping_add(i / 2))) {
            let block = (k / grid.threads as u64) as usize % grid.blocks;
            counts[block] += 1;
            firsts[block] = firsts[block].min(i);
        }
    }
    let count: u64 = counts.iter().sum();
    let first = firsts.iter().fold(2 * n, |first, i| first.min(*i));
    finish.publish([count as f64, first as f64]);
    Ok(())
}

fn chase_u32(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [src, n, steps, partial, ticket, cell, sequence] = call.args::<7>()?;
    let src = read_prefix::<u32>("src", src, n.scalar()?)?;
    let mut finish = Finish::<f64>::new(grid, 1, [partial, ticket, cell, sequence])?;
    let mut place = 0;
    for _ in 0..steps.scalar::<u64>()? {
        match src.get(place) {
            Some(next) if (*next as usize) < src.len() => place = *next as usize,
            Some(_) => place = 0,
            None => return Err(TwinError("a walk over no places".into())),
        }
    }
    finish.partial().fill(0.0);
    finish.partial()[0] = place as f64;
    finish.sums();
    Ok(())
}

/// A simulated device takes a kernel's time from its declared accesses; there is nothing to
/// compute.
fn spin(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    Grid::of(call)?;
    let [cycles] = call.args::<1>()?;
    cycles.scalar::<u64>()?;
    Ok(())
}
