//! Measuring several strategies in turn, so that a drifting machine hits all of them alike.

use crate::error::Result;
use crate::progress::Progress;
use pinfold::measure::median;

/// How often to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// Rounds that are thrown away: they load kernels and wake the link up.
    pub(crate) warm_up: usize,
    /// Rounds that count.
    pub(crate) counted: usize,
}

impl Rounds {
    /// Virtual time is the same in every round, and nothing warms up.
    pub(crate) const SIMULATED: Rounds = Rounds {
        warm_up: 0,
        counted: 1,
    };
}

/// Seconds of the counted rounds of one contender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timings {
    seconds: Vec<f64>,
}

impl Timings {
    pub(crate) fn of(seconds: Vec<f64>) -> Self {
        Timings { seconds }
    }

    pub(crate) fn median(&self) -> f64 {
        median(&mut self.seconds.clone())
    }

    pub(crate) fn min(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn max(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }

    pub(crate) fn into_values(self) -> Vec<f64> {
        self.seconds
    }

    pub(crate) fn count(&self) -> usize {
        self.seconds.len()
    }
}

/// Runs every contender once a round, each round beginning with another one. `run` returns seconds.
pub(crate) fn interleave<C>(
    contenders: &mut [C],
    rounds: Rounds,
    progress: &mut dyn Progress,
    mut run: impl FnMut(usize, &mut C) -> Result<f64>,
) -> Result<Vec<Timings>> {
    let mut timings = vec![Timings::default(); contenders.len()];
    let count = contenders.len();
    for round in 0..rounds.warm_up + rounds.counted {
        for turn in 0..count {
            let at = (turn + round) % count;
            let seconds = run(at, &mut contenders[at])?;
            if round >= rounds.warm_up {
                timings[at].seconds.push(seconds);
            }
            progress.step();
        }
    }
    Ok(timings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    #[test]
    fn contenders_take_turns_and_warm_up_does_not_count() {
        let mut order = Vec::new();
        let rounds = Rounds {
            warm_up: 1,
            counted: 2,
        };
        let timings = interleave(&mut ["a", "b"], rounds, &mut Silent, |_, name| {
            order.push(*name);
            Ok(order.len() as f64)
        })
        .unwrap();
        assert_eq!(order, ["a", "b", "b", "a", "a", "b"]);
        assert_eq!(timings[0].seconds, [4.0, 5.0]);
        assert_eq!(
            (timings[1].min(), timings[1].max(), timings[1].count()),
            (3.0, 6.0, 2)
        );
        assert_eq!(timings[1].median(), 3.0);
    }
}
