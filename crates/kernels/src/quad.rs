//! Floats read four at a time: the twin of `quad.cuh`.

use crate::reduce::{Grid, block_sum};
use std::ops::Range;

/// Floats that a thread takes at once.
pub const QUAD: usize = 4;

/// Adds up `n` elements the way the quad kernels do, and puts the blocks' sums into `partial`.
///
/// Thread t of G owns quads t, t + G, t + 2 G, ...; it has one accumulator for each place in a
/// quad. So a block of T threads, seen from outside, has 4 T accumulators that walk over the
/// array side by side, and `add` is asked to add some neighbouring elements to as many
/// neighbouring accumulators: a loop that compilers vectorise. The up to three elements behind
/// the last quad go to the first accumulators of the first threads.
pub fn sum_by_quads(
    grid: Grid,
    n: usize,
    partial: &mut [f64],
    add: impl Fn(&mut [f64], Range<usize>),
) {
    let whole = n - n % QUAD;
    let width = QUAD * grid.threads;
    let mut lanes = vec![0.0; width];
    let mut threads = vec![0.0; grid.threads];
    for (block, partial) in partial.iter_mut().take(grid.blocks).enumerate() {
        lanes.fill(0.0);
        for start in (block * width..whole).step_by(QUAD * grid.total()) {
            let end = whole.min(start + width);
            add(&mut lanes[..end - start], start..end);
        }
        if block == 0 {
            for (i, lanes) in (whole..n).zip(lanes.chunks_exact_mut(QUAD)) {
                add(&mut lanes[..1], i..i + 1);
            }
        }
        for (thread, lane) in threads.iter_mut().zip(lanes.chunks_exact(QUAD)) {
            *thread = (lane[0] + lane[1]) + (lane[2] + lane[3]);
        }
        *partial = block_sum(&mut threads);
    }
}

/// Threads a block for the quad kernels.
const THREADS: u32 = 256;

/// Four blocks for each multiprocessor of a large device (132), at which a thread has up to 128
/// bytes in flight: more than either the link or device memory needs.
const BLOCKS_MAX: u64 = 528;

/// The launch shape `(blocks, threads)` to read `n` floats with: one quad a thread, so that all
/// of a small input is asked for at once, up to as many blocks as fill a large device.
pub fn quad_shape(n: u64) -> (u32, u32) {
    let blocks = (n / QUAD as u64)
        .div_ceil(u64::from(THREADS))
        .clamp(1, BLOCKS_MAX);
    (blocks as u32, THREADS)
}
