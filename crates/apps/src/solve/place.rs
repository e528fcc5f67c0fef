//! The ways to place the matrix and to get scalars to the host, and the choice between them.

use super::System;
use crate::error::Result;
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
}

/// One strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) matrix: MatrixPlace,
    pub(super) scalars: Scalars,
}

impl Way {
    pub(super) const ALL: [Way; 5] = [
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

/// Chooses from what was measured on this device.
pub(super) fn choose(memory: &Memory, system: &System<'_>, costs: &ReadCosts) -> Result<Choice> {
    let bytes = system.matrix.bytes();
    let integrated = memory.devices()[0].info().capabilities.integrated;
    let in_place = format!(
        "reading the matrix ({}) in place takes {:.1} µs in every step",
        Bytes(bytes),
        costs.in_place.time_ns(bytes) / 1e3
    );
    let (matrix, matrix_reason) = if !fits_on_device(memory, system)? {
        (
            MatrixPlace::InPlace,
            format!("the device has no room for the matrix; {in_place}"),
        )
    } else if integrated {
        (
            MatrixPlace::InPlace,
            format!("the device shares the host's memory; {in_place}"),
        )
    } else {
        let once = costs.copy_page_locked.time_ns(bytes) / 1e3;
        let reason = format!("{in_place}, copying it takes {once:.1} µs once");
        (MatrixPlace::Device, reason)
    };
    let (copied, published) = (costs.scalar_copied_ns, costs.scalar_published_ns);
    let scalars = if published <= copied {
        Scalars::Polled
    } else {
        Scalars::Copied
    };
    let reason = format!(
        "{matrix_reason}; a kernel's scalar reaches the host in {:.1} µs polled in mapped memory, \
         {:.1} µs copied ({})",
        published / 1e3,
        copied / 1e3,
        if costs.simulated {
            "simulated"
        } else {
            "measured on this device a moment ago"
        }
    );
    Ok(Choice {
        way: Way { matrix, scalars },
        reason,
    })
}
