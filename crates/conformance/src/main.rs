//! Runs the suite against one backend and prints a table.

use clap::Parser;
use pinfold_conformance::{run_all, table};
use pinfold_hal::{DeviceId, Driver};
use pinfold_hal_cuda::Cuda;
use pinfold_hal_sim::{Sim, SimOptions};
use pinfold_model::Profile;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

/// Checks a backend against the driver contract. Exits with 1 where a test failed, with 2 where
/// there was nothing to test.
#[derive(Debug, Parser)]
#[command(name = "pinfold-conformance", version)]
struct Arguments {
    /// What to test: `cuda:NUMBER`, `sim`, or `sim:PROFILE`.
    #[arg(long, default_value = "sim")]
    device: Choice,
    /// Also writes the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs only the tests whose name contains the text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

/// A backend and a device of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    Cuda(u32),
    Sim(String),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("cuda", "") => Ok(Choice::Cuda(0)),
            ("cuda", number) => number
                .parse()
                .map(Choice::Cuda)
                .map_err(|_| format!("`{number}` is no device number")),
            ("sim", "") => Ok(Choice::Sim("h200".to_owned())),
            ("sim", profile) => Ok(Choice::Sim(profile.to_owned())),
            _ => Err("expected cuda:NUMBER, sim or sim:PROFILE".to_owned()),
        }
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("pinfold-conformance: {error}");
            ExitCode::from(2)
        }
    }
}

/// True where every test passed.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let (driver, device): (Arc<dyn Driver>, _) = match &arguments.device {
        Choice::Cuda(number) => (Arc::new(Cuda::load()?), DeviceId(*number)),
        Choice::Sim(name) => {
            let options = SimOptions::new(Profile::shipped(name)?);
            (Arc::new(Sim::new(options)), DeviceId(0))
        }
    };
    let report = run_all(&driver, device, arguments.filter.as_deref())?;
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    if report.tests.is_empty() {
        return Err("no test has a name that contains the filter".into());
    }
    println!("{}", table(&report));
    Ok(report.passed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_by_backend_and_number_or_profile() {
        assert_eq!("cuda".parse(), Ok(Choice::Cuda(0)));
        assert_eq!("cuda:3".parse(), Ok(Choice::Cuda(3)));
        assert_eq!("sim".parse(), Ok(Choice::Sim("h200".into())));
        assert_eq!("sim:desktop".parse(), Ok(Choice::Sim("desktop".into())));
        assert!("cuda:x".parse::<Choice>().is_err());
        assert!("tpu".parse::<Choice>().is_err());
    }
}
