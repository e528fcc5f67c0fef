//! What a job reports, as plain data. Printers in the `pinfold` command turn it into text, JSON or
//! HTML, and compute nothing.

use pinfold::track::MemoryReport;
use pinfold::{Device, Placement};
use serde::Serialize;

/// The device that results were measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceLabel {
    /// Its name; begins with `simulated` where it is.
    pub name: String,
    /// True where every time is virtual.
    pub simulated: bool,
}

impl DeviceLabel {
    /// The label of a device.
    pub fn of(device: &Device) -> Self {
        DeviceLabel {
            name: device.name().to_owned(),
            simulated: device.is_simulated(),
        }
    }
}

/// One strategy's result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StrategyResult {
    /// The strategy's name.
    pub name: String,
    /// Where the data was, in words, such as `write-combined → device`.
    pub placement: String,
    /// Median time of one run.
    pub seconds: f64,
    /// The fastest run.
    pub seconds_min: f64,
    /// The slowest run.
    pub seconds_max: f64,
    /// How many runs were measured.
    pub repeats: usize,
    /// Bytes from host to device in one run, copied or read in place.
    pub bytes_up: u64,
    /// Bytes from device to host in one run, copied or written in place.
    pub bytes_down: u64,
    /// The result's relative error against a reference of higher precision.
    pub error: f64,
    /// Steps of an iterative job, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// Median time of one step, where the job has steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_per_iteration: Option<f64>,
}

/// One job on one input under every strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobReport {
    /// The job's name.
    pub job: String,
    /// What it ran on.
    pub device: DeviceLabel,
    /// What it ran over, as name and value, such as `elements`, `8192`.
    pub input: Vec<Fact>,
    /// Every strategy's result; the last one is `chosen`.
    pub strategies: Vec<StrategyResult>,
    /// The strategy that pinfold chose, by name.
    pub chosen: String,
    /// Why, in one sentence with figures.
    pub reason: String,
    /// Why each kind of memory was used: one line a placement, with the line of code that asked.
    pub placements: Vec<String>,
    /// The memory at the end of the job, by kind and by the line of code that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryReport>,
}

/// A name with a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

impl Fact {
    /// A fact from anything that can be shown.
    pub fn new(name: &str, value: impl ToString) -> Self {
        Fact {
            name: name.to_owned(),
            value: value.to_string(),
        }
    }
}

/// One job over several inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepReport {
    /// The job's name.
    pub job: String,
    /// What it ran on.
    pub device: DeviceLabel,
    /// One report an input.
    pub runs: Vec<JobReport>,
}

/// Placements as the lines of a report, each once.
pub(crate) fn placement_lines<'a>(placements: impl Iterator<Item = &'a Placement>) -> Vec<String> {
    let mut lines: Vec<String> = placements
        .map(|p| format!("{}: {}", p.kind(), p.reason()))
        .collect();
    lines.sort();
    lines.dedup();
    lines
}
