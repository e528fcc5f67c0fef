//! The files of the repository, as text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders that are not ours: what builds make, and what version control keeps.
const SKIPPED: [&str; 3] = ["target", ".git", ".venv"];
/// Endings of files that are read.
const READ: [&str; 12] = [
    "rs", "cu", "cuh", "ptx", "toml", "md", "json", "mtx", "svg", "css", "txt", "lock",
];
/// Deepest folder that is looked into.
const DEPTH_MAX: usize = 12;

/// A file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path inside the repository, with `/`.
    pub path: String,
    /// Contents.
    pub text: String,
}

impl Source {
    /// All files of this repository that are text.
    ///
    /// # Errors
    /// Where a folder or file cannot be read.
    pub fn all() -> io::Result<Vec<Source>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut paths = Vec::new();
        list(&root, DEPTH_MAX, &mut paths)?;
        paths.sort();
        let read = |path: PathBuf| {
            let inside = path.strip_prefix(&root).unwrap_or(&path);
            let path_text = inside.to_string_lossy().replace('\\', "/");
            fs::read_to_string(&path).map(|text| Source {
                path: path_text,
                text,
            })
        };
        paths.into_iter().map(read).collect()
    }

    /// True for Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// True for files that hold nothing but tests.
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.starts_with("crates/tidy/")
    }

    /// The lines outside of unit tests, with numbers that begin with 1. Unit tests stand at the end
    /// of a file.
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let product = self
            .text
            .lines()
            .take_while(|line| line.trim() != "#[cfg(test)]");
        product.enumerate().map(|(n, line)| (n + 1, line))
    }
}

fn list(folder: &Path, depth: usize, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth == 0 {
        return Err(io::Error::other(format!(
            "{}: folders nest too deep",
            folder.display()
        )));
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        let name = entry.file_name();
        let known = path.extension().and_then(|e| e.to_str());
        if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
            list(&path, depth - 1, paths)?;
        } else if kind.is_file() && known.is_some_and(|ending| READ.contains(&ending)) {
            paths.push(path);
        }
    }
    Ok(())
}
