//! The one door to the file system: bounded reads below a root that never fail, only find nothing.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Most bytes taken from one file. The mount table of a busy container host is the longest file
/// read here, at about 200 bytes a mount.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Most entries taken from one folder.
const NAMES_MAX: usize = 4096;

/// Most characters kept of a name that is shown to people.
const WORD_CHARS_MAX: usize = 256;

/// Files below a root.
pub(crate) struct Source {
    root: PathBuf,
}

impl Source {
    /// Files below `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Source {
            root: root.to_path_buf(),
        }
    }

    /// A file's bytes, as far as the limit.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut held = Vec::new();
        let file = File::open(self.resolve(path)?).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut held).ok()?;
        Some(held)
    }

    /// A file's text; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes(path)?).into_owned())
    }

    /// The first line of a file, made fit to show; `None` where it is empty.
    pub(crate) fn word(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let word = printable(text.lines().next()?);
        (!word.is_empty()).then_some(word)
    }

    /// A file that holds one unsigned decimal number.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// Where a symbolic link points.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.resolve(path)?).ok()?;
        Some(target.to_string_lossy().into_owned())
    }

    /// True where there is such a file or folder.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_some_and(|p| p.exists())
    }

    /// The numbers, ascending, of a folder's entries named `prefix` number `suffix`.
    pub(crate) fn numbered(&self, folder: &str, prefix: &str, suffix: &str) -> Vec<u64> {
        let Some(entries) = self.resolve(folder).and_then(|p| fs::read_dir(p).ok()) else {
            return Vec::new();
        };
        let mut numbers: Vec<u64> = entries
            .take(NAMES_MAX)
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                let middle = name.to_str()?.strip_prefix(prefix)?.strip_suffix(suffix)?;
                let number: u64 = middle.parse().ok()?;
                // Only the one spelling that can be put back together: no sign, no leading zero.
                (number.to_string() == middle).then_some(number)
            })
            .collect();
        numbers.sort_unstable();
        numbers
    }

    /// The path below the root. Paths read from files are not trusted: one that climbs out is none.
    fn resolve(&self, path: &str) -> Option<PathBuf> {
        let mut full = self.root.clone();
        for part in Path::new(path).components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => full.push(name),
                Component::ParentDir | Component::Prefix(_) => return None,
            }
        }
        Some(full)
    }
}

/// Text without control characters, trimmed and cut to a length that can be shown.
pub(crate) fn printable(text: &str) -> String {
    let clean: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(WORD_CHARS_MAX)
        .collect();
    clean.trim().to_owned()
}

/// The rest of the first line that begins with `key` and a colon.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.trim_start().strip_prefix(':')?;
        Some(rest.trim())
    })
}

/// A size such as `123 kB`, in bytes. The kernel's `kB` are units of 1024 bytes.
pub(crate) fn kib_in_bytes(text: &str) -> Option<u64> {
    let mut parts = text.split_whitespace();
    let kib: u64 = parts.next()?.parse().ok()?;
    if parts.next()? != "kB" {
        return None;
    }
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_climbs_out_is_none() {
        let source = Source::new(Path::new("/nowhere"));
        assert_eq!(source.resolve("/a/../../etc"), None);
        assert_eq!(source.resolve("/a//./b"), Some("/nowhere/a/b".into()));
    }

    #[test]
    fn sizes_need_their_unit_and_must_fit() {
        assert_eq!(kib_in_bytes("  4 kB"), Some(4096));
        assert_eq!(kib_in_bytes("4"), None);
        assert_eq!(kib_in_bytes("-4 kB"), None);
        assert_eq!(kib_in_bytes("18446744073709551615 kB"), None);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "MemTotalX: 1 kB\nMemTotal\t: 2 kB\n";
        assert_eq!(field(text, "MemTotal"), Some("2 kB"));
        assert_eq!(field(text, "Mem"), None);
    }

    #[test]
    fn shown_text_has_no_control_characters() {
        assert_eq!(printable(" a\u{1b}[31mb\t "), "a[31mb");
    }
}
