//! Standard output that nobody reads, or that has no room.

use crate::common::{pinfold, stderr};
use std::process::{Command, Stdio};

const DOT: [&str; 4] = ["run", "dot", "--elements", "1k"];

/// Commands that print something, each in its own way.
fn printing() -> [Vec<&'static str>; 4] {
    [
        DOT.to_vec(),
        [&DOT[..], &["--json"]].concat(),
        vec!["probe"],
        vec!["--help"],
    ]
}

fn piped(args: &[&str]) -> Command {
    let mut command = pinfold(args);
    command.stderr(Stdio::piped());
    command
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    for args in printing() {
        let mut child = piped(&args).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(stderr(&output), "", "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure() {
    for args in printing() {
        let full = std::fs::File::create("/dev/full").unwrap();
        let output = piped(&args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = stderr(&output);
        assert!(
            said.starts_with("error: standard output cannot be written (No space"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_run_on_the_device_that_was_asked_for_has_nothing_to_add() {
    for args in printing() {
        let output = pinfold(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(stderr(&output), "", "{args:?}");
    }
}

#[test]
fn a_simulated_device_that_nobody_asked_for_is_announced() {
    let args = [&DOT[..], &["--json"]].concat();
    let output = pinfold(&args)
        .env_remove("PINFOLD_DEVICE")
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = stderr(&output);
    match report["device"]["simulated"].as_bool().unwrap() {
        true => {
            assert!(
                said.starts_with("note: ") && said.contains("simulated"),
                "{said}"
            );
            assert_eq!(said.lines().count(), 1, "{said}");
        }
        false => assert_eq!(said, ""),
    }
}
