//! Progress bars on standard error, where that is a terminal; nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use pinfold_apps::progress::Progress;

/// Shows each phase as a bar, which is gone when the phase is over.
#[derive(Default)]
pub(crate) struct Bars {
    bar: Option<ProgressBar>,
}

impl Progress for Bars {
    fn begin(&mut self, phase: &str, steps: u64) {
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len}");
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr())
            .with_message(phase.to_owned())
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            .with_finish(ProgressFinish::AndClear);
        // Draws it now: the first step may be long.
        bar.tick();
        self.bar = Some(bar);
    }

    fn step(&mut self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    fn end(&mut self) {
        // Dropping the last handle of a bar clears it.
        self.bar = None;
    }
}
