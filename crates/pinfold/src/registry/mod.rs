//! Which ranges of host memory this process has page-locked through one backend, and for whom.
//!
//! A range is registered with the driver once, however many buffers lie inside of it: each has a
//! [`Claim`], and the last one that needs the range page-locked unregisters it. Ranges that overlap
//! in part are refused, and the error names who was first. What other code has page-locked already
//! is borrowed: used as it is, and never unregistered.
//!
//! The driver is called under no lock: a range that is being changed is marked so, and whoever
//! needs it waits, for a bounded time.

mod slices;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use pinfold_hal::{DriverError, ErrorCode};
use slices::Slices;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a thread waits for another one's driver call. Page-locking 64 GiB takes half of it.
const TURN_LIMIT: Duration = Duration::from_secs(60);
/// So many free parts of a refused range are told at most.
const FREE_PARTS_MAX: usize = 8;

/// How ranges are page-locked. Called under no lock.
pub(crate) trait PageLocker: Send + Sync {
    /// Registers a range of the caller's, which is valid until it is unregistered.
    fn lock(&self, range: &Range<usize>, read_only: bool) -> Result<(), DriverError>;

    /// Unregisters a range that this registered, and that no device uses.
    fn unlock(&self, start: usize) -> Result<(), DriverError>;

    /// True where every device sees the first and the last byte of a range, as far apart as they
    /// are here.
    fn reaches(&self, range: &Range<usize>) -> bool;
}

/// A range that somebody wants page-locked.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The range, not empty.
    pub(crate) range: Range<usize>,
    /// Whether it is mapped for reading only.
    pub(crate) read_only: bool,
    /// Whether devices may write it.
    pub(crate) writable: bool,
    /// Who asks.
    pub(crate) site: &'static Location<'static>,
}

/// A share in a range of the registry. To be given back by [`Registry::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Where the range begins, which may be before what was wanted.
    start: usize,
    /// What the claim found.
    pub(crate) found: Found,
}

/// What a claim found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing: the range was registered for it.
    New,
    /// A registration that it shares.
    Shared,
    /// A registration of other code.
    Borrowed,
}

/// Ranges by start address. They never overlap; two of them may share a page, as the driver allows.
#[derive(Default)]
pub(crate) struct Registry {
    ranges: Mutex<Ranges>,
    /// Told whenever a change is over.
    changed: Condvar,
    /// What the driver copies beside all buffers.
    pub(crate) slices: Slices,
}

type Ranges = BTreeMap<usize, Entry>;

struct Entry {
    end: usize,
    read_only: bool,
    /// Who was first.
    site: &'static Location<'static>,
    /// Claims, and those of them that need the range page-locked at the moment.
    claims: u32,
    locked: u32,
    state: State,
}

enum State {
    /// Being registered or unregistered.
    Changing,
    Locked(Arc<dyn PageLocker>),
    /// Page-locked by other code.
    Borrowed,
    /// Ordinary memory, as long as no claim needs more.
    Unlocked,
    /// The driver did not let go of it: page-locked for ever.
    Stuck,
}

/// How a range stands to those that are known.
enum Place {
    Free,
    /// Inside of the one that starts there.
    Inside(usize),
    /// It overlaps one that is being changed.
    Changing,
    Overlapping,
}

impl Registry {
    /// Has a range page-locked: shares a registration that it lies in, else makes one, else borrows
    /// one of other code.
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`] where the range overlaps another one in part, or devices may
    /// only read that, or other code has page-locked a part of it; [`Error::Timeout`];
    /// [`Error::Driver`].
    pub(crate) fn enter(&self, wanted: &Wanted, locker: &Arc<dyn PageLocker>) -> Result<Claim> {
        let mut ranges = self.ranges.lock();
        let end = Instant::now() + TURN_LIMIT;
        let start = loop {
            match place(&ranges, &wanted.range) {
                Place::Free => {
                    ranges.insert(wanted.range.start, Entry::new(wanted));
                    break wanted.range.start;
                }
                Place::Inside(start) => break start,
                Place::Changing => self.wait(&mut ranges, end)?,
                Place::Overlapping => return Err(refused(&ranges, &wanted.range)),
            }
        };
        let refuse = |ranges: &Ranges| Err(refused(ranges, &wanted.range));
        let Some(entry) = ranges.get_mut(&start) else {
            return refuse(&ranges);
        };
        // Of memory that the driver keeps for ever nobody knows what it is behind the addresses
        // now.
        if entry.read_only && wanted.writable || matches!(entry.state, State::Stuck) {
            return refuse(&ranges);
        }
        entry.claims += 1;
        let found = match entry.claims {
            1 => Found::New,
            _ => Found::Shared,
        };
        let claim = Claim { start, found };
        if let Err(error) = self.lock_entry(ranges, start, locker) {
            self.drop_claim(start);
            return Err(explain(error, &wanted.range));
        }
        Ok(match self.is_borrowed(start) {
            true => Claim {
                found: Found::Borrowed,
                ..claim
            },
            false => claim,
        })
    }

    /// Gives a claim back. The last one that needs the range page-locked unregisters it.
    ///
    /// # Errors
    /// Where the driver does not let go of the range, which then stays as it is for ever;
    /// [`Error::Timeout`].
    pub(crate) fn leave(&self, claim: Claim, is_locked: bool) -> Result<()> {
        if is_locked {
            let unlocked = self.release_lock(claim);
            self.drop_claim(claim.start);
            return unlocked;
        }
        let mut ranges = self.ranges.lock();
        let end = Instant::now() + TURN_LIMIT;
        while is_changing(&ranges, claim.start) {
            self.wait(&mut ranges, end)?;
        }
        drop(ranges);
        self.drop_claim(claim.start);
        Ok(())
    }

    /// Says that a claim that stays needs the range page-locked no more.
    ///
    /// # Errors
    /// Where the driver does not let go of the range, which then stays as it is for ever.
    pub(crate) fn release_lock(&self, claim: Claim) -> Result<()> {
        let unlocked = self.unlock_entry(claim.start, true);
        let doing = "unlocking memory that was page-locked in place";
        unlocked.map(drop).map_err(Error::driver(doing))
    }

    /// Makes the range ordinary memory, where this claim is the only one that needs it page-locked.
    /// The claim stays, and needs it so no more. False where everything stays as it was.
    pub(crate) fn unlock(&self, claim: Claim) -> bool {
        self.unlock_entry(claim.start, false).unwrap_or(false)
    }

    /// Page-locks the range of a claim again that [`unlock`](Self::unlock) made ordinary memory.
    ///
    /// # Errors
    /// As [`enter`](Self::enter); the range stays ordinary memory.
    pub(crate) fn lock_again(&self, claim: Claim, locker: &Arc<dyn PageLocker>) -> Result<()> {
        let mut ranges = self.ranges.lock();
        let end = Instant::now() + TURN_LIMIT;
        while is_changing(&ranges, claim.start) {
            self.wait(&mut ranges, end)?;
        }
        let range = claim.start..ranges.get(&claim.start).map_or(claim.start, |e| e.end);
        self.lock_entry(ranges, claim.start, locker)
            .map_err(|error| explain(error, &range))
    }

    /// Where registrations begin or end within a range: no copy may cross such a place.
    pub(crate) fn edges(&self, range: &Range<usize>) -> SmallVec<[usize; 4]> {
        let ranges = self.ranges.lock();
        let touching = overlapping(&ranges, range).flat_map(|(start, entry)| [*start, entry.end]);
        let inside = touching.filter(|edge| range.start < *edge && *edge < range.end);
        let mut edges: SmallVec<[usize; 4]> = inside.collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// True where all of a range is page-locked through this registry at the moment.
    pub(crate) fn is_locked(&self, range: &Range<usize>) -> bool {
        let ranges = self.ranges.lock();
        let before = ranges.range(..=range.start).next_back();
        before.is_some_and(|(_, entry)| {
            let is_locked = matches!(entry.state, State::Locked(_) | State::Borrowed);
            is_locked && range.end <= entry.end
        })
    }

    /// Counts one claim more that needs an entry page-locked, and has it so. The entry is not being
    /// changed.
    fn lock_entry(
        &self,
        mut ranges: MutexGuard<'_, Ranges>,
        start: usize,
        locker: &Arc<dyn PageLocker>,
    ) -> Result<(), DriverError> {
        let Some(entry) = ranges.get_mut(&start) else {
            return Ok(());
        };
        let (range, read_only) = (start..entry.end, entry.read_only);
        entry.locked += 1;
        if !matches!(entry.state, State::Unlocked) {
            return Ok(());
        }
        entry.state = State::Changing;
        drop(ranges);
        let outcome = locker.lock(&range, read_only);
        let is_known = |e: &DriverError| e.code == ErrorCode::HostMemoryAlreadyRegistered;
        let (state, outcome) = match outcome {
            Ok(()) => (State::Locked(locker.clone()), Ok(())),
            Err(e) if is_known(&e) && locker.reaches(&range) => (State::Borrowed, Ok(())),
            Err(error) => (State::Unlocked, Err(error)),
        };
        let is_locked = outcome.is_ok();
        self.change_over(start, state, |entry| {
            entry.locked -= u32::from(!is_locked);
        });
        outcome
    }

    /// Counts one claim less that needs an entry page-locked, and unregisters it with the last one.
    /// Where it `must`, what the driver does not let go of is stuck; else nothing changes. True
    /// where the claim needs it no more.
    fn unlock_entry(&self, start: usize, must: bool) -> Result<bool, DriverError> {
        let (locker, range) = {
            let mut ranges = self.ranges.lock();
            let Some(entry) = ranges.get_mut(&start) else {
                return Ok(false);
            };
            let State::Locked(locker) = &entry.state else {
                entry.locked -= u32::from(must);
                return Ok(must);
            };
            if entry.locked > 1 {
                entry.locked -= u32::from(must);
                return Ok(must);
            }
            let locker = locker.clone();
            let range = start..entry.end;
            entry.state = State::Changing;
            (locker, range)
        };
        // Copies of slices that lie in it are no uses of any buffer.
        let Some(_hold) = self.slices.until_not_copied(&range, must) else {
            self.change_over(start, State::Locked(locker), |_| ());
            return Ok(false);
        };
        let outcome = locker.unlock(start);
        let state = match &outcome {
            Ok(()) => State::Unlocked,
            Err(_) if must => State::Stuck,
            Err(_) => State::Locked(locker),
        };
        let needs_no_more = outcome.is_ok() || must;
        self.change_over(start, state, |entry| {
            entry.locked -= u32::from(needs_no_more);
        });
        outcome.map(|()| true)
    }

    /// Ends a change. The state before, which may hold the last handle of a device, is dropped
    /// behind the lock.
    fn change_over(&self, start: usize, state: State, count: impl FnOnce(&mut Entry)) {
        let mut ranges = self.ranges.lock();
        let before = ranges.get_mut(&start).map(|entry| {
            count(entry);
            std::mem::replace(&mut entry.state, state)
        });
        drop(ranges);
        self.changed.notify_all();
        drop(before);
    }

    /// Takes a claim away, and with the last one the entry, unless it is stuck.
    fn drop_claim(&self, start: usize) {
        let mut ranges = self.ranges.lock();
        let Some(entry) = ranges.get_mut(&start) else {
            return;
        };
        entry.claims -= 1;
        let is_over = entry.claims == 0 && !matches!(entry.state, State::Stuck);
        let gone = is_over.then(|| ranges.remove(&start));
        drop(ranges);
        drop(gone);
    }

    fn is_borrowed(&self, start: usize) -> bool {
        let ranges = self.ranges.lock();
        let entry = ranges.get(&start);
        entry.is_some_and(|entry| matches!(entry.state, State::Borrowed))
    }

    fn wait(&self, ranges: &mut MutexGuard<'_, Ranges>, end: Instant) -> Result<()> {
        if self.changed.wait_until(ranges, end).timed_out() {
            return Err(Error::Timeout {
                what: "page-locking of the same memory by another thread",
                limit: TURN_LIMIT,
                diagnosis: "the driver does not answer that thread's call".to_owned(),
            });
        }
        Ok(())
    }
}

impl Entry {
    /// Ordinary memory that nobody has claimed yet.
    fn new(wanted: &Wanted) -> Self {
        Entry {
            end: wanted.range.end,
            read_only: wanted.read_only,
            site: wanted.site,
            claims: 0,
            locked: 0,
            state: State::Unlocked,
        }
    }
}

/// Entries that have a byte in common with a range, the last one first.
fn overlapping<'r>(
    ranges: &'r Ranges,
    range: &Range<usize>,
) -> impl Iterator<Item = (&'r usize, &'r Entry)> {
    let start = range.start;
    let before_end = ranges.range(..range.end).rev();
    before_end.take_while(move |(_, entry)| entry.end > start)
}

fn place(ranges: &Ranges, range: &Range<usize>) -> Place {
    let mut is_free = true;
    for (start, entry) in overlapping(ranges, range) {
        if matches!(entry.state, State::Changing) {
            return Place::Changing;
        }
        if *start <= range.start && range.end <= entry.end {
            return Place::Inside(*start);
        }
        is_free = false;
    }
    match is_free {
        true => Place::Free,
        false => Place::Overlapping,
    }
}

fn is_changing(ranges: &Ranges, start: usize) -> bool {
    let entry = ranges.get(&start);
    entry.is_some_and(|entry| matches!(entry.state, State::Changing))
}

/// Names the first owner of what is in the way, and what of the range is free.
fn refused(ranges: &Ranges, range: &Range<usize>) -> Error {
    let mut owner = String::new();
    let mut free = Vec::new();
    let mut end = range.end;
    for (start, entry) in overlapping(ranges, range) {
        let how = match entry.state {
            State::Borrowed => ", page-locked by other code",
            State::Stuck => ", of which the driver did not let go",
            _ if entry.read_only => ", for devices to read only",
            _ => "",
        };
        let (site, its_end) = (entry.site, entry.end);
        owner = format!("the buffer registered at {site} ({start:#x}..{its_end:#x}{how})");
        if entry.end < end {
            free.push(entry.end..end);
        }
        end = (*start).max(range.start);
    }
    if range.start < end {
        free.push(range.start..end);
    }
    free.reverse();
    free.truncate(FREE_PARTS_MAX);
    Error::AlreadyRegistered {
        start: range.start,
        end: range.end,
        owner,
        free,
    }
}

fn explain(error: DriverError, range: &Range<usize>) -> Error {
    if error.code == ErrorCode::HostMemoryAlreadyRegistered {
        return Error::AlreadyRegistered {
            start: range.start,
            end: range.end,
            owner: "other code of this process, or another platform, in part".to_owned(),
            free: Vec::new(),
        };
    }
    Error::driver("page-locking memory in place")(error)
}
