//! From the command line to an exit code.

use crate::args::{Bench, Cli, Color, Command, Common, DEVICE_VARIABLE, Job};
use crate::output::{self, FileUse, WholeFile};
use crate::print::{Page, Printable};
use crate::progress::Bars;
use clap::Parser;
use pinfold::pool::Pool;
use pinfold::probe::ProbeReport;
use pinfold::{Device, DeviceChoice, profiles};
use pinfold_apps::{JobError, bench, dot, solve};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

/// Why the command fails. The text says what to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was asked for wrongly.
    Usage(String),
    /// It was asked for rightly and did not work.
    Failed(String),
}

impl Failure {
    fn failed(error: impl ToString) -> Self {
        Failure::Failed(error.to_string())
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::from(1),
        }
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        match error {
            JobError::OutOfRange { .. } => Failure::Usage(error.to_string()),
            _ => Failure::failed(error),
        }
    }
}

/// Runs the command with its arguments, the program's name first.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return answer(&error),
    };
    match execute(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let (Failure::Usage(text) | Failure::Failed(text)) = &failure;
            output::error(text, cli.common.color);
            failure.exit_code()
        }
    }
}

/// Prints what the parser has to say: help and version to standard output, errors to the other.
fn answer(said: &clap::Error) -> ExitCode {
    match said.print() {
        Err(error) if !said.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            output::error(&output::unwritable(&error), Color::Auto);
            ExitCode::from(1)
        }
        _ => ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(2)),
    }
}

fn execute(cli: &Cli) -> Result<(), Failure> {
    let common = &cli.common;
    let choice = device_choice(common)?;
    // A place that cannot be written shows now, not after minutes of work.
    let html = common
        .html
        .as_deref()
        .map(|path| WholeFile::claim(path, FileUse::Html))
        .transpose()
        .map_err(Failure::Failed)?;
    match &cli.command {
        Command::Probe { pin_ceiling } => {
            let mut report = ProbeReport::gather(&choice);
            if *pin_ceiling {
                let device = open(&choice)?;
                let at_most_bytes = report.pin_headroom.bytes;
                let ceiling = Pool::pin_ceiling(&device, at_most_bytes);
                report.pin_ceiling = Some(ceiling.map_err(Failure::failed)?);
            }
            match &report.notice {
                Some(problem) if report.devices.is_empty() => Err(Failure::failed(problem)),
                _ => deliver(&report, common, html),
            }
        }
        Command::Bench { what } => benchmark(what, &open(&choice)?, common, html),
        Command::Run {
            job: Job::Dot(args),
            memory_report,
        } if args.sweep => {
            let mut report = dot::sweep(&open(&choice)?, &mut Bars::default())?;
            if !memory_report {
                report.runs.iter_mut().for_each(|run| run.memory = None);
            }
            deliver(&report, common, html)
        }
        Command::Run {
            job: Job::Dot(args),
            memory_report,
        } => {
            let mut report = dot::run(&open(&choice)?, args.elements, &mut Bars::default())?;
            report.memory = report.memory.filter(|_| *memory_report);
            deliver(&report, common, html)
        }
        Command::Run {
            job: Job::Solve(args),
            memory_report,
        } => {
            let device = open(&choice)?;
            let mut report =
                solve::run(&device, &args.file, &args.options(), &mut Bars::default())?;
            report.memory = report.memory.filter(|_| *memory_report);
            deliver(&report, common, html)
        }
    }
}

fn benchmark(
    what: &Bench,
    device: &Device,
    common: &Common,
    html: Option<WholeFile>,
) -> Result<(), Failure> {
    let bars = &mut Bars::default();
    let report = match what {
        Bench::Machine { quick, profile } => {
            return machine(device, *quick, profile.as_deref(), common, html);
        }
        Bench::Model { profile, points } => {
            return model(device, profile.as_deref(), *points, common, html);
        }
        Bench::Pool => bench::pool::run(device, bars)?,
        Bench::Pin => bench::pin::run(device, bars)?,
        Bench::Stage => return deliver(&bench::stage::run(device, bars)?, common, html),
        Bench::Gather => return deliver(&bench::gather::run(device, bars)?, common, html),
        Bench::Fresh => return deliver(&bench::fresh::run(device, bars)?, common, html),
        Bench::Replay { file } => bench::replay::run(device, file, bars)?,
        Bench::Soak { seconds } => bench::soak::run(device, *seconds, bars)?,
    };
    deliver(&report, common, html)
}

/// Compares a profile with the device: the given one, or one that is measured first.
fn model(
    device: &Device,
    profile: Option<&Path>,
    points: u64,
    common: &Common,
    html: Option<WholeFile>,
) -> Result<(), Failure> {
    let bars = &mut Bars::default();
    let (profile, from) = match profile {
        Some(path) => {
            let profile = profiles::load(path).map_err(Failure::failed)?;
            if let Some(warning) = profiles::mismatch(&profile, device) {
                output::notice(&warning);
            }
            (profile, path.display().to_string())
        }
        None => {
            let measured = bench::machine::run(device, true, bars)?;
            (measured.profile, "measured a moment ago".to_owned())
        }
    };
    let report = bench::model::run(device, &profile, &from, points, bars)?;
    deliver(&report, common, html)
}

/// Measures a machine, and writes its profile where that was asked for.
fn machine(
    device: &Device,
    quick: bool,
    profile: Option<&Path>,
    common: &Common,
    html: Option<WholeFile>,
) -> Result<(), Failure> {
    let file = profile.map(claim_profile).transpose()?;
    let measured = bench::machine::run(device, quick, &mut Bars::default())?;
    if let Some(file) = file {
        let text = measured.profile.to_toml().map_err(Failure::failed)?;
        file.write(&text).map_err(Failure::Failed)?;
    }
    deliver(&measured.report, common, html)?;
    if let Some(path) = profile {
        output::notice(&format!("the profile is in {}", path.display()));
    }
    Ok(())
}

/// A place for a profile: none that holds something else.
fn claim_profile(path: &Path) -> Result<WholeFile, Failure> {
    let holds_something = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() > 0);
    if holds_something && let Err(error) = profiles::load(path) {
        return Err(Failure::Usage(format!(
            "{error}; it is left as it is: give --profile another file"
        )));
    }
    WholeFile::claim(path, FileUse::Profile).map_err(Failure::Failed)
}

/// The device that was asked for: on the command line, else in the environment, else `auto`.
fn device_choice(common: &Common) -> Result<DeviceChoice, Failure> {
    if let Some(choice) = &common.device {
        return Ok(choice.clone());
    }
    match std::env::var_os(DEVICE_VARIABLE) {
        Some(text) if !text.is_empty() => text
            .to_string_lossy()
            .parse()
            .map_err(|error| Failure::Usage(format!("{DEVICE_VARIABLE}: {error}"))),
        _ => Ok(DeviceChoice::default()),
    }
}

/// Opens the device, and says so where it is not a real one though none was asked for.
fn open(choice: &DeviceChoice) -> Result<Device, Failure> {
    let opened = choice.open().map_err(Failure::failed)?;
    if let Some(notice) = &opened.notice {
        output::notice(notice);
    }
    Ok(opened.device)
}

/// Composes the whole output, then writes it: first the file, which may fail, then standard output.
fn deliver<R: Printable>(
    report: &R,
    common: &Common,
    html: Option<WholeFile>,
) -> Result<(), Failure> {
    let printed = if common.json {
        crate::print::json(report).map_err(Failure::failed)?
    } else {
        report.text(&Page::of_stdout(common.color))
    };
    if let Some(file) = html {
        file.write(&report.html()).map_err(Failure::Failed)?;
    }
    output::stdout(&printed).map_err(Failure::Failed)
}
