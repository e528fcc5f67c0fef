//! What a run of the suite found, as plain data, and as a table.

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

/// One run of the suite.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `cuda` or `sim`.
    pub backend: String,
    /// The device's name.
    pub device: String,
    /// True where all of it is a simulation.
    pub simulated: bool,
    /// The driver's CUDA version as `major * 1000 + minor * 10`.
    pub driver_version: u32,
    /// The driver's release, where it can be told.
    pub driver_release: Option<String>,
    /// Entry points that the driver lacks.
    pub missing_symbols: Vec<String>,
    /// The tests that were run, in order.
    pub tests: Vec<TestReport>,
}

/// One test of a run.
#[derive(Clone, Debug, Serialize)]
pub struct TestReport {
    /// The test's name.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Verdict,
    /// Why, unless it passed.
    pub reason: String,
    /// How long it took, on the wall clock.
    pub seconds: f64,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As the contract says.
    Passed,
    /// It has no meaning here.
    Skipped,
    /// It failed, and is known to.
    KnownDifference,
    /// It failed.
    Failed,
    /// It passed, and is known to fail: the expectation is out of date.
    UnexpectedPass,
}

impl Verdict {
    /// True for what a run must not contain.
    pub fn is_failure(self) -> bool {
        matches!(self, Verdict::Failed | Verdict::UnexpectedPass)
    }

    fn text(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Skipped => "skipped",
            Verdict::KnownDifference => "known difference",
            Verdict::Failed => "FAILED",
            Verdict::UnexpectedPass => "UNEXPECTED PASS",
        }
    }
}

impl Report {
    /// True where no test failed.
    pub fn passed(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The tests that failed.
    pub fn failures(&self) -> impl Iterator<Item = &TestReport> {
        self.tests.iter().filter(|test| test.outcome.is_failure())
    }

    fn count(&self, outcome: Verdict) -> usize {
        let with = |test: &&TestReport| test.outcome == outcome;
        self.tests.iter().filter(with).count()
    }
}

/// The report as text: a line for each test, and a summary.
pub fn table(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["test", "outcome", "ms", "reason"]);
    for test in &report.tests {
        table.add_row([
            test.name.to_owned(),
            test.outcome.text().to_owned(),
            format!("{:.1}", test.seconds * 1e3),
            test.reason.clone(),
        ]);
    }
    let release = report
        .driver_release
        .as_deref()
        .unwrap_or("unknown release");
    let failed = report.failures().count();
    format!(
        "{} ({}), CUDA {}.{}, {release}\n{table}\n{} passed, {} skipped, {} known differences, \
         {failed} failed",
        report.device,
        if report.simulated {
            "simulated"
        } else {
            "real"
        },
        report.driver_version / 1000,
        report.driver_version % 1000 / 10,
        report.count(Verdict::Passed),
        report.count(Verdict::Skipped),
        report.count(Verdict::KnownDifference),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_prints_every_test_and_says_whether_it_is_simulated() {
        let test = |name, outcome| TestReport {
            name,
            outcome,
            reason: "because".into(),
            seconds: 0.25,
        };
        let report = Report {
            backend: "sim".into(),
            device: "simulated h200".into(),
            simulated: true,
            driver_version: 13_000,
            driver_release: None,
            missing_symbols: Vec::new(),
            tests: vec![
                test("memory/zero_bytes", Verdict::Passed),
                test("memory/device_alloc", Verdict::UnexpectedPass),
            ],
        };
        let text = table(&report);
        for part in [
            "simulated",
            "13.0",
            "memory/zero_bytes",
            "1 failed",
            "because",
            "250.0",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!report.passed());
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.contains("\"outcome\":\"unexpected_pass\""), "{json}");
    }
}
