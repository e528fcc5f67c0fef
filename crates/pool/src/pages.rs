//! Whole pages: which are free, and which range of them to give out.
//!
//! Free ranges lie in bins by their length, two levels deep, with a bit for each bin that holds
//! any: finding one, splitting it, and joining neighbours take the same few steps however many
//! holes there are (M. Masmano et al., *TLSF: a new dynamic memory allocator for real-time
//! systems*, ECRTS 2004). A range is exactly as long as asked for: no rounding.

use std::collections::BTreeMap;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Bins of one doubling of the length.
const FINE: usize = 32;
const FINE_LOG2: u32 = FINE.ilog2();
/// Doublings above the lengths that have a bin each: up to 2^36 pages.
const COARSE: usize = 32;
/// How many ranges of the one bin that may or may not fit are looked at.
const LOOK_MAX: usize = 16;
/// No range.
const NONE: u32 = u32::MAX;

/// A run of pages, given out or free. Its place in the address space is a number of bytes.
#[derive(Clone, Copy, Debug)]
struct Range {
    segment: u32,
    start: u32,
    pages: u32,
    free: bool,
    /// Neighbours in the bin, where it is free.
    previous: u32,
    next: u32,
}

/// One stretch of the address space.
#[derive(Debug)]
struct Segment {
    base: u64,
    pages: u32,
    used_pages: u32,
    /// The range that begins or ends at a page; the pages between hold what they held.
    range_at: Vec<u32>,
}

/// Free and given-out pages of any number of segments.
#[derive(Debug)]
pub struct Pages {
    ranges: Vec<Range>,
    unused: Vec<u32>,
    segments: Vec<Option<Segment>>,
    by_base: BTreeMap<u64, u32>,
    heads: Vec<u32>,
    coarse: u32,
    fine: [u32; COARSE],
    free_pages: u64,
}

/// Why a range cannot be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMine {
    /// No segment has the address.
    Outside,
    /// No range that is given out begins there.
    NotGivenOut,
}

impl Default for Pages {
    fn default() -> Self {
        Pages {
            ranges: Vec::new(),
            unused: Vec::new(),
            segments: Vec::new(),
            by_base: BTreeMap::new(),
            heads: vec![NONE; COARSE * FINE],
            coarse: 0,
            fine: [0; COARSE],
            free_pages: 0,
        }
    }
}

/// The bin of a length: those of up to 32 pages have one each, above there are 32 a doubling.
fn bin(pages: u32) -> (usize, usize) {
    if pages < FINE as u32 {
        return (0, pages as usize);
    }
    let log2 = pages.ilog2();
    let fine = (pages >> (log2 - FINE_LOG2)) as usize - FINE;
    ((log2 - FINE_LOG2 + 1) as usize, fine)
}

/// The first bin whose every range is at least so long.
fn bin_above(pages: u32) -> (usize, usize) {
    if pages < FINE as u32 {
        return bin(pages);
    }
    let step = 1 << (pages.ilog2() - FINE_LOG2);
    bin(pages.saturating_add(step - 1))
}

impl Pages {
    /// Adds a stretch of free pages.
    ///
    /// The caller adds no page twice. Addresses are multiples of [`PAGE_BYTES`].
    pub fn add_segment(&mut self, base: u64, pages: u32) {
        if pages == 0 {
            return;
        }
        let segment = Segment {
            base,
            pages,
            used_pages: 0,
            range_at: vec![NONE; pages as usize],
        };
        let id = self.segments.iter().position(Option::is_none);
        let id = id.unwrap_or_else(|| {
            self.segments.push(None);
            self.segments.len() - 1
        });
        self.segments[id] = Some(segment);
        self.by_base.insert(base, id as u32);
        self.free_pages += u64::from(pages);
        self.insert_free(id as u32, 0, pages);
    }

    /// Takes a segment out where all of it is free. The number of pages it had.
    pub fn remove_segment(&mut self, base: u64) -> Option<u32> {
        let id = *self.by_base.get(&base)?;
        let segment = self.segments[id as usize].as_ref()?;
        if segment.used_pages > 0 {
            return None;
        }
        let (pages, range) = (segment.pages, segment.range_at[0]);
        self.unlink(range);
        self.unused.push(range);
        self.segments[id as usize] = None;
        self.by_base.remove(&base);
        self.free_pages -= u64::from(pages);
        Some(pages)
    }

    /// Free pages in all segments.
    pub fn free_pages(&self) -> u64 {
        self.free_pages
    }

    /// Bases of the segments that are free as a whole, with their pages.
    pub fn idle_segments(&self) -> impl Iterator<Item = (u64, u32)> {
        let idle = self.segments.iter().flatten().filter(|s| s.used_pages == 0);
        idle.map(|s| (s.base, s.pages))
    }

    /// Number of free ranges.
    pub fn holes(&self) -> usize {
        let count = |head: &u32| std::iter::successors(Some(*head), |at| self.next_of(*at));
        let ranges = self.heads.iter().flat_map(count);
        ranges.filter(|range| *range != NONE).count()
    }

    fn next_of(&self, range: u32) -> Option<u32> {
        self.ranges.get(range as usize).map(|range| range.next)
    }

    /// Gives out so many pages in a row: the address of the first.
    pub fn take(&mut self, pages: u32) -> Option<u64> {
        if pages == 0 {
            return None;
        }
        let range = self.find(pages)?;
        self.unlink(range);
        let Range {
            segment,
            start,
            pages: had,
            ..
        } = self.ranges[range as usize];
        if had > pages {
            self.insert_free(segment, start + pages, had - pages);
        }
        let taken = &mut self.ranges[range as usize];
        taken.pages = pages;
        taken.free = false;
        self.tag(range);
        self.free_pages -= u64::from(pages);
        let segment = self.segments[segment as usize].as_mut()?;
        segment.used_pages += pages;
        Some(segment.base + u64::from(start) * PAGE_BYTES)
    }

    /// Takes back what [`take`](Self::take) gave out: the number of pages.
    ///
    /// # Errors
    /// Where no range that is given out begins at the address; nothing is changed then.
    pub fn give_back(&mut self, addr: u64) -> Result<u32, NotMine> {
        let (segment, page) = self.locate(addr).ok_or(NotMine::Outside)?;
        let at = |page: u32| {
            self.segments[segment as usize]
                .as_ref()
                .map(|s| s.range_at[page as usize])
        };
        let range = at(page)
            .filter(|range| *range != NONE)
            .ok_or(NotMine::NotGivenOut)?;
        let Range {
            start,
            pages,
            free,
            segment: of,
            ..
        } = self.ranges[range as usize];
        if free || start != page || of != segment {
            return Err(NotMine::NotGivenOut);
        }
        let (mut first, mut length) = (start, pages);
        let total = self.segments[segment as usize]
            .as_ref()
            .map_or(0, |s| s.pages);
        let before = if start > 0 { at(start - 1) } else { None };
        let after = if start + pages < total {
            at(start + pages)
        } else {
            None
        };
        self.clear(range);
        for neighbour in [before, after].into_iter().flatten() {
            let found = self.ranges[neighbour as usize];
            if found.free {
                self.unlink(neighbour);
                self.clear(neighbour);
                first = first.min(found.start);
                length += found.pages;
                self.unused.push(neighbour);
            }
        }
        self.unused.push(range);
        self.free_pages += u64::from(pages);
        if let Some(segment) = self.segments[segment as usize].as_mut() {
            segment.used_pages -= pages;
        }
        self.insert_free(segment, first, length);
        Ok(pages)
    }

    /// The segment and page of an address.
    fn locate(&self, addr: u64) -> Option<(u32, u32)> {
        let (base, id) = self.by_base.range(..=addr).next_back()?;
        let segment = self.segments[*id as usize].as_ref()?;
        let page = (addr - base) / PAGE_BYTES;
        let on_page = (addr - base).is_multiple_of(PAGE_BYTES);
        (on_page && page < u64::from(segment.pages)).then_some((*id, page as u32))
    }

    /// A free range of at least so many pages.
    fn find(&self, pages: u32) -> Option<u32> {
        // Its own bin may hold some that are long enough: they are the tightest.
        let (coarse, fine) = bin(pages);
        let own = self.heads[coarse * FINE + fine];
        let ranges = std::iter::successors((own != NONE).then_some(own), |at| {
            self.next_of(*at).filter(|next| *next != NONE)
        });
        let mut few = ranges.take(LOOK_MAX);
        if let Some(found) = few.find(|at| self.ranges[*at as usize].pages >= pages) {
            return Some(found);
        }
        let (coarse, fine) = bin_above(pages);
        if coarse >= COARSE {
            return None;
        }
        let same = self.fine[coarse] & (u32::MAX << fine);
        let (coarse, bits) = if same != 0 {
            (coarse, same)
        } else {
            let above = self.coarse.checked_shr(coarse as u32 + 1)?;
            if above == 0 {
                return None;
            }
            let coarse = coarse + 1 + above.trailing_zeros() as usize;
            (coarse, self.fine[coarse])
        };
        let head = self.heads[coarse * FINE + bits.trailing_zeros() as usize];
        (head != NONE).then_some(head)
    }

    fn insert_free(&mut self, segment: u32, start: u32, pages: u32) {
        let (coarse, fine) = bin(pages);
        let next = self.heads[coarse * FINE + fine];
        let range = Range {
            segment,
            start,
            pages,
            free: true,
            previous: NONE,
            next,
        };
        let id = match self.unused.pop() {
            Some(id) => {
                self.ranges[id as usize] = range;
                id
            }
            None => {
                self.ranges.push(range);
                self.ranges.len() as u32 - 1
            }
        };
        if next != NONE {
            self.ranges[next as usize].previous = id;
        }
        self.heads[coarse * FINE + fine] = id;
        self.fine[coarse] |= 1 << fine;
        self.coarse |= 1 << coarse;
        self.tag(id);
    }

    /// Takes a free range out of its bin.
    fn unlink(&mut self, range: u32) {
        let Range {
            pages,
            previous,
            next,
            ..
        } = self.ranges[range as usize];
        if next != NONE {
            self.ranges[next as usize].previous = previous;
        }
        if previous != NONE {
            self.ranges[previous as usize].next = next;
            return;
        }
        let (coarse, fine) = bin(pages);
        self.heads[coarse * FINE + fine] = next;
        if next == NONE {
            self.fine[coarse] &= !(1 << fine);
            if self.fine[coarse] == 0 {
                self.coarse &= !(1 << coarse);
            }
        }
    }

    /// Writes the range's number at its first and last page.
    fn tag(&mut self, range: u32) {
        self.mark(range, range);
    }

    /// Forgets the range at its first and last page.
    fn clear(&mut self, range: u32) {
        self.mark(range, NONE);
    }

    fn mark(&mut self, range: u32, as_what: u32) {
        let Range {
            segment,
            start,
            pages,
            ..
        } = self.ranges[range as usize];
        if let Some(segment) = self.segments[segment as usize].as_mut() {
            segment.range_at[start as usize] = as_what;
            segment.range_at[(start + pages - 1) as usize] = as_what;
        }
    }
}
