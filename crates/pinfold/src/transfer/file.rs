//! Files streamed to a device: each thread reads its chunks straight into page-locked slots.

use super::Engine;
use super::control::Control;
use super::job::Job;
use super::lanes::Lanes;
use super::staged::Place;
use crate::buffer::DeviceBuffer;
use crate::buffer::raw::check_range;
use crate::error::{Error, Result};
use pinfold_pool::PAGE_BYTES;
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A file to be streamed, or a part of one.
#[derive(Debug)]
pub struct FileRange {
    path: PathBuf,
    file: File,
    /// The same file past the page cache.
    direct: Option<File>,
    offset_bytes: u64,
    bytes: u64,
}

impl FileRange {
    /// All of a file, as long as it is now.
    ///
    /// # Errors
    /// [`Error::File`] where it cannot be opened.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((bytes, file)) => Ok(FileRange {
                path,
                file,
                direct: None,
                offset_bytes: 0,
                bytes,
            }),
            Err(error) => Err(problem(&path, 0, &error)),
        }
    }

    /// So many bytes of it, from an offset on.
    #[must_use]
    pub fn part(self, offset_bytes: u64, bytes: u64) -> Self {
        FileRange {
            offset_bytes,
            bytes,
            ..self
        }
    }

    /// Reads past the page cache where the file system can: for files that are read once, and are
    /// larger than the memory that is left. Where it cannot, or a chunk does not lie on whole
    /// pages, the page cache is used.
    #[must_use]
    pub fn direct(self) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&self.path, flags, rustix::fs::Mode::empty());
        FileRange {
            direct: opened.ok().map(File::from),
            ..self
        }
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, at: u64, slot: &mut [u8]) -> Result<()> {
        let beyond = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let offset = self.offset_bytes.checked_add(at);
        let offset = offset.ok_or_else(|| problem(&self.path, u64::MAX, &beyond()))?;
        let on_pages = |n: u64| n.is_multiple_of(PAGE_BYTES);
        let aligned = on_pages(offset)
            && on_pages(slot.len() as u64)
            && on_pages(slot.as_ptr().addr() as u64);
        let file = self.direct.as_ref().filter(|_| aligned);
        let read = file.unwrap_or(&self.file).read_exact_at(slot, offset);
        read.map_err(|error| problem(&self.path, offset, &error))
    }
}

fn problem(path: &std::path::Path, offset_bytes: u64, error: &std::io::Error) -> Error {
    let problem = match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            "the file ends before the range does: it is shorter than it was, or than asked for"
                .to_owned()
        }
        _ => error.to_string(),
    };
    Error::File {
        path: path.display().to_string(),
        offset_bytes,
        problem,
    }
}

impl Engine {
    /// Streams a file to a place in a device buffer, reading and copying side by side; `control`
    /// watches it and may stop it.
    ///
    /// # Errors
    /// [`Error::File`] where it cannot be read, also because it has become shorter,
    /// [`Error::OutOfRange`] where it does not fit, and as
    /// [`upload_part`](Engine::upload_part).
    pub fn upload_file(
        &self,
        from: &FileRange,
        to: &mut DeviceBuffer<u8>,
        at: usize,
        control: &Control,
    ) -> Result<()> {
        let bytes = usize::try_from(from.bytes).unwrap_or(usize::MAX);
        check_range(&(at..at.saturating_add(bytes)), to.len())?;
        let place = Place::new::<u8>(to.block(), self.device(), at)?;
        let lanes: &Lanes = &self.inner.lanes;
        let (_, chunk_bytes) = self.inner.chooser.staged(from.bytes, lanes.slot_bytes());
        let job = Job::new(from.bytes, chunk_bytes, control);
        lanes.upload(&job, &place, &|at, slot| from.read(at, slot))
    }
}
