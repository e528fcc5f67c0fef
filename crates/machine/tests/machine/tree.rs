//! Small trees of files that stand for machines.

use pinfold_machine::Machine;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A tree in the temporary folder, removed when dropped.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// An empty tree.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinfold-machine-{}-{count}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).unwrap();
        Tree { root }
    }

    /// A tree with what every Linux machine of 4 KiB pages tells.
    pub(crate) fn linux(kernel: &str, total_kib: u64, available_kib: u64) -> Self {
        let tree = Tree::new();
        tree.file("proc/sys/kernel/ostype", "Linux\n")
            .file("proc/sys/kernel/osrelease", &format!("{kernel}\n"))
            .file(
                "proc/meminfo",
                &format!(
                    "MemTotal:       {total_kib} kB\nMemFree:  1024 kB\nMemAvailable:   \
                     {available_kib} kB\nSwapTotal:      0 kB\nSwapFree:      0 kB\n"
                ),
            )
            .bytes("proc/self/auxv", &auxv(4096))
    }

    /// Writes a text file.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        self.bytes(path, text.as_bytes())
    }

    /// Writes a file.
    pub(crate) fn bytes(self, path: &str, bytes: &[u8]) -> Self {
        let full = self.root.join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, bytes).unwrap();
        self
    }

    /// Makes a folder, with those above it.
    pub(crate) fn folder(self, path: &str) -> Self {
        fs::create_dir_all(self.root.join(path)).unwrap();
        self
    }

    /// Makes a symbolic link.
    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        let full = self.root.join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, full).unwrap();
        self
    }

    /// Where the tree is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The machine that the tree stands for.
    pub(crate) fn machine(&self) -> Machine {
        Machine::read_from(&self.root)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Nothing to be done about a tree that does not go.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// An auxiliary vector that gives the page size among other entries.
pub(crate) fn auxv(page_bytes: usize) -> Vec<u8> {
    [33, 0x7fff_0000, 6, page_bytes, 0, 0]
        .iter()
        .flat_map(|word: &usize| word.to_ne_bytes())
        .collect()
}
