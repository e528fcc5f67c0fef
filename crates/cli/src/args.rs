//! The command line: one definition for parser, help and limits.

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use pinfold::DeviceChoice;
use pinfold_apps::bench::model::{POINTS_DEFAULT, POINTS_MAX, POINTS_MIN};
use pinfold_apps::bench::soak::SECONDS_MAX;
use pinfold_apps::dot::{ELEMENTS_DEFAULT, ELEMENTS_MAX, ELEMENTS_MIN};
use pinfold_apps::solve::SolveOptions;
use std::path::PathBuf;

/// Names the device where `--device` does not.
pub const DEVICE_VARIABLE: &str = "PINFOLD_DEVICE";

/// The tolerance of [`SolveOptions::default`], as people write it.
const TOLERANCE_DEFAULT: &str = "1e-8";

const ABOUT: &str = "\
Host memory for GPU programs, chosen by what it is for.

Measures what page-locked, write-combined and mapped memory do on this machine,
runs real jobs under each, and says which one to use, and why.";

const EXAMPLES: &str = "\
Examples:
  pinfold probe                 what this machine is
  pinfold run dot               a dot product under every kind of host memory
  pinfold run solve MATRIX.mtx  a sparse linear system, placed in every way

Devices (--device, else the variable PINFOLD_DEVICE, else auto):
  auto         the first GPU, or the simulated default where there is none
  cuda:N       GPU number N
  sim          the simulated default, a machine with an H200
  sim:PROFILE  another simulated machine; `pinfold probe` lists them
  sim:FILE     the machine of a profile that `pinfold bench machine` wrote

No GPU? Everything runs on a simulated device: results are checked for real,
times are simulated, and every report says so.";

const DOT_EXAMPLES: &str = "\
Examples:
  pinfold run dot --elements 8k           8192 elements: k, M, G count in 1024s
  pinfold run dot --elements 2^20 --json  for programs
  pinfold run dot --sweep --html dot.html";

const MACHINE_EXAMPLES: &str = "\
Examples:
  pinfold bench machine --quick --html machine.html
  pinfold bench machine --profile here.toml

Then --device sim:here.toml simulates the machine that the profile describes.
What cannot be measured is taken from the nearest profile that comes with
pinfold, and marked as assumed.";

const SOLVE_EXAMPLES: &str = "\
Examples, from the folder of the sources:
  pinfold run solve crates/apps/data/plate.mtx
  pinfold run solve crates/apps/data/plate.mtx --device sim:gh200 --html a.html

The matrix has to be square, symmetric and positive definite.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "pinfold", version, about = ABOUT, after_help = EXAMPLES,
    arg_required_else_help = true, subcommand_required = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// What holds for every command.
    #[command(flatten)]
    pub common: Common,
}

/// Options that every command takes, before or after its name.
#[derive(Debug, Args)]
pub struct Common {
    /// auto, cuda:N, sim or sim:PROFILE [default: auto]
    #[arg(long, global = true, value_name = "DEVICE")]
    pub device: Option<DeviceChoice>,
    /// Print the report as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Also write the report to one HTML file, with charts
    #[arg(long, global = true, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Colours: auto, always or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto,
          hide_possible_values = true)]
    pub color: Color,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Also into pipes and files.
    Always,
    /// Nowhere.
    Never,
}

// Without help for each value: that would make a second, longer form of every help.
impl ValueEnum for Color {
    fn value_variants<'a>() -> &'a [Self] {
        &[Color::Auto, Color::Always, Color::Never]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Color::Auto => "auto",
            Color::Always => "always",
            Color::Never => "never",
        }))
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what this machine is and what limits page-locked memory
    Probe {
        /// Also find out how much can be page-locked, by trying
        #[arg(long)]
        pin_ceiling: bool,
    },
    /// Measure pinfold itself against what the driver offers
    #[command(
        arg_required_else_help = true,
        subcommand_value_name = "WHAT",
        subcommand_help_heading = "Benchmarks",
        disable_help_subcommand = true
    )]
    Bench {
        /// The benchmark.
        #[command(subcommand)]
        what: Bench,
    },
    /// Run a job under every strategy, check the results, name the winner
    #[command(
        arg_required_else_help = true,
        subcommand_value_name = "JOB",
        subcommand_help_heading = "Jobs",
        disable_help_subcommand = true
    )]
    Run {
        /// The job.
        #[command(subcommand)]
        job: Job,
        /// Report the memory too, by kind and line of code
        #[arg(long, global = true)]
        memory_report: bool,
    },
}

/// A benchmark.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// A warm pool: taking and giving back, threads, work in flight, holes
    Pool,
    /// Fresh page-locked memory: pool against driver, and copies from both
    Pin,
    /// Ordinary memory to the device and back: engine against driver
    Stage,
    /// Scattered blocks and random rows: one launch against copies
    Gather,
    /// Fresh data, written by ordinary and by streaming stores
    Fresh,
    /// A recorded trace of allocation, over pool and driver
    Replay {
        /// The trace
        #[arg(value_name = "TRACE")]
        file: PathBuf,
    },
    /// This machine: memory kinds, link and driver calls; and its profile
    #[command(after_help = MACHINE_EXAMPLES)]
    Machine {
        /// Stay within a minute
        #[arg(long)]
        quick: bool,
        /// Write the machine's profile to this file
        #[arg(long, value_name = "FILE")]
        profile: Option<PathBuf>,
    },
    /// The cost model: held-out points predicted, measured and compared
    Model {
        /// Predict from this profile; else one is measured first
        #[arg(long, value_name = "FILE")]
        profile: Option<PathBuf>,
        /// How many points
        #[arg(long, value_name = "N", default_value_t = POINTS_DEFAULT,
              value_parser = clap::value_parser!(u64).range(POINTS_MIN..=POINTS_MAX))]
        points: u64,
    },
    /// A long run on several threads that checks every byte
    Soak {
        /// How long
        #[arg(long, value_name = "N", default_value_t = 60,
              value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
        seconds: u64,
    },
}

/// A job.
#[derive(Debug, Subcommand)]
pub enum Job {
    /// Dot product of two vectors that are fresh in host memory
    #[command(after_help = DOT_EXAMPLES)]
    Dot(DotArgs),
    /// Conjugate gradients on a sparse matrix from a Matrix Market file
    #[command(after_help = SOLVE_EXAMPLES)]
    Solve(SolveArgs),
}

/// What `run dot` takes.
#[derive(Debug, Args)]
pub struct DotArgs {
    /// Vector length: 1000000, 8k, 2^20
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          default_value_t = ELEMENTS_DEFAULT, value_parser = elements)]
    pub elements: u64,
    /// Run every power of two from 2^13 to 2^27
    #[arg(long, conflicts_with = "elements")]
    pub sweep: bool,
}

/// What `run solve` takes.
#[derive(Debug, Args)]
pub struct SolveArgs {
    /// The matrix, in Matrix Market format
    #[arg(value_name = "FILE.mtx")]
    pub file: PathBuf,
    /// Stop at this relative residual
    #[arg(long, value_name = "T", allow_negative_numbers = true,
          default_value = TOLERANCE_DEFAULT, value_parser = tolerance)]
    pub tolerance: f64,
    /// Fail after this many iterations
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          default_value_t = SolveOptions::default().iterations_max, value_parser = iterations)]
    pub max_iterations: u64,
}

impl SolveArgs {
    /// The same as the job takes it.
    pub fn options(&self) -> SolveOptions {
        SolveOptions {
            tolerance: self.tolerance,
            iterations_max: self.max_iterations,
        }
    }
}

fn elements(text: &str) -> Result<u64, String> {
    let count = count(text).ok_or("give a whole number such as 1000000, 1_000_000, 8k or 2^20")?;
    if !(ELEMENTS_MIN..=ELEMENTS_MAX).contains(&count) {
        return Err(format!(
            "give a number from {ELEMENTS_MIN} to {ELEMENTS_MAX}"
        ));
    }
    Ok(count)
}

/// A count: digits with `_` between them, a power `2^20`, or digits with k, M or G for 1024s.
fn count(text: &str) -> Option<u64> {
    if let Some((base, exponent)) = text.split_once('^') {
        return digits(base)?.checked_pow(u32::try_from(digits(exponent)?).ok()?);
    }
    let shift = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        _ => return digits(text),
    };
    digits(text.get(..text.len() - 1)?)?.checked_mul(1 << shift)
}

/// A number in digits, with single `_` between them.
fn digits(text: &str) -> Option<u64> {
    let plain = |group: &str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit());
    if !text.split('_').all(plain) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

fn iterations(text: &str) -> Result<u64, String> {
    match count(text) {
        Some(count) if count > 0 => Ok(count),
        _ => Err("give a whole number from 1 up, such as 20000".to_owned()),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("give a number above 0 and below 1, such as 1e-8".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn counts_are_read_in_every_spelling() {
        for (text, value) in [
            ("1000000", 1_000_000),
            ("1_000_000", 1_000_000),
            ("8k", 8192),
            ("8K", 8192),
            ("1M", 1 << 20),
            ("128m", 1 << 27),
            ("2G", 2 << 30),
            ("2^20", 1 << 20),
            ("10^6", 1_000_000),
            ("0", 0),
        ] {
            assert_eq!(count(text), Some(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_count_is_refused() {
        for text in [
            "",
            "k",
            "-1",
            "+1",
            "1.5",
            "1e6",
            "1__0",
            "_1",
            "1_",
            "2^",
            "^2",
            "2^64",
            "8kk",
            "8 k",
            "0x10",
            "99999999999999999999",
            "99999999999G",
            "١",
            "8µ",
        ] {
            assert_eq!(count(text), None, "{text}");
        }
    }

    #[test]
    fn limits_are_named() {
        assert!(elements("0").unwrap_err().contains("from 1 to"));
        assert!(elements("2^40").unwrap_err().contains("from 1 to"));
        for text in ["0", "1", "-1e-3", "nan", "inf", "x"] {
            assert!(tolerance(text).is_err(), "{text}");
        }
        for text in ["0", "-1", "x", ""] {
            assert!(iterations(text).is_err(), "{text}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_job() {
        assert_eq!(
            tolerance(TOLERANCE_DEFAULT),
            Ok(SolveOptions::default().tolerance)
        );
    }
}
