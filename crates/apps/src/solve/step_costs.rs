//! What the steps of a small system cost as single launches and as one graph a step: the difference
//! is the same for a large one, whose kernels only take longer.

use super::place::{MatrixPlace, Scalars, Way};
use super::steps::Solver;
use super::{Outcome, SolveOptions, System};
use crate::error::Result;
use crate::matrix::CsrMatrix;
use crate::rounds::Rounds;
use pinfold::Memory;
use pinfold::measure::median;

/// Rows of the small system, which takes half as many steps.
const ROWS: u32 = 64;
/// Enough for a median.
const ROUNDS: Rounds = Rounds {
    warm_up: 1,
    counted: 5,
};

/// Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StepCosts {
    /// A step of single launches, with scalars that are polled for.
    pub(super) polled_ns: f64,
    /// A step that is one graph.
    pub(super) recorded_ns: f64,
    /// Recording the graphs, once.
    pub(super) recording_ns: f64,
}

impl StepCosts {
    pub(super) fn measure(memory: &Memory) -> Result<Self> {
        let matrix = chain();
        let name = "a small system".to_owned();
        let system = System::new(name, &matrix, SolveOptions::default())?;
        let mut solver = Solver::new(memory, &system)?;
        let rounds = match memory.devices()[0].is_simulated() {
            true => Rounds::SIMULATED,
            false => ROUNDS,
        };
        let mut found = [const { (Vec::new(), Vec::new()) }; 2];
        for round in 0..rounds.warm_up + rounds.counted {
            for (scalars, (steps, rest)) in
                [Scalars::Polled, Scalars::Recorded].iter().zip(&mut found)
            {
                let way = Way {
                    matrix: MatrixPlace::Device,
                    scalars: *scalars,
                };
                let (outcome, _) = solver.solve(memory, &system, way)?;
                if round >= rounds.warm_up {
                    steps.push(step_ns(&outcome));
                    rest.push((outcome.total_seconds - outcome.loop_seconds) * 1e9);
                }
            }
        }
        let [
            (mut polled, mut around_polled),
            (mut recorded, mut around_recorded),
        ] = found;
        let recording_ns = median(&mut around_recorded) - median(&mut around_polled);
        Ok(StepCosts {
            polled_ns: median(&mut polled),
            recorded_ns: median(&mut recorded),
            recording_ns: recording_ns.max(0.0),
        })
    }

    /// What graphs save in so many steps, less what it takes to record them.
    pub(super) fn saved_ns(self, steps: f64) -> f64 {
        steps * (self.polled_ns - self.recorded_ns) - self.recording_ns
    }
}

fn step_ns(outcome: &Outcome) -> f64 {
    outcome.loop_seconds * 1e9 / outcome.iterations.max(1) as f64
}

/// Unknowns in a row, each linked to its neighbours.
fn chain() -> CsrMatrix {
    let mut matrix = CsrMatrix {
        rows: ROWS,
        columns: ROWS,
        row_start: vec![0],
        column: Vec::new(),
        value: Vec::new(),
    };
    for row in 0..ROWS {
        for column in row.saturating_sub(1)..(row + 2).min(ROWS) {
            matrix.column.push(column);
            matrix.value.push(if column == row { 2.0 } else { -1.0 });
        }
        matrix.row_start.push(matrix.column.len() as u32);
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_save_once_they_have_paid_for_their_recording() {
        let costs = StepCosts {
            polled_ns: 17e3,
            recorded_ns: 12e3,
            recording_ns: 200e3,
        };
        assert_eq!(costs.saved_ns(40.0), 0.0);
        assert_eq!(costs.saved_ns(100.0), 300e3);
    }

    #[test]
    fn the_small_system_is_symmetric_with_a_positive_diagonal() {
        let matrix = chain();
        assert!(matrix.is_symmetric(0.0));
        assert_eq!(matrix.diagonal(), vec![2.0; ROWS as usize]);
        assert_eq!(matrix.nnz(), 3 * ROWS as usize - 2);
    }
}
