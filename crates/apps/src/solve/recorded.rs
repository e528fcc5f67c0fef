//! The iteration as graphs: one launch a step. The device works out the factors itself; the host
//! polls for what tells it when to stop.

use super::steps::{CELL_BYTES, LIMIT, Solver, check_curvature, check_step, norm};
use super::{Outcome, System};
use crate::error::Result;
use pinfold::buffer::{DeviceRead, Expected};
use pinfold::kernels::CellBuffer;
use pinfold::kernels::cg::{Matrix, StepCells};
use pinfold::{Graph, Memory, ScalarCell};

/// What the kernels of a step leave on the device for each other.
struct Cells {
    before: CellBuffer,
    curvature: CellBuffer,
    after: CellBuffer,
}

/// A step that is launched, and where it publishes.
struct Step {
    graph: Graph<Expected>,
    cell: ScalarCell,
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
        let mut cells = Cells {
            before: memory.device(1)?,
            curvature: memory.device(1)?,
            after: memory.device(1)?,
        };
        let rr = self.first_update(&mut cells.before)?;
        let mut residual = rr.sqrt();
        self.direction(0.0)?;
        // Where one step leaves its scalar the next one takes it, so two of them take turns.
        let first = self.record_step(memory, matrix, &mut cells)?;
        std::mem::swap(&mut cells.before, &mut cells.after);
        let second = self.record_step(memory, matrix, &mut cells)?;
        let mut steps = [first, second];
        let loop_start_ns = self.device().now_ns();
        let mut iterations = 0;
        while residual > system.options.tolerance * norm_b {
            check_step(system, iterations, residual)?;
            let Step { graph, cell } = &mut steps[(iterations % 2) as usize];
            graph.launch(&self.stream)?;
            let [pq, rr] = cell.wait(graph.kept(), LIMIT)?;
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

    /// Records one iteration.
    fn record_step<I, V>(
        &mut self,
        memory: &Memory,
        matrix: &Matrix<I, V>,
        cells: &mut Cells,
    ) -> Result<Step>
    where
        I: DeviceRead<Item = u32>,
        V: DeviceRead<Item = f64>,
    {
        let mut cell = memory.scalar_cell()?;
        let Cells {
            before,
            curvature,
            after,
        } = cells;
        let device = self.device().clone();
        let graph = device.capture(|recorder| {
            let (cg, vectors) = self.cg_and_vectors();
            cg.spmv_dot(
                recorder,
                matrix,
                &vectors.p,
                &mut vectors.q,
                &mut *curvature,
            )?;
            cg.update_by(
                recorder,
                before,
                curvature,
                vectors.for_update(),
                &mut *after,
            )?;
            let cells = StepCells {
                before,
                curvature,
                after,
            };
            let (r, p) = (&vectors.r, &mut vectors.p);
            cg.direction_by(recorder, cells, &vectors.inverse_diagonal, r, p, &mut cell)
        })?;
        Ok(Step { graph, cell })
    }
}
