//! The ways to place the matrix and to get scalars to the host, and the choice between them.

use super::System;
use super::step_costs::StepCosts;
use crate::error::Result;
use pinfold::kernels::cg::HostMatrix;
use pinfold::measure::ReadCosts;
use pinfold::{Bytes, Memory};

/// Where the matrix is during the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatrixPlace {
    /// Copied to the device in every step, with the vectors.
    CopiedEachStep,
    /// Copied to the device once.
    Device,
    /// In host memory, read in place by every step.
    InPlace,
}

/// How the two scalars of a step get to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalars {
    /// Copied back.
    Copied,
    /// Published into mapped memory, read after waiting for the stream.
    Waited,
    /// Published into mapped memory, polled for.
    Polled,
    /// The same, once for a whole step that is one graph.
    Recorded,
}

/// One strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) matrix: MatrixPlace,
    pub(super) scalars: Scalars,
}

impl Way {
    pub(super) const ALL: [Way; 6] = [
        Way {
            matrix: MatrixPlace::CopiedEachStep,
            scalars: Scalars::Copied,
        },
        Way {
            matrix: MatrixPlace::Device,
            scalars: Scalars::Copied,
        },
        Way {
            matrix: MatrixPlace::Device,
            scalars: Scalars::Waited,
        },
        Way {
            matrix: MatrixPlace::Device,
            scalars: Scalars::Polled,
        },
        Way {
            matrix: MatrixPlace::Device,
            scalars: Scalars::Recorded,
        },
        Way {
            matrix: MatrixPlace::InPlace,
            scalars: Scalars::Polled,
        },
    ];

    /// Its name in reports.
    pub(super) fn name(self) -> &'static str {
        match (self.matrix, self.scalars) {
            (MatrixPlace::CopiedEachStep, _) => "everything copied",
            (MatrixPlace::Device, Scalars::Copied) => "resident, scalars copied",
            (MatrixPlace::Device, Scalars::Waited) => "resident, scalars mapped",
            (MatrixPlace::Device, Scalars::Polled) => "resident, scalars polled",
            (MatrixPlace::Device, Scalars::Recorded) => "resident, one graph a step",
            (MatrixPlace::InPlace, _) => "matrix in place",
        }
    }

    /// Where the data is, in words.
    pub(super) fn placement(self) -> &'static str {
        match (self.matrix, self.scalars) {
            (MatrixPlace::CopiedEachStep, _) => "page-locked, copied both ways each step",
            (MatrixPlace::Device, Scalars::Copied) => "device; scalars copied to page-locked",
            (MatrixPlace::Device, Scalars::Waited) => {
                "device; scalars in mapped memory, waited for"
            }
            (MatrixPlace::Device, Scalars::Polled) => "device; scalars in mapped memory, polled",
            (MatrixPlace::Device, Scalars::Recorded) => {
                "device; one graph a step, scalars in mapped memory, polled"
            }
            (MatrixPlace::InPlace, _) => "mapped, read in place; scalars polled",
        }
    }

    /// False where the device has no room for it.
    pub(super) fn fits(self, memory: &Memory, system: &System<'_>) -> bool {
        self.matrix == MatrixPlace::InPlace || fits_on_device(memory, system).unwrap_or(false)
    }
}

/// A way, and why.
pub(super) struct Choice {
    pub(super) way: Way,
    pub(super) reason: String,
}

/// Part of the free device memory that a matrix may take.
const DEVICE_SHARE_MAX: f64 = 0.9;

fn fits_on_device(memory: &Memory, system: &System<'_>) -> Result<bool> {
    let vectors = 5 * 8 * system.b.len() as u64;
    let (free_bytes, _) = memory.devices()[0].memory_bytes()?;
    Ok((system.matrix.bytes() + vectors) as f64 <= DEVICE_SHARE_MAX * free_bytes as f64)
}

/// Steps that a choice is made for. How many a system takes shows only when it is solved: from a
/// handful to a thousand and more.
const STEPS_ASSUMED: f64 = 100.0;
/// In place is chosen where it should take at most this part of the other's time.
const CLEARLY_FASTER: f64 = 0.95;

/// What each place of the matrix should cost.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Predicted {
    /// A kernel that reads the matrix in host memory, and its scalar.
    in_place_ns: f64,
    /// A kernel that reads the matrix in device memory, and its scalar.
    resident_ns: f64,
    /// Memory on the device and a copy to it, once.
    copy_ns: f64,
    /// Steps on the device, as single launches and as graphs.
    steps: StepCosts,
}

impl Predicted {
    /// From what was measured on this device, and from a copy that is measured here.
    fn measure(memory: &Memory, system: &System<'_>, costs: &ReadCosts) -> Result<Self> {
        let in_place_ns = costs.in_place.time_ns(system.matrix.bytes());
        let shared = memory.devices()[0].info().capabilities.integrated;
        Ok(Predicted {
            in_place_ns,
            resident_ns: match shared {
                true => in_place_ns,
                // Device memory is so fast that the matrix adds nothing to a small kernel.
                false => costs.scalar_published_ns.min(in_place_ns),
            },
            copy_ns: copy_ns(memory, system)?,
            steps: StepCosts::measure(memory)?,
        })
    }

    fn all_in_place_ns(self) -> f64 {
        STEPS_ASSUMED * self.in_place_ns
    }

    fn all_resident_ns(self) -> f64 {
        let saved_ns = self.steps.saved_ns(STEPS_ASSUMED).max(0.0);
        STEPS_ASSUMED * self.resident_ns + self.copy_ns - saved_ns
    }

    /// How scalars that kernels publish get to the host.
    fn published(self) -> Scalars {
        let saves = self.place() == MatrixPlace::Device && self.steps.saved_ns(STEPS_ASSUMED) > 0.0;
        match saves {
            true => Scalars::Recorded,
            false => Scalars::Polled,
        }
    }

    fn place(self) -> MatrixPlace {
        match self.all_in_place_ns() <= CLEARLY_FASTER * self.all_resident_ns() {
            true => MatrixPlace::InPlace,
            false => MatrixPlace::Device,
        }
    }

    fn reason(self, bytes: u64) -> String {
        format!(
            "the kernel that reads the matrix ({}) should take {} in place, and {} on the device \
             after {} once for memory and a copy there, where a graph for each step takes {} \
             instead of {}, and {} once: {} against {} in an assumed {STEPS_ASSUMED} steps",
            Bytes(bytes),
            micros(self.in_place_ns),
            micros(self.resident_ns),
            micros(self.copy_ns),
            micros(self.steps.recorded_ns),
            micros(self.steps.polled_ns),
            micros(self.steps.recording_ns),
            micros(self.all_in_place_ns()),
            micros(self.all_resident_ns()),
        )
    }
}

/// How long it takes to make room on the device and to copy the matrix there.
fn copy_ns(memory: &Memory, system: &System<'_>) -> Result<f64> {
    let device = &memory.devices()[0];
    let stream = device.stream()?;
    let mut matrix = HostMatrix::new(memory, &system.csr, false)?;
    let mut ns = 0;
    // The first one wakes the link up.
    for _ in 0..2 {
        let start_ns = device.now_ns();
        let (flying, _on_device) = matrix.upload(memory, &stream)?;
        matrix = flying.wait()?;
        ns = device.now_ns() - start_ns;
    }
    Ok(ns as f64)
}

fn micros(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

/// Chooses by what should take the shortest time, from what was measured on this device; the
/// matrix stays in host memory where the device has no room for it.
pub(super) fn choose(memory: &Memory, system: &System<'_>, costs: &ReadCosts) -> Result<Choice> {
    let bytes = system.matrix.bytes();
    let (matrix, published_way, matrix_reason) = if fits_on_device(memory, system)? {
        let predicted = Predicted::measure(memory, system, costs)?;
        let reason = predicted.reason(bytes);
        (predicted.place(), predicted.published(), reason)
    } else {
        let in_place = micros(costs.in_place.time_ns(bytes));
        let reason = format!(
            "the device has no room for the matrix ({}), and a kernel should take {in_place} to \
             read it in place",
            Bytes(bytes)
        );
        (MatrixPlace::InPlace, Scalars::Polled, reason)
    };
    let (copied, published) = (costs.scalar_copied_ns, costs.scalar_published_ns);
    let scalars = match published <= copied || matrix == MatrixPlace::InPlace {
        true => published_way,
        false => Scalars::Copied,
    };
    let how = match costs.simulated {
        true => "simulated",
        false => "measured on this device a moment ago",
    };
    let reason = format!(
        "{matrix_reason}; a kernel's scalar reaches the host in {} polled in mapped memory, {} \
         copied ({how})",
        micros(published),
        micros(copied),
    );
    Ok(Choice {
        way: Way { matrix, scalars },
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Graphs that save nothing.
    const NO_GRAPHS: StepCosts = StepCosts {
        polled_ns: 20e3,
        recorded_ns: 20e3,
        recording_ns: 100e3,
    };

    #[test]
    fn in_place_is_chosen_where_the_copy_does_not_pay_in_the_assumed_steps() {
        let predicted = Predicted {
            in_place_ns: 10e3,
            resident_ns: 8e3,
            copy_ns: 400e3,
            steps: NO_GRAPHS,
        };
        // 1000 µs against 1200 µs.
        assert_eq!(predicted.place(), MatrixPlace::InPlace);
        let text = predicted.reason(1 << 20);
        for figure in ["10.0 µs", "8.0 µs", "400.0 µs", "1000.0 µs", "1200.0 µs"] {
            assert!(text.contains(figure), "{figure}: {text}");
        }
        assert!(text.contains("100 steps"), "{text}");
    }

    #[test]
    fn the_device_is_chosen_where_the_copy_pays_or_nearly_so() {
        // 1000 µs against 810 µs, 1000 µs, and 1040 µs.
        for copy_ns in [10e3, 200e3, 240e3] {
            let predicted = Predicted {
                in_place_ns: 10e3,
                resident_ns: 8e3,
                copy_ns,
                steps: NO_GRAPHS,
            };
            assert_eq!(predicted.place(), MatrixPlace::Device, "{copy_ns}");
            assert_eq!(predicted.published(), Scalars::Polled, "{copy_ns}");
        }
    }

    #[test]
    fn graphs_are_chosen_where_they_save_and_may_decide_the_place() {
        let predicted = |recorded_ns| Predicted {
            in_place_ns: 10e3,
            resident_ns: 8e3,
            copy_ns: 400e3,
            steps: StepCosts {
                recorded_ns,
                ..NO_GRAPHS
            },
        };
        // 1000 µs against 1200 - 100 µs, and 1200 - 300 µs.
        assert_eq!(predicted(18e3).place(), MatrixPlace::InPlace);
        assert_eq!(predicted(18e3).published(), Scalars::Polled);
        assert_eq!(predicted(16e3).place(), MatrixPlace::Device);
        assert_eq!(predicted(16e3).published(), Scalars::Recorded);
    }
}
