//! Live blocks one by one, with their age and the stack that asked: only where somebody asked for
//! it, since it costs a lock and, with stacks, microseconds a block.

use super::books::Entry;
use super::report::{MemoryReport, site_text};
use super::trace::Recorder;
use crate::error::Bytes;
use backtrace::Backtrace;
use parking_lot::{Mutex, RwLock};
use pinfold_model::MemoryKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// How much is remembered of each live block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tracking {
    /// Call sites only, with counts and bytes: always on.
    #[default]
    Sites,
    /// Also each live block, with its size and age.
    Blocks,
    /// Also the call stack that asked for it.
    Stacks,
}

impl Tracking {
    const ALL: [Tracking; 3] = [Tracking::Sites, Tracking::Blocks, Tracking::Stacks];
}

/// Blocks that are remembered at a time; those beyond are counted by site only.
const LIVE_MAX: usize = 1 << 20;
/// Locks, so that threads rarely meet at one.
const SHARDS: usize = 16;
/// Frames of a stack that are kept.
const FRAMES_MAX: usize = 48;

/// A block that is in use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveBlock {
    /// The line of code that asked.
    #[serde(serialize_with = "site_text")]
    pub site: &'static Location<'static>,
    /// The kind of memory.
    pub kind: MemoryKind,
    /// Bytes asked for.
    pub bytes: u64,
    /// How long it has been in use.
    pub age_s: f64,
    /// The call stack that asked, innermost first; empty where stacks are not kept.
    pub stack: Vec<String>,
}

impl fmt::Display for LiveBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (site, kind, bytes) = (self.site, self.kind, Bytes(self.bytes));
        write!(f, "  {bytes} {kind} from {site}, {:.3} s ago", self.age_s)?;
        let mut frames = self.stack.iter();
        frames.try_for_each(|frame| write!(f, "\n      {frame}"))
    }
}

/// The table of live blocks.
#[derive(Default)]
pub(crate) struct Live {
    tracking: AtomicU8,
    /// Whether somebody wants to hear of every block: tracked ones, or all for a recording.
    is_watched: AtomicBool,
    recorder: RwLock<Option<Recording>>,
    numbers: AtomicU64,
    shards: [Mutex<BTreeMap<u64, Remembered>>; SHARDS],
}

/// A recording that is on: blocks with numbers up to `after` were taken before it began.
struct Recording {
    recorder: Arc<Recorder>,
    after: u64,
}

struct Remembered {
    entry: Entry,
    since: Instant,
    stack: Option<Box<Backtrace>>,
}

impl Live {
    pub(crate) fn set(&self, tracking: Tracking) {
        self.tracking.store(tracking as u8, Ordering::Relaxed);
        self.watch();
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.recorder.read().is_some()
    }

    /// Records from now on what is taken, and what of that is given back. False where a recording
    /// is on already.
    pub(crate) fn record(&self, recorder: Arc<Recorder>) -> bool {
        {
            let mut now = self.recorder.write();
            if now.is_some() {
                return false;
            }
            let after = self.numbers.load(Ordering::Relaxed);
            *now = Some(Recording { recorder, after });
        }
        self.watch();
        true
    }

    /// Ends a recording, where it is the one that is on.
    pub(crate) fn stop_recording(&self, recorder: &Arc<Recorder>) {
        let stopped = {
            let mut now = self.recorder.write();
            let is_it = |on: &mut Recording| Arc::ptr_eq(&on.recorder, recorder);
            now.take_if(is_it)
        };
        drop(stopped);
        self.watch();
    }

    fn watch(&self) {
        // Alone, so that the last one to look is the last one to say.
        let recorder = self.recorder.write();
        let is_watched = self.tracking() != Tracking::Sites || recorder.is_some();
        self.is_watched.store(is_watched, Ordering::Relaxed);
    }

    pub(crate) fn tracking(&self) -> Tracking {
        let now = usize::from(self.tracking.load(Ordering::Relaxed));
        Tracking::ALL.get(now).copied().unwrap_or_default()
    }

    /// Remembers a block where blocks are tracked: the number to forget it by.
    #[inline]
    pub(crate) fn remember(&self, entry: &Entry) -> Option<NonZeroU64> {
        match self.is_watched.load(Ordering::Relaxed) {
            false => None,
            true => self.enter(entry),
        }
    }

    #[cold]
    fn enter(&self, entry: &Entry) -> Option<NonZeroU64> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(recording) = &*self.recorder.read() {
            recording.recorder.took(number, entry);
        }
        let tracking = self.tracking();
        if tracking == Tracking::Sites {
            return NonZeroU64::new(number);
        }
        let with_stack = tracking == Tracking::Stacks;
        let remembered = Remembered {
            entry: *entry,
            since: Instant::now(),
            stack: with_stack.then(|| Box::new(Backtrace::new_unresolved())),
        };
        let mut shard = self.shard(number).lock();
        if shard.len() < LIVE_MAX / SHARDS {
            shard.insert(number, remembered);
        }
        NonZeroU64::new(number)
    }

    /// The block is not in use any more.
    #[inline]
    pub(crate) fn forget(&self, number: Option<NonZeroU64>) {
        if let Some(number) = number {
            let number = number.get();
            let gone = self.shard(number).lock().remove(&number);
            drop(gone);
            match &*self.recorder.read() {
                Some(recording) if number > recording.after => recording.recorder.gave(number),
                _ => {}
            }
        }
    }

    fn shard(&self, number: u64) -> &Mutex<BTreeMap<u64, Remembered>> {
        &self.shards[number as usize % SHARDS]
    }

    /// The oldest blocks, as many as a report lists, and the number of all others.
    pub(crate) fn blocks(&self) -> (Vec<LiveBlock>, u64) {
        let mut found: Vec<(u64, Entry, Instant, Option<Box<Backtrace>>)> = Vec::new();
        let mut all = 0;
        for shard in &self.shards {
            let shard = shard.lock();
            all += shard.len();
            let oldest = shard.iter().take(MemoryReport::BLOCKS_MAX);
            found.extend(oldest.map(|(n, b)| (*n, b.entry, b.since, b.stack.clone())));
        }
        found.sort_unstable_by_key(|(number, ..)| *number);
        found.truncate(MemoryReport::BLOCKS_MAX);
        let not_listed = (all - found.len()) as u64;
        let block =
            |(_, entry, since, stack): (u64, Entry, Instant, Option<Box<Backtrace>>)| LiveBlock {
                site: entry.site,
                kind: entry.kind,
                bytes: entry.bytes,
                age_s: since.elapsed().as_secs_f64(),
                stack: stack.map_or_else(Vec::new, |stack| names(*stack)),
            };
        (found.into_iter().map(block).collect(), not_listed)
    }
}

/// The frames' names and lines, without the frames of this table.
fn names(mut stack: Backtrace) -> Vec<String> {
    stack.resolve();
    let symbols = stack.frames().iter().flat_map(|frame| frame.symbols());
    let lines = symbols.filter_map(|symbol| {
        let name = format!("{:#}", symbol.name()?);
        Some(match (symbol.filename(), symbol.lineno()) {
            (Some(file), Some(line)) => format!("{name} at {}:{line}", file.display()),
            _ => name,
        })
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        // A stripped program has no names: the addresses still tell, beside one that has.
        let addresses = stack
            .frames()
            .iter()
            .map(|frame| format!("{:p}", frame.ip()));
        return addresses.take(FRAMES_MAX).collect();
    }
    let is_own = |line: &String| line.contains("track::live::") || line.contains("backtrace::");
    (lines.into_iter().skip_while(is_own))
        .take(FRAMES_MAX)
        .collect()
}
