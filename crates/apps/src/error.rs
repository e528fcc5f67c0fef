//! Why a job failed.

use crate::matrix::market::MarketError;
use crate::matrix::suitable::NotSuitable;
use pinfold::Bytes;

/// What jobs return.
pub type Result<T, E = JobError> = std::result::Result<T, E>;

/// Why a job failed, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// Memory or device.
    #[error(transparent)]
    Pinfold(#[from] pinfold::Error),
    /// Figures that make no profile.
    #[error(
        "what was measured makes no profile: {0}; measure again while nothing else uses the machine"
    )]
    Profile(#[from] pinfold_model::ProfileError),
    /// A matrix file that cannot be read.
    #[error(transparent)]
    Market(#[from] MarketError),
    /// A matrix that the solver cannot take.
    #[error("{file}: {problem}")]
    NotSuitable {
        /// The file.
        file: String,
        /// What is wrong with the matrix.
        problem: NotSuitable,
    },
    /// A solver that broke down.
    #[error("{file}: {problem}")]
    Solver {
        /// The file.
        file: String,
        /// What happened, and what to do.
        problem: String,
    },
    /// An input that is too small or too large.
    #[error("{what} must be from {min} to {max}, not {got}")]
    OutOfRange {
        /// Which one.
        what: &'static str,
        /// What was given.
        got: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// An input that is larger than the host can hold.
    #[error(
        "{what} need {} of host memory for all strategies, and about {} are left ({limited_by}); \
         take fewer", Bytes(*need_bytes), Bytes(*left_bytes)
    )]
    TooLarge {
        /// What was asked for.
        what: String,
        /// What that takes.
        need_bytes: u64,
        /// What is there.
        left_bytes: u64,
        /// What sets the limit.
        limited_by: String,
    },
    /// An input with nothing in it.
    #[error("{what} has nothing in it")]
    Empty {
        /// Which one.
        what: String,
    },
    /// Bytes that are not what was written.
    #[error(
        "{wrong} words of {buffers} buffers were wrong: please report this with the output of \
         `pinfold probe`"
    )]
    Corrupt {
        /// Buffers that were checked.
        buffers: u64,
        /// Words that were wrong.
        wrong: u64,
    },
    /// A result that is wrong: never to be reported as a time.
    #[error(
        "strategy `{strategy}` gave a wrong result: relative error {error:.3e}, allowed \
         {allowed:.1e}; please report this with the output of `pinfold probe`"
    )]
    WrongResult {
        /// The strategy.
        strategy: String,
        /// Its error.
        error: f64,
        /// The largest allowed one.
        allowed: f64,
    },
}

/// A refused operation ends a job: the buffer that comes back is not needed any more.
impl<B> From<pinfold::Refused<B>> for JobError {
    fn from(refused: pinfold::Refused<B>) -> Self {
        JobError::Pinfold(refused.into())
    }
}
