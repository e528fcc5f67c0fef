//! Tests of the twins. Here: what runs them as a simulated device would, and the CUDA reductions
//! repeated lane by lane.

mod cg;
mod dot;
mod gather;
mod images;
mod memory;

use crate::{Cell, CellWords};
use bytemuck::Pod;
use pinfold_hal::{ModuleImage, Scalar, TwinArg, TwinCall, TwinError};

pub(crate) const SEQUENCE: u64 = 0x5eed;

/// Shapes `(blocks, threads)` that every summing kernel is tried with.
pub(crate) const SHAPES: [(u32, u32); 6] =
    [(1, 32), (1, 512), (3, 96), (8, 256), (37, 64), (528, 256)];

pub(crate) fn read<T: Pod>(memory: &[T]) -> TwinArg<'_> {
    TwinArg::Read(bytemuck::cast_slice(memory))
}

pub(crate) fn write<T: Pod>(memory: &mut [T]) -> TwinArg<'_> {
    TwinArg::Write(bytemuck::cast_slice_mut(memory))
}

pub(crate) fn scalar<T: Pod>(value: T) -> TwinArg<'static> {
    TwinArg::Scalar(Scalar::new(value).unwrap())
}

pub(crate) fn run(
    image: &ModuleImage,
    name: &str,
    (blocks, threads): (u32, u32),
    args: Vec<TwinArg<'_>>,
) -> Result<(), TwinError> {
    let twin = image.twins.iter().find(|twin| twin.name == name).unwrap();
    (twin.body)(&mut TwinCall {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        args,
    })
}

/// The memory behind a summing kernel's last four arguments.
pub(crate) struct Output {
    pub(crate) partial: Vec<f64>,
    pub(crate) ticket: [u32; 1],
    pub(crate) cell: [CellWords; 1],
}

impl Output {
    pub(crate) fn new(blocks: u32, sums: u32) -> Self {
        Output {
            partial: vec![f64::NAN; (blocks * sums) as usize],
            ticket: [0],
            cell: [[u64::MAX; 4]],
        }
    }

    pub(crate) fn args(&mut self) -> [TwinArg<'_>; 4] {
        [
            write(&mut self.partial),
            write(&mut self.ticket),
            write(&mut self.cell),
            scalar(SEQUENCE),
        ]
    }

    /// What was published, after a check of everything around it.
    pub(crate) fn values(&self) -> [f64; 2] {
        assert_eq!(self.ticket, [0], "ready for the next launch");
        assert_eq!(self.cell[0][3], u64::MAX, "the reserved word is left alone");
        let cell = Cell::from(self.cell[0]);
        assert_eq!(cell.sequence(), SEQUENCE);
        cell.values()
    }
}

/// `lanes_reduce<Sum>`: every lane adds what the lane `offset` above it in its group held, or its
/// own value where there is none.
pub(crate) fn shuffle_sum(mut lanes: [f64; 32], width: usize) -> [f64; 32] {
    let mut offset = width / 2;
    while offset > 0 {
        let before = lanes;
        for (lane, value) in lanes.iter_mut().enumerate() {
            let in_group = lane % width + offset < width;
            *value += before[if in_group { lane + offset } else { lane }];
        }
        offset /= 2;
    }
    lanes
}

/// `block_reduce<Sum>`, as thread 0 sees it.
pub(crate) fn literal_block_sum(threads: &[f64]) -> f64 {
    let mut shared = [0.0; 32];
    for (warp, lanes) in threads.chunks_exact(32).enumerate() {
        shared[warp] = shuffle_sum(lanes.try_into().unwrap(), 32)[0];
    }
    shuffle_sum(shared, 32)[0]
}

/// `finish<1>`: from what every thread of the grid holds to the published value.
pub(crate) fn literal_finish(threads: &[f64], block: usize) -> f64 {
    let partial: Vec<f64> = threads.chunks_exact(block).map(literal_block_sum).collect();
    let last: Vec<f64> = (0..block)
        .map(|t| {
            partial
                .iter()
                .skip(t)
                .step_by(block)
                .fold(0.0, |s, p| s + p)
        })
        .collect();
    literal_block_sum(&last)
}

pub(crate) fn random_f32(rng: &mut fastrand::Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| rng.f32() - 0.5).collect()
}

pub(crate) fn random_f64(rng: &mut fastrand::Rng, n: usize) -> Vec<f64> {
    (0..n).map(|_| rng.f64() - 0.5).collect()
}
