//! Traces of allocation: what a program took and gave back, in order, as a file that can be
//! replayed on any machine.
//!
//! A trace is text. Its first line names the format; then each line is a block taken or given back:
//!
//! ```text
//! pinfold-trace 1
//! + 1200 1 0 4096 page-locked src/app.rs:41:9     nanoseconds, block, thread, bytes, kind, site
//! - 5300 1 0                                      nanoseconds, block, thread
//! ```

use super::books::Entry;
use crate::error::{Error, Result};
use crate::memory::Memory;
use parking_lot::Mutex;
use pinfold_model::MemoryKind;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The first line.
const HEADER: &str = "pinfold-trace 1";
/// Most events of a trace; a recording stops there.
pub const EVENTS_MAX: u64 = 100_000_000;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A block was taken.
    Take {
        /// Since the recording began.
        at_ns: u64,
        /// Its number, which no other block of the trace has.
        block: u64,
        /// The thread, numbered in the order of their first events.
        thread: u32,
        /// Bytes asked for.
        bytes: u64,
        /// The kind that was had.
        kind: MemoryKind,
        /// The line of code that asked.
        site: String,
    },
    /// A block was given up by the program.
    Give {
        /// Since the recording began.
        at_ns: u64,
        /// Its number.
        block: u64,
        /// The thread.
        thread: u32,
    },
}

/// A trace that is being recorded. Ends when dropped.
pub(crate) struct Recorder {
    began: Instant,
    path: PathBuf,
    events: AtomicU64,
    out: Mutex<Out>,
}

struct Out {
    to: BufWriter<File>,
    problem: Option<std::io::Error>,
}

impl Recorder {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let created = File::create(path).map(BufWriter::new).and_then(|mut to| {
            writeln!(to, "{HEADER}")?;
            Ok(to)
        });
        match created {
            Ok(to) => Ok(Recorder {
                began: Instant::now(),
                path: path.to_owned(),
                events: AtomicU64::new(0),
                out: Mutex::new(Out { to, problem: None }),
            }),
            Err(error) => Err(file_error(path, 0, &error)),
        }
    }

    pub(super) fn took(&self, block: u64, entry: &Entry) {
        let (bytes, kind, site) = (entry.bytes, word(entry.kind), entry.site);
        self.write(|out, at_ns| {
            let thread = thread_number();
            writeln!(out, "+ {at_ns} {block} {thread} {bytes} {kind} {site}")
        });
    }

    pub(super) fn gave(&self, block: u64) {
        self.write(|out, at_ns| writeln!(out, "- {at_ns} {block} {}", thread_number()));
    }

    fn write(&self, event: impl FnOnce(&mut BufWriter<File>, u64) -> std::io::Result<()>) {
        if self.events.fetch_add(1, Ordering::Relaxed) >= EVENTS_MAX {
            return;
        }
        let mut out = self.out.lock();
        // Read under the lock, so that times ascend.
        let at_ns = self.began.elapsed().as_nanos() as u64;
        if out.problem.is_none() {
            out.problem = event(&mut out.to, at_ns).err();
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`Error::File`] where something could not be written.
    pub(crate) fn finish(&self) -> Result<u64> {
        let mut out = self.out.lock();
        let problem = out.problem.take().or_else(|| out.to.flush().err());
        let events = self.events.load(Ordering::Relaxed).min(EVENTS_MAX);
        match problem {
            None => Ok(events),
            Some(error) => Err(file_error(&self.path, 0, &error)),
        }
    }
}

/// A recording that is on. It ends when it is dropped, or by [`finish`](Self::finish).
#[must_use = "the recording ends when this is dropped"]
pub struct TraceRecording {
    memory: Memory,
    recorder: Arc<Recorder>,
}

impl TraceRecording {
    /// Ends the recording: the number of events.
    ///
    /// # Errors
    /// [`Error::File`] where something could not be written.
    pub fn finish(self) -> Result<u64> {
        self.memory.stop_recording(&self.recorder);
        self.recorder.finish()
    }
}

impl Drop for TraceRecording {
    fn drop(&mut self) {
        self.memory.stop_recording(&self.recorder);
        // Who wants to hear of a full disk calls `finish`.
        let _ = self.recorder.finish();
    }
}

impl fmt::Debug for TraceRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceRecording")
            .field("path", &self.recorder.path)
            .finish_non_exhaustive()
    }
}

impl Memory {
    /// Records to a file what is taken from this memory from now on, and what of that is given up.
    /// `pinfold bench replay` replays it.
    ///
    /// # Errors
    /// [`Error::File`] where the file cannot be made, or another recording is on.
    pub fn record_trace(&self, path: impl AsRef<Path>) -> Result<TraceRecording> {
        let path = path.as_ref();
        if self.is_recorded() {
            return Err(file_error(
                path,
                0,
                &"another recording of this memory is on",
            ));
        }
        let recorder = Arc::new(Recorder::create(path)?);
        if !self.start_recording(recorder.clone()) {
            return Err(file_error(
                path,
                0,
                &"another recording of this memory is on",
            ));
        }
        Ok(TraceRecording {
            memory: self.clone(),
            recorder,
        })
    }
}

/// Numbers threads in the order in which they first ask.
fn thread_number() -> u32 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static MINE: u32 = THREADS.fetch_add(1, Ordering::Relaxed) as u32;
    }
    MINE.try_with(|mine| *mine).unwrap_or(u32::MAX)
}

/// The kind in one word.
fn word(kind: MemoryKind) -> String {
    kind.to_string().replace(' ', "-")
}

fn file_error(path: &Path, offset_bytes: u64, error: &dyn std::fmt::Display) -> Error {
    Error::File {
        path: path.display().to_string(),
        offset_bytes,
        problem: error.to_string(),
    }
}

/// Reads a trace.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, is no trace, has a line that cannot be
/// understood, or gives back what was not taken; it names the line.
pub fn read_trace(path: &Path) -> Result<Vec<TraceEvent>> {
    let file = File::open(path).map_err(|error| file_error(path, 0, &error))?;
    let mut offset_bytes = 0;
    let mut events = Vec::new();
    let mut live = std::collections::HashSet::new();
    let lines = std::io::BufReader::new(file).lines();
    for (number, line) in (1u64..).zip(lines) {
        let problem =
            |what: &str| file_error(path, offset_bytes, &format!("line {number}: {what}"));
        let line = line.map_err(|error| problem(&error.to_string()))?;
        if number == 1 {
            if line != HEADER {
                return Err(problem(&format!("not a trace: it begins with `{HEADER}`")));
            }
        } else {
            let event = parse(&line).ok_or_else(|| {
                problem("neither `+ ns block thread bytes kind site` nor `- ns block thread`")
            })?;
            let fits = match &event {
                TraceEvent::Take { block, .. } => live.insert(*block),
                TraceEvent::Give { block, .. } => live.remove(block),
            };
            if !fits {
                return Err(problem(
                    "a block taken twice, or given back without being taken",
                ));
            }
            if events.len() as u64 >= EVENTS_MAX {
                return Err(problem("too many events"));
            }
            events.push(event);
        }
        offset_bytes += line.len() as u64 + 1;
    }
    match offset_bytes {
        0 => Err(file_error(path, 0, &"the file is empty")),
        _ => Ok(events),
    }
}

fn parse(line: &str) -> Option<TraceEvent> {
    let mut words = line.split(' ');
    let sign = words.next()?;
    let mut next = || words.next()?.parse().ok();
    let (at_ns, block, thread): (u64, u64, u64) = (next()?, next()?, next()?);
    let thread = u32::try_from(thread).ok()?;
    let event = match sign {
        "+" => {
            let bytes = next()?;
            let kind = words.next()?;
            let kind = MemoryKind::ALL.into_iter().find(|k| word(*k) == kind)?;
            let site = words.collect::<Vec<_>>().join(" ");
            return (!site.is_empty()).then_some(TraceEvent::Take {
                at_ns,
                block,
                thread,
                bytes,
                kind,
                site,
            });
        }
        "-" => TraceEvent::Give {
            at_ns,
            block,
            thread,
        },
        _ => return None,
    };
    words.next().is_none().then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_or_refused() {
        assert_eq!(
            parse("+ 12 1 0 4096 mapped-write-combined src/my app.rs:4:9"),
            Some(TraceEvent::Take {
                at_ns: 12,
                block: 1,
                thread: 0,
                bytes: 4096,
                kind: MemoryKind::MappedWriteCombined,
                site: "src/my app.rs:4:9".into()
            })
        );
        let give = TraceEvent::Give {
            at_ns: 5,
            block: 7,
            thread: 2,
        };
        assert_eq!(parse("- 5 7 2"), Some(give));
        for line in [
            "",
            "+",
            "- 5 7",
            "- 5 7 2 9",
            "+ 1 2 3 -4 mapped x",
            "+ 1 2 3 4 odd x",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
