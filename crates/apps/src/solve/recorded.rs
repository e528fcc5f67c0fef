//! The iteration as graphs: one launch a step. The device works out the factors itself; the host
//! polls for what tells it when to stop.

use super::steps::{CELL_BYTES, LIMIT, Solver, check_curvature, check_step, copied, norm};
use super::{Outcome, System};
use crate::error::Result;
use pinfold::buffer::{DeviceRead, Expected};
use pinfold::kernels::CellBuffer;
use pinfold::kernels::cg::{Matrix, StepCells};
use pinfold::{Graph, Memory, ScalarCell};

/// What the kernels of a step leave for each other on the device, and for the host.
pub(super) struct Cells {
    before: CellBuffer,
    curvature: CellBuffer,
    after: CellBuffer,
    /// One for every second step: each is set back by its own graph.
    published: [ScalarCell; 2],
}

impl Cells {
    pub(super) fn new(memory: &Memory) -> Result<Self> {
        Ok(Cells {
            before: memory.device(1)?,
            curvature: memory.device(1)?,
            after: memory.device(1)?,
            published: [memory.scalar_cell()?, memory.scalar_cell()?],
        })
    }
}

impl Solver {
    pub(super) fn iterate_recorded<I, V>(
        &mut self,
        memory: &Memory,
        system: &System<'_>,
        matrix: &Matrix<I, V>,
        start_ns: u64,
    ) -> Result<Outcome>
    where
        I: DeviceRead<Item = u32>,
        V: DeviceRead<Item = f64>,
    {
        let norm_b = norm(&system.b);
        let mut residual = self.first_update()?.sqrt();
        self.direction(0.0)?;
        // Where one step leaves its scalar the next one takes it, so two of them take turns.
        let mut graphs = [self.record_step(matrix, 0)?, self.record_step(matrix, 1)?];
        let loop_start_ns = self.device().now_ns();
        let mut iterations = 0;
        while residual > system.options.tolerance * norm_b {
            check_step(system, iterations, residual)?;
            let turn = (iterations % 2) as usize;
            let graph = &mut graphs[turn];
            graph.launch(&self.stream)?;
            let [pq, rr] = self.cells.published[turn].wait(graph.kept(), LIMIT)?;
            check_curvature(system, iterations, pq)?;
            residual = rr.sqrt();
            iterations += 1;
        }
        let loop_ns = self.device().now_ns() - loop_start_ns;
        let x = self.download_solution(memory)?;
        let total_ns = self.device().now_ns() - start_ns;
        let n = x.len() as u64;
        Ok(Outcome {
            x,
            iterations,
            loop_seconds: loop_ns as f64 * 1e-9,
            total_seconds: total_ns as f64 * 1e-9,
            bytes_up: 16 * n,
            bytes_down: (iterations + 1) * CELL_BYTES + 8 * n,
        })
    }

    /// The first update, which only multiplies; returns r . r.
    fn first_update(&mut self) -> Result<f64> {
        let vectors = self.vectors.for_update();
        let cell = &mut self.cells.before;
        self.cg.update(&self.stream, 0.0, vectors, &mut *cell)?;
        let [_, rr] = copied(&self.stream, cell, &mut self.cell_copy)?;
        Ok(rr)
    }

    /// Records one iteration, the first or the second of two.
    fn record_step<I, V>(&mut self, matrix: &Matrix<I, V>, turn: usize) -> Result<Graph<Expected>>
    where
        I: DeviceRead<Item = u32>,
        V: DeviceRead<Item = f64>,
    {
        let Solver {
            stream,
            cg,
            vectors,
            cells,
            ..
        } = self;
        let curvature = &mut cells.curvature;
        let (before, after) = match turn {
            0 => (&mut cells.before, &mut cells.after),
            _ => (&mut cells.after, &mut cells.before),
        };
        let published = &mut cells.published[turn];
        let graph = stream.device().capture(|recorder| {
            let q = &mut vectors.q;
            cg.spmv_dot(recorder, matrix, &vectors.p, q, &mut *curvature)?;
            let for_update = vectors.for_update();
            cg.update_by(recorder, before, curvature, for_update, &mut *after)?;
            let cells = StepCells {
                before,
                curvature,
                after,
            };
            let (r, p) = (&vectors.r, &mut vectors.p);
            let inverse_diagonal = &vectors.inverse_diagonal;
            cg.direction_by(recorder, cells, inverse_diagonal, r, p, published)
        })?;
        Ok(graph)
    }
}
