//! Benchmarks of pinfold itself against what the driver offers.
//!
//! [`pool`] what a warm pool costs · [`pin`] what fresh page-locked memory costs · [`stage`]
//! ordinary memory to the device and back · [`gather`] scattered blocks and rows ·
//! [`fresh`] data that the host has just written · [`machine`] any machine, and its profile ·
//! [`model`] predictions against measurements · [`replay`] a recorded trace of allocation ·
//! [`soak`] a long run that looks for a wrong byte · [`table`] what figures are shown in. All but
//! soak take turns between what they compare, within one run, and report medians with their spread.

pub mod fresh;
pub mod gather;
pub mod machine;
pub mod model;
pub mod pin;
pub mod pool;
pub mod replay;
mod shuffle;
pub mod soak;
pub mod stage;
pub mod table;

use crate::report::{DeviceLabel, Fact};
use pinfold::measure::median;
use pinfold::{Device, Memory, MemoryKind};
use serde::Serialize;

/// What a benchmark measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchReport {
    /// The benchmark's name.
    pub bench: String,
    /// The device.
    pub device: DeviceLabel,
    /// What else the figures depend on, such as the number of processors.
    pub machine: Vec<Fact>,
    /// What was measured.
    pub rows: Vec<BenchRow>,
    /// Ratios of rows, and what cannot be seen in them.
    pub findings: Vec<Fact>,
}

/// One measured quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchRow {
    /// What belongs together.
    pub group: String,
    /// What it is.
    pub name: String,
    /// The median.
    pub value: f64,
    /// The smallest.
    pub value_min: f64,
    /// The largest.
    pub value_max: f64,
    /// `ns`, `GB/s`, `GiB/s`, or `M/s`: millions a second of what the group names.
    pub unit: &'static str,
    /// How often it was measured.
    pub repeats: usize,
    /// True where a part of it is virtual time.
    pub simulated: bool,
}

impl BenchRow {
    pub(crate) fn new(
        group: &str,
        name: impl Into<String>,
        unit: &'static str,
        mut values: Vec<f64>,
        simulated: bool,
    ) -> Self {
        let value = median(&mut values);
        BenchRow {
            group: group.to_owned(),
            name: name.into(),
            value,
            value_min: values.first().copied().unwrap_or(0.0),
            value_max: values.last().copied().unwrap_or(0.0),
            unit,
            repeats: values.len(),
            simulated,
        }
    }
}

impl BenchReport {
    pub(crate) fn new(bench: &str, device: &Device) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        BenchReport {
            bench: bench.to_owned(),
            device: DeviceLabel::of(device),
            machine: vec![Fact::new("processors", processors)],
            rows: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// The value of a row by its name.
    pub fn value(&self, name: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.name == name);
        row.map(|row| row.value)
    }

    /// Notes how many times larger one row's value is than another's.
    pub(crate) fn ratio(&mut self, what: &str, over: &str, under: &str) {
        let row = |name: &str| self.rows.iter().find(|row| row.name == name);
        let (Some(over), Some(under)) = (row(over), row(under)) else {
            return;
        };
        if under.value > 0.0 {
            let word = match over.simulated || under.simulated {
                true => " (simulated)",
                false => "",
            };
            let text = format!("{:.1}×{word}", over.value / under.value);
            self.findings.push(Fact::new(what, text));
        }
    }
}

/// Page-locked memory straight from the driver, to compare with.
fn from_the_driver(device: &Device) -> Memory {
    // One device is never a list of none, or of several platforms.
    let memory = Memory::unpooled(std::slice::from_ref(device));
    let memory = memory.unwrap_or_else(|| Memory::new(device));
    memory.of_kind(MemoryKind::PageLocked).strict()
}
