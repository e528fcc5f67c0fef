//! One suite of tests that every backend has to pass.
//!
//! The contract of [`pinfold_hal`] is prose; this crate is the same contract as code. Each test is
//! a function over an open device that says in its description which sentence of the contract it
//! checks. It uses nothing but the `Driver` trait and three tiny kernels of its own, so that a
//! new backend needs no change here.
//!
//! * [`tests`] lists the tests, a topic in each file: `device` · `memory` · `registration` ·
//!   `copies` · `streams` · `callbacks` · `events` · `kernels` · `graphs` · `several`.
//! * [`run_all`] runs them and returns a [`Report`], plain data that [`table`] prints.
//! * [`EXPECTATIONS`] lists where a backend is known to differ, with the reason.
//!
//! No test asserts a time. Where one has to catch the device at work it holds the stream with a
//! kernel that spins, and tries again with a longer one before it gives up.
//!
//! After every test the suite checks that nothing is left: what the test allocated was released
//! without an error, a simulated device has as much free memory as before, and
//! [`hazards`](pinfold_hal::BackendOps::hazards) has no new entry.

mod callbacks;
mod copies;
mod device;
mod events;
mod expectations;
mod failure;
mod fixture;
mod graphs;
mod host;
mod image;
mod kernels;
mod launcher;
mod memory;
mod registration;
mod report;
mod runner;
mod several;
mod streams;

pub use expectations::{EXPECTATIONS, Expectation};
pub use failure::{Check, Failure};
pub use fixture::Context;
pub use report::{Report, TestReport, Verdict, table};
pub use runner::run_all;

/// One test of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Topic and name, such as `memory/zero_bytes`.
    pub name: &'static str,
    /// What a backend has to do.
    pub description: &'static str,
    /// True where the test opens the device itself, and has to find it closed.
    pub finds_closed: bool,
    /// The test.
    pub run: fn(&Context) -> Check<Outcome>,
}

/// How a test ended that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The backend does what the contract says.
    Pass,
    /// The test has no meaning here.
    Skip(String),
}

/// The whole suite, in the order in which it runs.
pub fn tests() -> impl Iterator<Item = &'static Test> {
    let topics: [&[Test]; 10] = [
        device::TESTS,
        memory::TESTS,
        registration::TESTS,
        copies::TESTS,
        streams::TESTS,
        callbacks::TESTS,
        events::TESTS,
        kernels::TESTS,
        graphs::TESTS,
        several::TESTS,
    ];
    topics.into_iter().flatten()
}
