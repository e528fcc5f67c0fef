//! Runs the suite: opens the device, runs each test, and looks at what it left behind.

use crate::failure::{Check, Failure, ensure};
use crate::report::{Report, TestReport, Verdict};
use crate::{Context, Expectation, Outcome, Test};
use pinfold_hal::{BackendInfo, DeviceId, Driver};
use std::sync::Arc;
use std::time::Instant;

/// Runs all tests whose name contains `filter` on a device that is not open.
///
/// # Errors
/// Where the device does not even tell its name. All else is in the report.
pub fn run_all(
    driver: &Arc<dyn Driver>,
    device: DeviceId,
    filter: Option<&str>,
) -> pinfold_hal::Result<Report> {
    let info = driver.info();
    let context = Context::new(Arc::clone(driver), device);
    let device = driver.device_info(device)?;
    let wanted = |test: &&Test| filter.is_none_or(|text| test.name.contains(text));
    let tests = crate::tests().filter(wanted);
    Ok(Report {
        backend: info.name.clone(),
        device: device.name,
        simulated: info.simulated,
        driver_version: info.driver_version,
        driver_release: info.driver_release.clone(),
        missing_symbols: info.missing_symbols.clone(),
        tests: tests.map(|test| report(&context, &info, test)).collect(),
    })
}

fn report(context: &Context, info: &BackendInfo, test: &Test) -> TestReport {
    let started = Instant::now();
    let result = run(context, test);
    let seconds = started.elapsed().as_secs_f64();
    let known = Expectation::of(info, test.name);
    let (outcome, reason) = match (result, known) {
        (Ok(Outcome::Skip(reason)), _) => (Verdict::Skipped, reason),
        (Ok(Outcome::Pass), None) => (Verdict::Passed, String::new()),
        (Ok(Outcome::Pass), Some(known)) => {
            let reason = format!("expected to fail: {}", known.reason);
            (Verdict::UnexpectedPass, reason)
        }
        (Err(failure), Some(known)) => {
            let reason = format!("{} ({failure})", known.reason);
            (Verdict::KnownDifference, reason)
        }
        (Err(failure), None) => (Verdict::Failed, failure.to_string()),
    };
    TestReport {
        name: test.name,
        outcome,
        reason,
        seconds,
    }
}

/// Runs one test, on a device that is open unless the test has to find it closed.
fn run(context: &Context, test: &Test) -> Check<Outcome> {
    if test.finds_closed {
        return watched(context, test);
    }
    context.driver.open(context.device)?;
    let outcome = watched(context, test);
    // SAFETY: a test has waited for its work and dropped its guards when it returns.
    let closed = unsafe { context.driver.close(context.device) };
    let outcome = outcome?;
    closed?;
    Ok(outcome)
}

/// Runs one test and checks that nothing is left of it.
fn watched(context: &Context, test: &Test) -> Check<Outcome> {
    let hazards_before = context.driver.hazards().len();
    let free_before = free_bytes(context);
    let outcome = (test.run)(context);
    let left = context.take_left();
    let hazards = context.driver.hazards().split_off(hazards_before);
    let free_after = free_bytes(context);

    let outcome = outcome?;
    ensure(left.is_empty(), || left.join("; "))?;
    if let Some(first) = hazards.first() {
        let (count, call, what) = (hazards.len(), &first.call, &first.what);
        return Err(Failure::new(format!(
            "{count} hazards, the first: {call}: {what}"
        )));
    }
    ensure(free_before == free_after, || {
        format!("free device memory was {free_before:?} and is {free_after:?}")
    })?;
    Ok(outcome)
}

/// Free memory of an open simulated device. A real one is shared with others, so its number tells
/// nothing about the test.
fn free_bytes(context: &Context) -> Option<u64> {
    if !context.driver.info().simulated {
        return None;
    }
    let memory = context.driver.device_memory(context.device);
    memory.ok().map(|(free, _)| free)
}
