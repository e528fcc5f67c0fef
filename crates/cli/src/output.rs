//! Writing: standard output whole and once, messages to standard error, files by renaming.

use crate::args::Color;
use crate::print::{one_line, wants_color};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Writes to standard output. A reader that went away is no failure.
pub(crate) fn stdout(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritable(&error)),
        _ => Ok(()),
    }
}

/// What is wrong with standard output.
pub(crate) fn unwritable(error: &io::Error) -> String {
    let why = plain(error);
    format!("standard output cannot be written ({why}); check where it is redirected to")
}

/// What the system says, without its number.
fn plain(error: &io::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.find(" (os error ").unwrap_or(text.len()));
    text
}

/// Says what went wrong, on one line of standard error.
pub(crate) fn error(text: &str, color: Color) {
    let stderr = io::stderr();
    let label = match wants_color(color, stderr.is_terminal()) {
        true => "\u{1b}[1;31merror:\u{1b}[0m",
        false => "error:",
    };
    // Where nobody listens, nobody can be told.
    let _ = writeln!(stderr.lock(), "{label} {}", one_line(text));
}

/// Says what the user should know, on one line of standard error.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(io::stderr().lock(), "note: {}", one_line(text));
}

/// What a file is for, in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileUse {
    /// A report as a page.
    Html,
    /// A machine's profile.
    Profile,
}

impl FileUse {
    fn what(self) -> &'static str {
        match self {
            FileUse::Html => "the HTML report",
            FileUse::Profile => "the profile",
        }
    }

    fn option(self) -> &'static str {
        match self {
            FileUse::Html => "--html",
            FileUse::Profile => "--profile",
        }
    }
}

/// A file that appears whole or not at all.
#[derive(Debug)]
pub(crate) struct WholeFile {
    /// As the user wrote it.
    asked: PathBuf,
    target: Target,
    file_use: FileUse,
}

#[derive(Debug)]
enum Target {
    /// An ordinary file, there or not: written beside it, then renamed.
    File { path: PathBuf, beside: PathBuf },
    /// A pipe or a device, which a rename would replace: written straight.
    Special,
}

impl WholeFile {
    /// Makes sure that the file can be written, without leaving anything.
    pub(crate) fn claim(path: &Path, file_use: FileUse) -> Result<Self, String> {
        let file = WholeFile {
            asked: path.to_owned(),
            target: Target::of(path).map_err(say(path, file_use))?,
            file_use,
        };
        if let Target::File { beside, .. } = &file.target {
            create(beside)
                .and_then(|_| fs::remove_file(beside))
                .map_err(say(path, file_use))?;
        }
        Ok(file)
    }

    /// Writes the file.
    pub(crate) fn write(&self, contents: &str) -> Result<(), String> {
        let written = match &self.target {
            Target::Special => fs::write(&self.asked, contents),
            Target::File { path, beside } => {
                let written = create(beside)
                    .and_then(|mut file| file.write_all(contents.as_bytes()))
                    .and_then(|()| fs::rename(beside, path));
                if written.is_err() {
                    // What is left of it helps nobody; the first error is the one to tell.
                    let _ = fs::remove_file(beside);
                }
                written
            }
        };
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(say(&self.asked, self.file_use)(error))
            }
            _ => Ok(()),
        }
    }
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        let path = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(meta) if !meta.is_file() => return Ok(Target::Special),
            // Behind a symbolic link the file is renamed, not the link.
            Ok(_) => fs::canonicalize(path)?,
            Err(_) => path.to_owned(),
        };
        if path.file_name().is_none() {
            return Err(ErrorKind::InvalidInput.into());
        }
        // Short, since the file's own name may be as long as the system allows.
        let beside = path.with_file_name(format!(".pinfold.{}.part", std::process::id()));
        Ok(Target::File { path, beside })
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

fn say(path: &Path, file_use: FileUse) -> impl FnOnce(io::Error) -> String {
    move |error| {
        format!(
            "{}: {} cannot be written ({}); give {} a file in a folder that exists and may be \
             written",
            path.display(),
            file_use.what(),
            plain(&error),
            file_use.option()
        )
    }
}
