//! Conjugate gradients with a Jacobi preconditioner on a sparse matrix from a file, under several
//! ways to place the matrix and to get two scalars a step to the host.
//!
//! [`place`] the ways · [`steps`] the iteration, the same for all of them but two · [`recorded`]
//! the one where every step is one graph · [`on_host`] the one where the device only multiplies,
//! and everything crosses the link in every step · [`step_costs`] what graphs save.

mod on_host;
mod place;
mod recorded;
mod step_costs;
mod steps;

use crate::error::{JobError, Result};
use crate::matrix::reference::{relative_residual, right_hand_side_of_ones};
use crate::matrix::{CsrMatrix, Market, read_matrix_market};
use crate::progress::Progress;
use crate::report::{DeviceLabel, Fact, JobReport, StrategyResult, placement_lines};
use crate::rounds::{Rounds, Timings, interleave};
use pinfold::kernels::cg::Csr;
use pinfold::measure::ReadCosts;
use pinfold::{Device, Memory, Placement};
use place::{Choice, Way};
use std::path::Path;
use steps::{Solver, norm};

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveOptions {
    /// Stop once the residual's norm is at most this part of the right-hand side's.
    pub tolerance: f64,
    /// Fail after this many steps.
    pub iterations_max: u64,
}

impl Default for SolveOptions {
    /// Tolerance 1e-8, 20 000 steps.
    fn default() -> Self {
        SolveOptions {
            tolerance: 1e-8,
            iterations_max: 20_000,
        }
    }
}

/// The residual that the iteration carries along drifts from the true one by rounding; the true
/// one, recomputed on the CPU, may be this many times the tolerance before a result counts as
/// wrong.
const RESIDUAL_SLACK: f64 = 1e3;

/// A linear system, checked, with its right-hand side for the solution of ones.
pub(crate) struct System<'a> {
    pub(crate) name: String,
    pub(crate) matrix: &'a CsrMatrix,
    pub(crate) csr: Csr<'a>,
    pub(crate) b: Vec<f64>,
    pub(crate) inverse_diagonal: Vec<f64>,
    pub(crate) options: SolveOptions,
}

/// What one solve did.
pub(crate) struct Outcome {
    pub(crate) x: Vec<f64>,
    pub(crate) iterations: u64,
    pub(crate) loop_seconds: f64,
    pub(crate) total_seconds: f64,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
}

/// Solves the system in a Matrix Market file for a solution of ones, under every strategy.
///
/// # Errors
/// Everything that can be wrong with the file or the matrix, naming the file and, where there is
/// one, the line; [`JobError::Solver`] where the iteration breaks down; [`JobError::WrongResult`].
pub fn run(
    device: &Device,
    file: &Path,
    options: &SolveOptions,
    progress: &mut dyn Progress,
) -> Result<JobReport> {
    let name = file.display().to_string();
    progress.begin("reading the matrix", 1);
    let market = read_matrix_market(file)?;
    market
        .check_for_cg()
        .map_err(|problem| JobError::NotSuitable {
            file: name.clone(),
            problem,
        })?;
    progress.step();
    progress.end();
    let system = System::new(name, &market.matrix, *options)?;
    progress.begin("measuring this machine", 1);
    let costs = ReadCosts::measure(device)?;
    progress.step();
    progress.end();
    let memory = Memory::new(device);
    memory.set_measured(costs.measured());
    let choice = place::choose(&memory, &system, &costs)?;
    let mut solver = Solver::new(&memory, &system)?;
    let results = compare(&mut solver, &memory, &system, &choice, progress)?;
    let report = report(device, &market, &system, &choice, results);
    Ok(JobReport {
        memory: Some(memory.report()),
        ..report
    })
}

impl<'a> System<'a> {
    fn new(name: String, matrix: &'a CsrMatrix, options: SolveOptions) -> Result<Self> {
        let csr = Csr::new(&matrix.row_start, &matrix.column, &matrix.value)?;
        let system = System {
            name,
            matrix,
            csr,
            b: right_hand_side_of_ones(matrix),
            inverse_diagonal: matrix.diagonal().iter().map(|d| 1.0 / d).collect(),
            options,
        };
        system.check_range()?;
        Ok(system)
    }

    /// Refuses a system whose numbers leave the range of a double before the first step.
    fn check_range(&self) -> Result<()> {
        let infinite = |inverse: &f64| !inverse.is_finite();
        if let Some(row) = self.inverse_diagonal.iter().position(infinite) {
            let row = row + 1;
            return Err(self.out_of_range(format!("1 / the diagonal entry of row {row}")));
        }
        let norm_b = norm(&self.b);
        if !norm_b.is_finite() {
            return Err(self.out_of_range("the norm of the right-hand side A·1".to_owned()));
        }
        if norm_b <= 0.0 {
            return Err(self.breakdown(
                "the right-hand side A·1 is 0, or too small for a double: the matrix is singular \
                 or badly scaled; fix the value at one node of a graph's Laplacian, or scale its \
                 rows and columns first"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// An error for what a double cannot hold.
    pub(crate) fn out_of_range(&self, what: String) -> JobError {
        self.breakdown(format!(
            "{what} is out of a double's range: the matrix is too badly scaled for this solver; \
             scale its rows and columns first"
        ))
    }

    /// An error of the iteration itself.
    pub(crate) fn breakdown(&self, problem: String) -> JobError {
        JobError::Solver {
            file: self.name.clone(),
            problem,
        }
    }
}

struct Contender {
    way: Way,
    name: &'static str,
    placements: Vec<Placement>,
    loop_seconds: Timings,
    error: f64,
    last: Option<Outcome>,
}

/// Solves in turn under every way.
fn compare(
    solver: &mut Solver,
    memory: &Memory,
    system: &System<'_>,
    choice: &Choice,
    progress: &mut dyn Progress,
) -> Result<Vec<(StrategyResult, Vec<Placement>)>> {
    let mut contenders: Vec<Contender> = Way::ALL
        .into_iter()
        .filter(|way| way.fits(memory, system))
        .map(|way| (way, way.name()))
        .chain([(choice.way, "chosen")])
        .map(|(way, name)| Contender {
            way,
            name,
            placements: Vec::new(),
            loop_seconds: Timings::default(),
            error: 0.0,
            last: None,
        })
        .collect();
    let rounds = rounds(&memory.devices()[0], system);
    let steps = contenders.len() * (rounds.warm_up + rounds.counted);
    progress.begin(&format!("solving {}", system.name), steps as u64);
    let mut loops: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    let totals = interleave(&mut contenders, rounds, progress, |at, contender| {
        let (outcome, placements) = solver.solve(memory, system, contender.way)?;
        let error = relative_residual(system.matrix, &outcome.x, &system.b);
        let allowed = system.options.tolerance * RESIDUAL_SLACK;
        if error.is_nan() || error > allowed {
            let strategy = contender.name.to_owned();
            return Err(JobError::WrongResult {
                strategy,
                error,
                allowed,
            });
        }
        contender.error = contender.error.max(error);
        contender.placements = placements;
        let seconds = outcome.total_seconds;
        loops[at].push(outcome.loop_seconds);
        contender.last = Some(outcome);
        Ok(seconds)
    })?;
    progress.end();
    for (contender, seconds) in contenders.iter_mut().zip(loops) {
        contender.loop_seconds = Timings::of(seconds.into_iter().skip(rounds.warm_up).collect());
    }
    Ok(contenders
        .into_iter()
        .zip(totals)
        .map(|(c, t)| result(c, &t))
        .collect())
}

fn result(contender: Contender, totals: &Timings) -> (StrategyResult, Vec<Placement>) {
    let loop_seconds = contender.loop_seconds.median();
    let (iterations, bytes_up, bytes_down) = contender
        .last
        .map_or((0, 0, 0), |o| (o.iterations, o.bytes_up, o.bytes_down));
    let result = StrategyResult {
        name: contender.name.to_owned(),
        placement: contender.way.placement().to_owned(),
        seconds: totals.median(),
        seconds_min: totals.min(),
        seconds_max: totals.max(),
        repeats: totals.count(),
        bytes_up,
        bytes_down,
        error: contender.error,
        iterations: Some(iterations),
        seconds_per_iteration: Some(loop_seconds / iterations.max(1) as f64),
    };
    (result, contender.placements)
}

fn report(
    device: &Device,
    market: &Market,
    system: &System<'_>,
    choice: &Choice,
    results: Vec<(StrategyResult, Vec<Placement>)>,
) -> JobReport {
    let placements = placement_lines(results.last().into_iter().flat_map(|(_, p)| p));
    JobReport {
        job: "solve".to_owned(),
        device: DeviceLabel::of(device),
        input: vec![
            Fact::new("file", &system.name),
            Fact::new("rows", system.matrix.rows),
            Fact::new("entries", market.expanded_entries()),
            Fact::new("tolerance", format!("{:e}", system.options.tolerance)),
        ],
        strategies: results.into_iter().map(|(result, _)| result).collect(),
        chosen: choice.way.name().to_owned(),
        reason: choice.reason.clone(),
        placements,
        memory: None,
    }
}

/// Enough rounds for a median, fewer where a solve is long.
fn rounds(device: &Device, system: &System<'_>) -> Rounds {
    if device.is_simulated() {
        return Rounds::SIMULATED;
    }
    let counted = if system.matrix.nnz() < 1 << 21 { 11 } else { 5 };
    Rounds {
        warm_up: 1,
        counted,
    }
}
