//! Running the real program, in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A matrix that comes with the sources.
pub(crate) const PLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../apps/data/plate.mtx");

/// The program, on the simulated default device unless the test says otherwise, free of what the
/// environment of the tests may say about output.
pub(crate) fn pinfold(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
    command.args(args).env("PINFOLD_DEVICE", "sim");
    for name in ["COLUMNS", "NO_COLOR", "TERM"] {
        command.env_remove(name);
    }
    command
}

/// What the program says, run to its end.
pub(crate) fn output(args: &[&str]) -> Output {
    pinfold(args).output().unwrap()
}

/// Standard output of a run that has to succeed.
pub(crate) fn stdout(args: &[&str]) -> String {
    succeed(output(args))
}

/// Standard output of a run that has to have succeeded.
pub(crate) fn succeed(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a run.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Columns that a line takes: our text has no wide characters.
pub(crate) fn widest(text: &str) -> usize {
    let widths = text.lines().map(|line| line.chars().count());
    widths.max().unwrap_or(0)
}

/// A page without its style sheet.
pub(crate) fn unstyled(html: &str) -> String {
    let (head, rest) = html.split_once("<style>").unwrap();
    let (_, body) = rest.split_once("</style>").unwrap();
    format!("{head}{body}")
}

/// An empty folder, which goes with everything in it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// `name` is the test's own.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pinfold-cli-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it, there or not.
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Names of what is in it, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that fails here would hide its own failure.
        let _ = fs::remove_dir_all(&self.0);
    }
}
