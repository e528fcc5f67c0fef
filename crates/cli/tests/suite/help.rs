//! Help fits a small terminal, and its examples work as they stand.

use crate::common::{Folder, PLATE, pinfold, stdout, succeed, widest};
use clap::Parser;
use pinfold_cli::args::Cli;
use std::fs;

const COMMANDS: [&[&str]; 15] = [
    &[],
    &["probe"],
    &["bench"],
    &["bench", "pool"],
    &["bench", "pin"],
    &["bench", "stage"],
    &["bench", "gather"],
    &["bench", "fresh"],
    &["bench", "replay"],
    &["bench", "machine"],
    &["bench", "model"],
    &["bench", "soak"],
    &["run"],
    &["run", "dot"],
    &["run", "solve"],
];

fn help(command: &[&str]) -> String {
    stdout(&[command, &["--help"]].concat())
}

/// The examples of every help: the words behind `pinfold`, up to the remark.
fn examples() -> Vec<Vec<String>> {
    let lines = COMMANDS.iter().flat_map(|command| {
        let text = help(command);
        let lines = text.lines().filter_map(|l| l.strip_prefix("  pinfold "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    });
    let words = |line: String| {
        let example = line.split("  ").next().unwrap().split(' ');
        example.map(str::to_owned).collect()
    };
    lines.map(words).collect()
}

/// A folder like the one of the sources, as far as examples go.
fn sources(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::create_dir_all(folder.path().join("crates/apps/data")).unwrap();
    for file in ["MATRIX.mtx", "crates/apps/data/plate.mtx"] {
        fs::copy(PLATE, folder.file(file)).unwrap();
    }
    folder
}

fn run_example(folder: &Folder, example: &[String]) {
    let args: Vec<&str> = example.iter().map(String::as_str).collect();
    let output = pinfold(&args).current_dir(folder.path()).output().unwrap();
    assert!(!succeed(output).is_empty(), "{example:?}");
    if let Some(at) = args.iter().position(|arg| *arg == "--html") {
        assert!(folder.names().contains(&args[at + 1].to_owned()));
    }
}

/// True where an example takes half a minute.
fn is_long(example: &[String]) -> bool {
    example.iter().any(|word| word == "--sweep")
}

#[test]
fn every_help_fits_80_columns_and_has_one_form() {
    for command in COMMANDS {
        let text = help(command);
        assert!(
            widest(&text) <= 80,
            "{command:?}: {}\n{text}",
            widest(&text)
        );
        assert_eq!(stdout(&[command, &["-h"]].concat()), text);
        assert_eq!(stdout(&[&["help"], command].concat()), text);
    }
}

#[test]
fn help_tells_of_every_command_job_option_and_device() {
    let text = help(&[]);
    for word in [
        "probe",
        "bench",
        "run",
        "--device",
        "--json",
        "--html",
        "--color",
        "auto",
        "cuda:N",
        "sim:PROFILE",
        "PINFOLD_DEVICE",
        "simulated",
        "Examples:",
    ] {
        assert!(text.contains(word), "{word}\n{text}");
    }
    let run = help(&["run"]);
    assert!(run.contains("dot") && run.contains("solve"));
    let bench = help(&["bench"]);
    for line in [
        "\n  pool     A warm pool",
        "\n  pin      Fresh page-locked memory",
        "\n  replay   A recorded trace",
    ] {
        assert!(bench.contains(line), "{line}\n{bench}");
    }
    assert!(help(&["run", "solve"]).contains("positive definite"));
}

#[test]
fn every_example_is_understood() {
    let examples = examples();
    assert!(examples.len() >= 8, "{examples:?}");
    for example in &examples {
        let words = [&["pinfold".to_owned()], example.as_slice()].concat();
        let parsed = Cli::try_parse_from(&words);
        assert!(parsed.is_ok(), "{example:?}: {}", parsed.unwrap_err());
    }
}

#[test]
fn every_example_works() {
    let folder = sources("examples");
    for example in examples().iter().filter(|e| !is_long(e)) {
        run_example(&folder, example);
    }
}

#[test]
#[ignore = "takes half a minute and several gigabytes: the sweep goes up to 2^27 elements"]
fn every_long_example_works() {
    let folder = sources("long-examples");
    let long: Vec<_> = examples().into_iter().filter(|e| is_long(e)).collect();
    assert!(!long.is_empty());
    for example in &long {
        run_example(&folder, example);
    }
}

#[test]
fn the_version_is_told() {
    let version = format!("pinfold {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(stdout(&["--version"]), version);
}
