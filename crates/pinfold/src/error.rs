//! What can go wrong, and what to do about it.

use crate::memory::LadderStep;
use crate::memory::source::Refusal;
use pinfold_hal::DriverError;
use pinfold_model::MemoryKind;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::time::Duration;

/// What operations of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that says what to do.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No real device can be used, and one was asked for.
    #[error("{reason}; use `--device sim` (in code: `Platform::simulated`) to run without a GPU")]
    NoCuda {
        /// What the loader found.
        reason: String,
    },
    /// A device that does not exist.
    #[error("there is no device {index}: this machine has {count}; `pinfold probe` lists them")]
    UnknownDevice {
        /// The number asked for.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// A choice of device that cannot be read.
    #[error(
        "`{text}` names no device; use `auto`, `cuda:N`, `sim`, `sim:PROFILE` ({profiles}) or \
         `sim:FILE` with a profile's file"
    )]
    BadDeviceChoice {
        /// What was given.
        text: String,
        /// The profiles there are.
        profiles: String,
    },
    /// A file that was to be a machine's profile.
    #[error(
        "{file} is no profile that can be used: {problem}; `pinfold bench machine --profile FILE` \
         writes one"
    )]
    BadProfile {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Page-locked (or other host) memory could not be had.
    #[error("{0}")]
    HostMemory(Box<HostMemoryError>),
    /// A pool may not take more.
    #[error("{problem}; ask for less, free some, or raise the pool's budget")]
    PoolFull {
        /// What stands in the way.
        problem: String,
    },
    /// A reservation in the background that ended before all of it was there.
    #[error(
        "the reservation ended with {} of {} page-locked: {why}; ask for the rest again",
        Bytes(*ready_bytes), Bytes(*total_bytes)
    )]
    ReservationEnded {
        /// What is there, and stays in the pool.
        ready_bytes: u64,
        /// What was asked for.
        total_bytes: u64,
        /// What ended it.
        why: &'static str,
    },
    /// Device memory could not be had.
    #[error(
        "{device} has no room for {} of device memory ({} of {} free), asked for at {site}; free \
         device buffers, or keep the data in host memory", Bytes(*bytes), Bytes(*free_bytes),
        Bytes(*total_bytes)
    )]
    DeviceMemory {
        /// The device's name.
        device: String,
        /// What was asked for.
        bytes: u64,
        /// What was free.
        free_bytes: u64,
        /// What the device has.
        total_bytes: u64,
        /// Who asked.
        site: &'static Location<'static>,
    },
    /// A kind of memory that was asked for by name and cannot serve the use.
    #[error(
        "{kind} memory cannot serve {usage:?}: write-combined memory must not be read by the host, \
         and kernels reach only mapped memory"
    )]
    KindNotAllowed {
        /// The kind asked for.
        kind: MemoryKind,
        /// The use.
        usage: crate::memory::Use,
    },
    /// A size that no address space holds.
    #[error(
        "{elements} elements of {element_bytes} bytes are more than {} can be",
        Bytes(*limit_bytes)
    )]
    TooLarge {
        /// Number of elements.
        elements: usize,
        /// Size of one.
        element_bytes: usize,
        /// The largest allocation that is allowed.
        limit_bytes: u64,
    },
    /// Two sides of a copy, or the arguments of a kernel, do not fit together.
    #[error("{what}: {got} elements where {want} are needed")]
    Length {
        /// Which argument.
        what: &'static str,
        /// What is there.
        got: usize,
        /// What is needed.
        want: usize,
    },
    /// A range that leaves its buffer.
    #[error("elements {start}..{end} lie outside a buffer of {len}")]
    OutOfRange {
        /// First element.
        start: usize,
        /// One past the last element.
        end: usize,
        /// The buffer's length.
        len: usize,
    },
    /// A list of rows that names one which the table does not have.
    #[error("place {at} of the list names row {row} of a table with {rows} rows")]
    NoSuchRow {
        /// The place in the list.
        at: usize,
        /// What it names.
        row: u64,
        /// Rows of the table.
        rows: usize,
    },
    /// A buffer that the device at hand cannot reach.
    #[error(
        "{kind} memory from {site} is not within reach of device {device}: make its `Memory` with \
         `Memory::for_devices` and name that device"
    )]
    WrongDevice {
        /// The buffer's kind.
        kind: MemoryKind,
        /// The device.
        device: u32,
        /// Where the buffer was allocated.
        site: &'static Location<'static>,
    },
    /// Host memory that kernels cannot reach.
    #[error(
        "{kind} memory from {site} is not mapped for kernels: make the buffer with \
         `upload_in_place` or `zero_copy`"
    )]
    NotMapped {
        /// The buffer's kind.
        kind: MemoryKind,
        /// Where the buffer was allocated.
        site: &'static Location<'static>,
    },
    /// A value that was overwritten before anybody read it, or is of another cell.
    #[error("{problem}; wait for each launch's scalars before the next launch into the same cell")]
    Scalar {
        /// What happened.
        problem: String,
    },
    /// Host memory that is page-locked already.
    #[error(
        "host memory {start:#x}..{end:#x} is page-locked already, by {owner}; use that buffer, or \
         drop it first{}",
        free_hint(free)
    )]
    AlreadyRegistered {
        /// Start of the range asked for.
        start: usize,
        /// Its end.
        end: usize,
        /// The first owner of an overlapping range.
        owner: String,
        /// The parts that no buffer has, in order, where there are any.
        free: Vec<Range<usize>>,
    },
    /// Host memory that is mapped for reading only, on a device that cannot page-lock such memory.
    #[error(
        "{device} cannot page-lock memory that may be mapped for reading only; map a file \
         privately for writing (`MmapOptions::map_copy`), or copy the data into an upload buffer"
    )]
    ReadOnly {
        /// The device's name.
        device: String,
    },
    /// A wait on an event that was never recorded: the driver would not wait at all.
    #[error(
        "the event was never recorded, so a wait for it would wait for nothing; record it on the \
         stream that does the work, before the wait"
    )]
    EventNotRecorded,
    /// An operation between a stream or event of one device and one of another.
    #[error("{what} belongs to device {got}, not to device {want}")]
    DeviceMismatch {
        /// Which object.
        what: &'static str,
        /// Its device.
        got: u32,
        /// The device of the operation.
        want: u32,
    },
    /// A wait that took longer than allowed.
    #[error("{what} did not finish within {limit:?}: {diagnosis}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The limit.
        limit: Duration,
        /// What the stream looked like.
        diagnosis: String,
    },
    /// A transfer that was stopped before it was done.
    #[error(
        "the transfer was cancelled after {} of {}", Bytes(*done_bytes), Bytes(*total_bytes)
    )]
    Cancelled {
        /// Bytes that had arrived.
        done_bytes: u64,
        /// Bytes in all.
        total_bytes: u64,
    },
    /// Threads that cannot be had, or cannot work.
    #[error(
        "{count} threads to move data with: {problem}; ask for fewer in `EngineOptions`, or raise \
         the limit of threads (`ulimit -u`, the control group's `pids.max`)"
    )]
    Threads {
        /// How many were wanted.
        count: usize,
        /// What is in the way.
        problem: String,
    },
    /// A file that cannot be streamed.
    #[error("{path}: {problem} at byte {offset_bytes}")]
    File {
        /// The file.
        path: String,
        /// Where in it.
        offset_bytes: u64,
        /// What the system says.
        problem: String,
    },
    /// A kernel launch that cannot be.
    #[error("kernel `{kernel}`: {problem}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// What is wrong with the launch.
        problem: String,
    },
    /// A sparse matrix whose parts do not fit together.
    #[error("not a sparse matrix: {problem}")]
    Matrix {
        /// What is wrong with it.
        problem: String,
    },
    /// Something that would break a capture, refused before it could.
    #[error(
        "{doing} is not possible while this thread captures a graph; do it before or after the \
         capture (page-locked memory that `reserve` has set aside can be had meanwhile)"
    )]
    Capturing {
        /// What was to be done.
        doing: &'static str,
    },
    /// A buffer that a graph may use at any time.
    #[error(
        "memory from {site} is in a graph, which may be launched at any time: return its handle \
         from the closure and use `Graph::host` or `Graph::into_kept`, or drop the graph first"
    )]
    InGraph {
        /// Where the buffer was allocated.
        site: &'static Location<'static>,
    },
    /// Memory that is borrowed, so that no graph can keep it.
    #[error(
        "memory from {site} is borrowed for a while, and a graph could outlive that: make the \
         buffer with `register` instead"
    )]
    Borrowed {
        /// Where the memory was page-locked.
        site: &'static Location<'static>,
    },
    /// The driver refused.
    #[error("{doing}: {source}{}", sticky_hint(source))]
    Driver {
        /// What pinfold was doing.
        doing: &'static str,
        /// The driver's answer.
        source: DriverError,
    },
}

fn free_hint(free: &[Range<usize>]) -> String {
    if free.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = free
        .iter()
        .map(|part| format!("{:#x}..{:#x}", part.start, part.end))
        .collect();
    format!("; free of it: {}", parts.join(", "))
}

fn sticky_hint(error: &DriverError) -> &'static str {
    if error.code.is_sticky() {
        "; the device's context is lost: end this process and start it again"
    } else {
        ""
    }
}

/// Host memory that could not be had: what was asked, what was tried, what the limit is.
#[derive(Debug, Clone)]
pub struct HostMemoryError {
    /// Bytes asked for.
    pub bytes: u64,
    /// The kind that was wanted.
    pub wanted: MemoryKind,
    /// What was tried, in order, and how it failed.
    pub tried: Vec<LadderStep>,
    /// True where `strict` kept the ladder from going on.
    pub strict: bool,
    /// Which limit is the likely one, and its value.
    pub limit: String,
    /// Who asked.
    pub site: &'static Location<'static>,
}

impl fmt::Display for HostMemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no {} of {} host memory for {} (this is host memory, not GPU memory)",
            Bytes(self.bytes),
            self.wanted,
            self.site
        )?;
        for step in &self.tried {
            write!(f, "; tried {}: {}", step.tried, step.problem)?;
        }
        write!(f, "; {}", self.limit)?;
        if self.strict {
            f.write_str("; `strict` forbids a slower kind: without it pinfold would step down")?;
        }
        Ok(())
    }
}

impl std::error::Error for HostMemoryError {}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Pool(problem) => Error::PoolFull { problem },
            Refusal::Driver(error) => Error::driver("getting page-locked memory")(error),
            Refusal::Capturing => Error::Capturing {
                doing: "getting more page-locked memory",
            },
        }
    }
}

/// # Errors
/// [`Error::Length`] where the two differ.
pub(crate) fn same_length(what: &'static str, got: usize, want: usize) -> Result<()> {
    match got == want {
        true => Ok(()),
        false => Err(Error::Length { what, got, want }),
    }
}

impl Error {
    /// A driver error with what was being done.
    pub(crate) fn driver(doing: &'static str) -> impl FnOnce(DriverError) -> Error {
        move |source| Error::Driver { doing, source }
    }

    /// True where the device's context is lost, so that the device no longer touches memory.
    pub(crate) fn device_is_lost(&self) -> bool {
        self.driver_error()
            .is_some_and(|error| error.code.is_sticky())
    }

    /// The driver's answer, where there is one.
    pub fn driver_error(&self) -> Option<&DriverError> {
        match self {
            Error::Driver { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// An operation that was refused, with the buffer that had been handed over. Nothing was enqueued.
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct Refused<B> {
    /// Why.
    #[source]
    pub error: Box<Error>,
    /// The buffer, as it was.
    pub buffer: B,
}

impl<B> fmt::Debug for Refused<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<B> Refused<B> {
    pub(crate) fn new(error: Error, buffer: B) -> Self {
        Refused {
            error: Box::new(error),
            buffer,
        }
    }
}

impl<B> From<Refused<B>> for Error {
    fn from(refused: Refused<B>) -> Self {
        *refused.error
    }
}

/// A number of bytes for people: `4.0 KiB`, `1.5 GiB`.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1023.95 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_readable() {
        let shown: Vec<String> = [0, 1023, 1024, 1536, 1 << 20, 3 << 30]
            .map(|b| Bytes(b).to_string())
            .to_vec();
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "3.0 GiB"]
        );
        assert_eq!(Bytes(u64::MAX).to_string(), "16.0 EiB");
    }
}
