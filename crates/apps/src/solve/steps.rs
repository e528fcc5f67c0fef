//! The iteration, with all vectors on the device.

use super::on_host;
use super::place::{MatrixPlace, Scalars, Way};
use super::recorded::Cells;
use super::{Outcome, System};
use crate::error::Result;
use pinfold::buffer::{DeviceRead, Expected};
use pinfold::kernels::cg::{Cg, HostMatrix, Matrix, UpdateVectors};
use pinfold::kernels::{CellBuffer, CellWords};
use pinfold::{Device, DeviceBuffer, DownloadBuffer, Memory, Placement, ScalarCell, Stream};
use std::time::Duration;

/// No step takes nearly as long.
pub(super) const LIMIT: Duration = Duration::from_secs(120);

/// The device side: kernels, vectors, and the places for scalars. Made once, used by every solve.
pub(super) struct Solver {
    pub(super) stream: Stream,
    pub(super) cg: Cg,
    pub(super) vectors: Vectors,
    cell: ScalarCell,
    cell_on_device: CellBuffer,
    pub(super) cells: Cells,
    pub(super) cell_copy: Option<DownloadBuffer<CellWords>>,
}

pub(super) struct Vectors {
    x: DeviceBuffer<f64>,
    pub(super) r: DeviceBuffer<f64>,
    pub(super) p: DeviceBuffer<f64>,
    pub(super) q: DeviceBuffer<f64>,
    pub(super) inverse_diagonal: DeviceBuffer<f64>,
}

impl Vectors {
    /// Those of an update.
    pub(super) fn for_update(&mut self) -> UpdateVectors<'_> {
        UpdateVectors {
            p: &self.p,
            q: &self.q,
            inverse_diagonal: &self.inverse_diagonal,
            x: &mut self.x,
            r: &mut self.r,
        }
    }
}

/// What one iteration moved over the link.
struct StepBytes {
    up: u64,
    down: u64,
}

/// Bytes of one published or copied cell.
pub(super) const CELL_BYTES: u64 = size_of::<CellWords>() as u64;

impl Solver {
    pub(super) fn new(memory: &Memory, system: &System<'_>) -> Result<Self> {
        let n = system.b.len();
        let stream = memory.devices()[0].stream()?;
        let vectors = Vectors {
            x: memory.device(n)?,
            r: memory.device(n)?,
            p: memory.device(n)?,
            q: memory.device(n)?,
            inverse_diagonal: memory.device(n)?,
        };
        Ok(Solver {
            cg: Cg::load(memory, &stream)?,
            stream,
            vectors,
            cell: memory.scalar_cell()?,
            cell_on_device: memory.device(1)?,
            cells: Cells::new(memory)?,
            cell_copy: Some(memory.download(1)?),
        })
    }

    /// Solves once. Returns where the data was, too.
    pub(super) fn solve(
        &mut self,
        memory: &Memory,
        system: &System<'_>,
        way: Way,
    ) -> Result<(Outcome, Vec<Placement>)> {
        let in_place = way.matrix == MatrixPlace::InPlace;
        let matrix = HostMatrix::new(memory, &system.csr, in_place)?;
        let mut placements = vec![matrix.placement().clone()];
        if way.scalars != Scalars::Copied {
            placements.push(self.cell.placement().clone());
        }
        let outcome = match way.matrix {
            MatrixPlace::CopiedEachStep => on_host::solve(self, memory, system, matrix)?,
            MatrixPlace::InPlace => {
                let start_ns = self.device().now_ns();
                self.load_vectors(memory, system)?;
                let step_up = matrix.bytes();
                let lent = matrix.lend();
                let outcome =
                    self.iterate(memory, system, &lent, way.scalars, step_up, start_ns)?;
                drop(lent.wait()?);
                outcome
            }
            MatrixPlace::Device => {
                let start_ns = self.device().now_ns();
                self.load_vectors(memory, system)?;
                let bytes = matrix.bytes();
                let (flying, on_device) = matrix.upload(memory, &self.stream)?;
                let mut outcome = match way.scalars {
                    Scalars::Recorded => {
                        self.iterate_recorded(memory, system, &on_device, start_ns)?
                    }
                    scalars => self.iterate(memory, system, &on_device, scalars, 0, start_ns)?,
                };
                outcome.bytes_up += bytes;
                drop(flying.wait()?);
                outcome
            }
        };
        Ok((outcome, placements))
    }

    pub(super) fn device(&self) -> &Device {
        self.stream.device()
    }

    pub(super) fn vectors(&mut self) -> (&Stream, &mut Cg, &mut Vectors, &mut CellBuffer) {
        (
            &self.stream,
            &mut self.cg,
            &mut self.vectors,
            &mut self.cell_on_device,
        )
    }

    /// x = 0, r = b, p = q = 0.
    fn load_vectors(&mut self, memory: &Memory, system: &System<'_>) -> Result<()> {
        let Solver {
            stream, vectors, ..
        } = self;
        let send = |from: &[f64], to: &mut DeviceBuffer<f64>| -> Result<()> {
            let mut buffer = memory.upload(from.len())?;
            buffer.write(0, from)?;
            // Dropped in flight: freed when the copy is done.
            drop(stream.upload(buffer, to)?);
            Ok(())
        };
        send(&system.b, &mut vectors.r)?;
        send(&system.inverse_diagonal, &mut vectors.inverse_diagonal)?;
        stream.fill(&mut vectors.x, 0)?;
        stream.fill(&mut vectors.p, 0)?;
        stream.fill(&mut vectors.q, 0)?;
        Ok(())
    }

    fn iterate<I, V>(
        &mut self,
        memory: &Memory,
        system: &System<'_>,
        matrix: &Matrix<I, V>,
        scalars: Scalars,
        matrix_bytes_a_step: u64,
        start_ns: u64,
    ) -> Result<Outcome>
    where
        I: DeviceRead<Item = u32>,
        V: DeviceRead<Item = f64>,
    {
        let step = StepBytes {
            up: matrix_bytes_a_step,
            down: 2 * CELL_BYTES,
        };
        let norm_b = norm(&system.b);
        let [mut rz, rr] = self.update(0.0, scalars)?;
        let mut residual = rr.sqrt();
        self.direction(0.0)?;
        let loop_start_ns = self.device().now_ns();
        let mut iterations = 0;
        while residual > system.options.tolerance * norm_b {
            check_step(system, iterations, residual)?;
            let pq = self.multiply(matrix, scalars)?;
            check_curvature(system, iterations, pq)?;
            let [rz_next, rr] = self.update(rz / pq, scalars)?;
            self.direction(rz_next / rz)?;
            (rz, residual) = (rz_next, rr.sqrt());
            iterations += 1;
        }
        let loop_ns = self.device().now_ns() - loop_start_ns;
        let n = system.b.len();
        let x = self.download_solution(memory)?;
        let total_ns = self.device().now_ns() - start_ns;
        Ok(Outcome {
            x,
            iterations,
            loop_seconds: loop_ns as f64 * 1e-9,
            total_seconds: total_ns as f64 * 1e-9,
            bytes_up: iterations * step.up + 16 * n as u64,
            bytes_down: iterations * step.down + CELL_BYTES + 8 * n as u64,
        })
    }

    pub(super) fn download_solution(&mut self, memory: &Memory) -> Result<Vec<f64>> {
        let x = &self.vectors.x;
        let host = memory.download::<f64>(x.len())?;
        Ok(self.stream.download(x, host)?.wait()?.to_vec())
    }

    /// q = A p; returns p . q.
    fn multiply<I, V>(&mut self, matrix: &Matrix<I, V>, scalars: Scalars) -> Result<f64>
    where
        I: DeviceRead<Item = u32>,
        V: DeviceRead<Item = f64>,
    {
        let Solver {
            stream,
            cg,
            vectors,
            cell,
            cell_on_device,
            ..
        } = self;
        let (p, q) = (&vectors.p, &mut vectors.q);
        let expected = match scalars {
            Scalars::Copied => {
                cg.spmv_dot(stream, matrix, p, q, cell_on_device)?;
                None
            }
            _ => Some(cg.spmv_dot(stream, matrix, p, q, &mut *cell)?),
        };
        Ok(self.fetch(scalars, expected)?[0])
    }

    /// x += alpha p, r -= alpha q; returns r . z and r . r.
    fn update(&mut self, alpha: f64, scalars: Scalars) -> Result<[f64; 2]> {
        let Solver {
            stream,
            cg,
            vectors,
            cell,
            cell_on_device,
            ..
        } = self;
        let vectors = vectors.for_update();
        let expected = match scalars {
            Scalars::Copied => {
                cg.update(stream, alpha, vectors, cell_on_device)?;
                None
            }
            _ => Some(cg.update(stream, alpha, vectors, &mut *cell)?),
        };
        self.fetch(scalars, expected)
    }

    /// p = z + beta p.
    pub(super) fn direction(&mut self, beta: f64) -> Result<()> {
        let Solver {
            stream,
            cg,
            vectors,
            ..
        } = self;
        let Vectors {
            r,
            p,
            inverse_diagonal,
            ..
        } = vectors;
        Ok(cg.direction(stream, beta, inverse_diagonal, r, p)?)
    }

    /// The scalars of the kernel enqueued last.
    fn fetch(&mut self, scalars: Scalars, expected: Option<Expected>) -> Result<[f64; 2]> {
        match expected {
            Some(expected) => {
                if scalars == Scalars::Waited {
                    self.stream.synchronize()?;
                }
                Ok(self.cell.wait(expected, LIMIT)?)
            }
            None => copied(&self.stream, &self.cell_on_device, &mut self.cell_copy),
        }
    }
}

/// A cell's values, by way of a copy into the buffer that is at hand.
pub(super) fn copied(
    stream: &Stream,
    cell: &CellBuffer,
    by: &mut Option<DownloadBuffer<CellWords>>,
) -> Result<[f64; 2]> {
    let Some(to) = by.take() else {
        return Ok([f64::NAN; 2]);
    };
    let copy = stream.download(cell, to)?.wait()?;
    let [first, second, ..] = copy[0];
    *by = Some(copy);
    Ok([f64::from_bits(first), f64::from_bits(second)])
}

pub(super) fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Refuses to go on for ever, or with what is not a number.
pub(super) fn check_step(system: &System<'_>, iterations: u64, residual: f64) -> Result<()> {
    if !residual.is_finite() {
        return Err(system.out_of_range(format!("the residual after {iterations} steps")));
    }
    if iterations >= system.options.iterations_max {
        return Err(system.breakdown(format!(
            "no convergence after {iterations} steps (residual {:.2e} of the right-hand side); \
             allow more with --max-iterations, or a larger --tolerance",
            residual / norm(&system.b)
        )));
    }
    Ok(())
}

/// Refuses matrices that are not positive definite, and products that are not numbers.
pub(super) fn check_curvature(system: &System<'_>, iterations: u64, pq: f64) -> Result<()> {
    if !pq.is_finite() {
        return Err(system.out_of_range(format!("p·Ap in step {}", iterations + 1)));
    }
    if pq > 0.0 {
        return Ok(());
    }
    Err(system.breakdown(format!(
        "p·Ap is {pq:e} in step {}: the matrix is not positive definite, and conjugate gradients \
         need that; use a solver for indefinite systems",
        iterations + 1
    )))
}
