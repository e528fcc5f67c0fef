//! What was taken and given back, by call site and kind of memory.
//!
//! Each thread writes records of its own, with plain stores, so that counting costs no shared
//! cache line; a sum over all threads is exact whenever no other thread takes or gives back. Only
//! the peaks by kind need a number that all threads change.

use super::report::{KindStats, MemoryStats, SiteStats};
use parking_lot::Mutex;
use pinfold_model::MemoryKind;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Kinds that blocks can be of.
const KINDS: [MemoryKind; 7] = MemoryKind::ALL;
/// Records that a thread finds without a hash; a power of two.
const RECENT: usize = 32;

type Site = &'static Location<'static>;

/// One block, for the books.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Who asked.
    pub(crate) site: Site,
    /// The kind.
    pub(crate) kind: MemoryKind,
    /// Bytes asked for.
    pub(crate) bytes: u64,
    /// Bytes taken.
    pub(crate) held_bytes: u64,
}

/// The books of one memory manager.
pub(crate) struct Books {
    id: u64,
    threads: Mutex<Vec<Arc<ThreadBooks>>>,
    /// Of threads that ended, and of threads that are ending.
    ended: Mutex<BTreeMap<(Site, usize), Totals>>,
    held: [Held; KINDS.len()],
    ladder_steps: AtomicU64,
    lost_bytes: AtomicU64,
}

/// Bytes of a kind, which all threads change.
#[derive(Default)]
#[repr(align(64))]
struct Held {
    now_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

/// The records of one thread, to be read by others.
#[derive(Default)]
struct ThreadBooks {
    records: Mutex<Vec<(Site, usize, Arc<Record>)>>,
}

/// One thread's counts of one site and kind. Only that thread writes them.
#[derive(Default)]
#[repr(align(128))]
struct Record {
    taken: Counts,
    given: Counts,
}

#[derive(Default)]
struct Counts {
    blocks: AtomicU64,
    bytes: AtomicU64,
    held_bytes: AtomicU64,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    blocks: u64,
    bytes: u64,
    held_bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    taken: Sum,
    given: Sum,
}

impl Counts {
    /// For the one thread that writes.
    #[inline]
    fn add(&self, entry: &Entry) {
        let add = |to: &AtomicU64, n| to.store(to.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.blocks, 1);
        add(&self.bytes, entry.bytes);
        add(&self.held_bytes, entry.held_bytes);
    }

    fn sum(&self) -> Sum {
        Sum {
            blocks: self.blocks.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            held_bytes: self.held_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
        self.held_bytes += other.held_bytes;
    }

    fn of(entry: &Entry) -> Sum {
        Sum {
            blocks: 1,
            bytes: entry.bytes,
            held_bytes: entry.held_bytes,
        }
    }

    /// What is left; never below nothing, whatever other threads do meanwhile.
    fn less(self, given: Sum) -> Sum {
        Sum {
            blocks: self.blocks.saturating_sub(given.blocks),
            bytes: self.bytes.saturating_sub(given.bytes),
            held_bytes: self.held_bytes.saturating_sub(given.held_bytes),
        }
    }
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.taken.add(other.taken);
        self.given.add(other.given);
    }
}

impl Record {
    fn totals(&self) -> Totals {
        // Given first: what is taken meanwhile can only make the difference larger.
        let given = self.given.sum();
        Totals {
            taken: self.taken.sum(),
            given,
        }
    }
}

thread_local! {
    static MINE: RefCell<Mine> = const { RefCell::new(Mine(Vec::new())) };
}

/// This thread's records, a part for each memory manager that it met.
struct Mine(Vec<Part>);

/// The address of a call site, the number of a kind, and their record.
type Recent = (usize, usize, Arc<Record>);

struct Part {
    id: u64,
    books: Weak<Books>,
    thread: Arc<ThreadBooks>,
    recent: Box<[Option<Recent>; RECENT]>,
    all: HashMap<(usize, usize), Arc<Record>>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        for part in &self.0 {
            if let Some(books) = part.books.upgrade() {
                books.fold(&part.thread);
            }
        }
    }
}

impl Part {
    /// The record of a site and kind.
    #[inline]
    fn record(&mut self, site: Site, kind: usize) -> Option<&Record> {
        let key = std::ptr::from_ref(site).addr();
        // Locations lie close together, a few words each.
        let at = ((key >> 3) ^ kind) % RECENT;
        let known = matches!(&self.recent[at], Some((k, n, _)) if (*k, *n) == (key, kind));
        if !known {
            let record = self.find(key, site, kind);
            self.recent[at] = Some((key, kind, record));
        }
        self.recent[at].as_ref().map(|(_, _, record)| &**record)
    }

    #[cold]
    fn find(&mut self, key: usize, site: Site, kind: usize) -> Arc<Record> {
        let new = || {
            let record = Arc::<Record>::default();
            let entry = (site, kind, record.clone());
            self.thread.records.lock().push(entry);
            record
        };
        self.all.entry((key, kind)).or_insert_with(new).clone()
    }
}

/// Runs something on this thread's record. `None` on a thread that is ending.
#[inline]
fn with_record(
    books: &Arc<Books>,
    site: Site,
    kind: usize,
    body: impl FnOnce(&Record),
) -> Option<()> {
    let on_mine = |mine: &RefCell<Mine>| {
        // Never entered twice: bodies only count.
        let mut mine = mine.try_borrow_mut().ok()?;
        let at = match mine.0.iter().position(|part| part.id == books.id) {
            Some(at) => at,
            None => join(&mut mine.0, books),
        };
        mine.0[at].record(site, kind).map(body)
    };
    MINE.try_with(on_mine).ok().flatten()
}

#[cold]
fn join(parts: &mut Vec<Part>, books: &Arc<Books>) -> usize {
    parts.retain(|part| part.books.strong_count() > 0);
    let thread = Arc::<ThreadBooks>::default();
    books.threads.lock().push(thread.clone());
    parts.push(Part {
        id: books.id,
        books: Arc::downgrade(books),
        thread,
        recent: Box::new([const { None }; RECENT]),
        all: HashMap::new(),
    });
    parts.len() - 1
}

impl Books {
    pub(crate) fn new() -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Books {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            threads: Mutex::default(),
            ended: Mutex::default(),
            held: Default::default(),
            ladder_steps: AtomicU64::new(0),
            lost_bytes: AtomicU64::new(0),
        })
    }

    /// A block was taken.
    #[inline]
    pub(crate) fn taken(self: &Arc<Self>, entry: &Entry) {
        let kind = entry.kind as usize;
        let held = &self.held[kind];
        let before = held
            .now_bytes
            .fetch_add(entry.held_bytes, Ordering::Relaxed);
        let now = before + entry.held_bytes;
        if now > held.peak_bytes.load(Ordering::Relaxed) {
            held.peak_bytes.fetch_max(now, Ordering::Relaxed);
        }
        let counted = with_record(self, entry.site, kind, |record| record.taken.add(entry));
        if counted.is_none() {
            self.ending(entry.site, kind, |totals| totals.taken.add(Sum::of(entry)));
        }
    }

    /// A block was given back.
    #[inline]
    pub(crate) fn given_back(self: &Arc<Self>, entry: &Entry) {
        let kind = entry.kind as usize;
        self.held[kind]
            .now_bytes
            .fetch_sub(entry.held_bytes, Ordering::Relaxed);
        let counted = with_record(self, entry.site, kind, |record| record.given.add(entry));
        if counted.is_none() {
            self.ending(entry.site, kind, |totals| totals.given.add(Sum::of(entry)));
        }
    }

    /// Driver or system did not let go of so many bytes.
    pub(crate) fn lost(&self, held_bytes: u64) {
        self.lost_bytes.fetch_add(held_bytes, Ordering::Relaxed);
    }

    /// A request was not served with the kind first chosen.
    pub(crate) fn stepped_down(&self) {
        self.ladder_steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts for a thread that has no records any more.
    #[cold]
    fn ending(&self, site: Site, kind: usize, add: impl FnOnce(&mut Totals)) {
        add(self.ended.lock().entry((site, kind)).or_default());
    }

    /// A thread ends.
    fn fold(&self, ended: &Arc<ThreadBooks>) {
        let mut threads = self.threads.lock();
        let mut sums = self.ended.lock();
        for (site, kind, record) in &*ended.records.lock() {
            sums.entry((site, *kind)).or_default().add(record.totals());
        }
        threads.retain(|thread| !Arc::ptr_eq(thread, ended));
    }

    fn totals(&self) -> BTreeMap<(Site, usize), Totals> {
        let threads = self.threads.lock();
        let mut sums = self.ended.lock().clone();
        for thread in &*threads {
            for (site, kind, record) in &*thread.records.lock() {
                sums.entry((site, *kind)).or_default().add(record.totals());
            }
        }
        sums
    }

    /// By site and kind; sites that hold the most first.
    pub(crate) fn sites(&self) -> Vec<SiteStats> {
        let totals = self.totals();
        let mut sites: Vec<SiteStats> = totals
            .into_iter()
            .map(|((site, kind), totals)| {
                let live = totals.taken.less(totals.given);
                SiteStats {
                    site,
                    kind: KINDS[kind],
                    blocks: live.blocks,
                    requested_bytes: live.bytes,
                    held_bytes: live.held_bytes,
                    taken: totals.taken.blocks,
                    taken_bytes: totals.taken.bytes,
                }
            })
            .collect();
        sites.sort_by_key(|site| std::cmp::Reverse((site.held_bytes, site.taken_bytes)));
        sites
    }

    /// By kind.
    pub(crate) fn stats(&self, retired_bytes: u64) -> MemoryStats {
        let mut sums = [Totals::default(); KINDS.len()];
        for ((_, kind), totals) in self.totals() {
            sums[kind].add(totals);
        }
        let used = KINDS.iter().zip(&self.held).zip(sums);
        let used = used.filter(|(_, totals)| totals.taken.blocks > 0);
        let kinds = used.map(|((kind, held), totals)| {
            let live = totals.taken.less(totals.given);
            let books = KindStats {
                blocks: live.blocks,
                requested_bytes: live.bytes,
                held_bytes: live.held_bytes,
                held_bytes_peak: held.peak_bytes.load(Ordering::Relaxed),
                taken: totals.taken.blocks,
            };
            (*kind, books)
        });
        MemoryStats {
            kinds: kinds.collect(),
            retired_bytes,
            lost_bytes: self.lost_bytes.load(Ordering::Relaxed),
            ladder_steps: self.ladder_steps.load(Ordering::Relaxed),
            ..MemoryStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(site: Site, bytes: u64) -> Entry {
        Entry {
            site,
            kind: MemoryKind::PageLocked,
            bytes,
            held_bytes: bytes.next_multiple_of(64),
        }
    }

    #[test]
    fn sites_are_told_apart_and_threads_are_summed() {
        let books = Books::new();
        let (here, there) = (Location::caller(), std::panic::Location::caller());
        books.taken(&entry(here, 100));
        books.taken(&entry(here, 50));
        std::thread::scope(|scope| {
            scope.spawn(|| books.given_back(&entry(here, 100)));
            scope.spawn(|| books.taken(&entry(there, 7)));
        });
        let mut sites = books.sites();
        sites.sort_by_key(|site| site.taken);
        let live: Vec<_> = sites
            .iter()
            .map(|s| (s.blocks, s.requested_bytes, s.held_bytes, s.taken))
            .collect();
        assert_eq!(live, [(1, 7, 64, 1), (1, 50, 64, 2)]);
        let kind = books.stats(0).kinds[&MemoryKind::PageLocked];
        assert_eq!((kind.blocks, kind.requested_bytes, kind.taken), (2, 57, 3));
        assert_eq!(kind.held_bytes, 128);
        assert!((192..=256).contains(&kind.held_bytes_peak));
    }

    #[test]
    fn more_sites_than_a_thread_remembers_are_all_counted() {
        let books = Books::new();
        let line = Location::caller();
        // Copies at other addresses count as one site: it is the line that matters.
        let copies: Vec<Site> = (0..3 * RECENT)
            .map(|_| &*Box::leak(Box::new(*line)))
            .collect();
        for round in 0..2 {
            for site in &copies {
                books.taken(&entry(site, 1 + round));
            }
        }
        let sites = books.sites();
        assert_eq!(sites.len(), 1);
        assert_eq!(sites[0].taken, 6 * RECENT as u64);
        assert_eq!(sites[0].taken_bytes, 9 * RECENT as u64);
    }
}
