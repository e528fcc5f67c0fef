//! Which way a transfer goes, by the cost model.

use super::EngineOptions;
use crate::device::Device;
use crate::profiles;
use pinfold_model::{Direction, MemoryKind, Profile, cost};
use std::fmt;

/// A way to move ordinary memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// By the driver's own copy.
    Driver,
    /// By the engine's threads.
    Staged,
}

/// How ordinary memory is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// By the driver, which stages it on one thread.
    Driver,
    /// By the device itself: the memory is page-locked already.
    Direct,
    /// By the engine's threads, through page-locked slots.
    Staged {
        /// Threads that may take part.
        threads: u32,
        /// Bytes that go at a time.
        chunk_bytes: u64,
    },
}

impl Path {
    /// True where the engine's threads move it.
    pub fn is_staged(&self) -> bool {
        matches!(self, Path::Staged { .. })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Driver => f.write_str("the driver's own copy"),
            Path::Direct => f.write_str("the device's own copy of page-locked memory"),
            Path::Staged {
                threads,
                chunk_bytes,
            } => write!(
                f,
                "{threads} threads in chunks of {}",
                crate::Bytes(*chunk_bytes)
            ),
        }
    }
}

/// Why a path was taken: the times that the model predicts.
#[derive(Clone, Debug, PartialEq)]
pub struct PathReason {
    /// By the driver.
    pub driver_ns: f64,
    /// By the engine's threads.
    pub staged_ns: f64,
    /// The name of the profile that they come from.
    pub profile: String,
}

impl fmt::Display for PathReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "by profile {} the driver takes {:.0} µs and threads with page-locked slots {:.0} µs",
            self.profile,
            self.driver_ns / 1e3,
            self.staged_ns / 1e3
        )
    }
}

/// Chunks are no smaller than this, so that a copy's start does not matter.
const CHUNK_BYTES_MIN: u64 = 128 << 10;
/// Chunks of a transfer for each thread, where it is long enough: the last ones end together.
const CHUNKS_PER_THREAD: u64 = 4;

/// Decides for one device.
pub(super) struct Chooser {
    profile: Profile,
    way: Option<Way>,
    threads: u32,
}

impl Chooser {
    pub(super) fn new(device: &Device, options: &EngineOptions, threads: u32) -> Self {
        let given = options.profile.clone();
        Chooser {
            profile: given.unwrap_or_else(|| profiles::nearest(device)),
            way: options.way,
            threads,
        }
    }

    pub(super) fn choose(
        &self,
        direction: Direction,
        bytes: u64,
        slot_bytes: u64,
        is_locked: bool,
    ) -> (Path, PathReason) {
        let (staged, chunk_bytes) = self.staged(bytes, slot_bytes);
        let profile = &self.profile;
        let kind = match is_locked {
            true => MemoryKind::Registered,
            false => MemoryKind::Pageable,
        };
        let driver_ns = cost::copy_ns(profile, direction, kind, bytes);
        let staged_ns = cost::staged_ns(profile, direction, self.threads, chunk_bytes, bytes);
        let faster = if staged_ns < driver_ns {
            Way::Staged
        } else {
            Way::Driver
        };
        let path = match self.way.unwrap_or(faster) {
            Way::Staged => staged,
            Way::Driver if is_locked => Path::Direct,
            Way::Driver => Path::Driver,
        };
        let reason = PathReason {
            driver_ns,
            staged_ns,
            profile: profile.name.clone(),
        };
        (path, reason)
    }
}

impl Chooser {
    pub(super) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The path by threads, and the bytes of its chunks.
    pub(super) fn staged(&self, bytes: u64, slot_bytes: u64) -> (Path, u64) {
        let chunk_bytes = chunk_bytes(bytes, self.threads, slot_bytes);
        let path = Path::Staged {
            threads: self.threads,
            chunk_bytes,
        };
        (path, chunk_bytes)
    }
}

/// A few chunks for each thread, whole pages, and no more than a slot holds.
fn chunk_bytes(bytes: u64, threads: u32, slot_bytes: u64) -> u64 {
    let each = bytes / (u64::from(threads.max(1)) * CHUNKS_PER_THREAD);
    each.next_multiple_of(pinfold_pool::PAGE_BYTES)
        .clamp(CHUNK_BYTES_MIN.min(slot_bytes), slot_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_goes_by_the_driver_and_much_by_threads() {
        let chooser = Chooser {
            profile: Profile::h200(),
            way: None,
            threads: 8,
        };
        let to_device = Direction::ToDevice;
        let path = |bytes| chooser.choose(to_device, bytes, 2 << 20, false).0;
        let locked = chooser.choose(to_device, 1 << 30, 2 << 20, true).0;
        assert_eq!(locked, Path::Direct);
        assert_eq!(path(4096), Path::Driver);
        assert_eq!(
            path(1 << 30),
            Path::Staged {
                threads: 8,
                chunk_bytes: 2 << 20
            }
        );
    }

    #[test]
    fn chunks_are_whole_pages_within_a_slot() {
        for bytes in [1, 5000, 1 << 20, 3 << 20, 1 << 40] {
            let chunk = chunk_bytes(bytes, 8, 2 << 20);
            assert!(chunk.is_multiple_of(4096) && (128 << 10..=2 << 20).contains(&chunk));
        }
        assert_eq!(chunk_bytes(1 << 30, 8, 64 << 10), 64 << 10);
    }
}
