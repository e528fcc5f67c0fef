//! How a long job says how far it is, without knowing who listens.

/// Hears of a job's progress.
pub trait Progress {
    /// A phase of `steps` steps begins.
    fn begin(&mut self, phase: &str, steps: u64);

    /// One more step of the phase is done.
    fn step(&mut self);

    /// The phase is over.
    fn end(&mut self);
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _phase: &str, _steps: u64) {}

    fn step(&mut self) {}

    fn end(&mut self) {}
}
