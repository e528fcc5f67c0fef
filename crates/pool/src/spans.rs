//! Spans: runs of pages cut into slots of one class.
//!
//! A span that is used in part is the first to give slots out; one that is not used at all goes
//! back to the pages.

use crate::classes::Class;
use crate::pages::PAGE_BYTES;
use std::collections::BTreeMap;

/// Spans have at least this many bytes, and one slot.
const SPAN_BYTES_MIN: u64 = 64 << 10;
/// At most one part in this many of a span is left over behind its last slot.
const LEFT_OVER_PART: u64 = 50;

/// How a class cuts its spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Pages of a span.
    pub pages: u32,
    /// Slots of a span.
    pub slots: u32,
}

impl Cut {
    /// How the class cuts its spans: the fewest pages of which little is left over.
    pub fn of(class: Class) -> Cut {
        let slot = class.bytes();
        let fits = |bytes: u64| bytes % slot * LEFT_OVER_PART <= bytes;
        let sizes = (SPAN_BYTES_MIN.max(slot).div_ceil(PAGE_BYTES)..).map(|n| n * PAGE_BYTES);
        // As many pages as a slot has times 64 are always enough: nothing is left over then.
        let longest = slot.max(PAGE_BYTES) * 64;
        let bytes = sizes.take_while(|b| *b < longest).find(|b| fits(*b));
        let bytes = bytes.unwrap_or(longest);
        Cut {
            pages: (bytes / PAGE_BYTES) as u32,
            slots: (bytes / slot) as u32,
        }
    }
}

#[derive(Debug)]
struct Span {
    base: u64,
    /// One bit a slot; set where it is free.
    free: Vec<u64>,
    free_slots: u32,
    /// Its place in the list of spans with free slots.
    listed_at: Option<usize>,
}

/// The spans of one class.
#[derive(Debug)]
pub struct Spans {
    slot_bytes: u64,
    cut: Cut,
    spans: Vec<Option<Span>>,
    by_base: BTreeMap<u64, usize>,
    /// Spans with free slots; the last one gives first.
    listed: Vec<usize>,
}

impl Spans {
    /// No spans of this class.
    pub fn new(class: Class) -> Self {
        Spans {
            slot_bytes: class.bytes(),
            cut: Cut::of(class),
            spans: Vec::new(),
            by_base: BTreeMap::new(),
            listed: Vec::new(),
        }
    }

    /// How spans are cut.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// Spans there are.
    pub fn spans(&self) -> usize {
        self.by_base.len()
    }

    /// Adds a span whose pages begin at the address.
    pub fn add(&mut self, base: u64) {
        let slots = self.cut.slots as usize;
        let mut free = vec![u64::MAX; slots.div_ceil(64)];
        if let (Some(last), rest @ 1..) = (free.last_mut(), slots % 64) {
            *last = (1 << rest) - 1;
        }
        let vacant = self.spans.iter().position(Option::is_none);
        let id = vacant.unwrap_or_else(|| {
            self.spans.push(None);
            self.spans.len() - 1
        });
        self.spans[id] = Some(Span {
            base,
            free,
            free_slots: self.cut.slots,
            listed_at: Some(self.listed.len()),
        });
        self.listed.push(id);
        self.by_base.insert(base, id);
    }

    /// Moves up to `want` free slots into `out`; returns how many.
    pub fn take(&mut self, want: usize, out: &mut Vec<u64>) -> usize {
        let mut taken = 0;
        while taken < want {
            let Some(&id) = self.listed.last() else { break };
            let Some(span) = self.spans[id].as_mut() else {
                break;
            };
            let Some((word, bits)) = span
                .free
                .iter_mut()
                .enumerate()
                .find(|(_, bits)| **bits != 0)
            else {
                break;
            };
            let bit = bits.trailing_zeros();
            *bits &= *bits - 1;
            span.free_slots -= 1;
            out.push(span.base + (word as u64 * 64 + u64::from(bit)) * self.slot_bytes);
            taken += 1;
            if span.free_slots == 0 {
                span.listed_at = None;
                self.listed.pop();
            }
        }
        taken
    }

    /// Takes a slot back. Where its span is free as a whole then, that is taken out: its base, for
    /// the pages.
    ///
    /// # Errors
    /// Where the address is no slot that was given out; nothing is changed then.
    pub fn give_back(&mut self, slot: u64) -> Result<Option<u64>, crate::NotMine> {
        let outside = crate::NotMine::Outside;
        let (base, id) = self.by_base.range(..=slot).next_back().ok_or(outside)?;
        let (base, id) = (*base, *id);
        let index = (slot - base) / self.slot_bytes;
        if !(slot - base).is_multiple_of(self.slot_bytes) || index >= u64::from(self.cut.slots) {
            return Err(outside);
        }
        let span = self.spans[id].as_mut().ok_or(outside)?;
        let (word, bit) = ((index / 64) as usize, 1u64 << (index % 64));
        if span.free[word] & bit != 0 {
            return Err(crate::NotMine::NotGivenOut);
        }
        span.free[word] |= bit;
        span.free_slots += 1;
        if span.listed_at.is_none() {
            span.listed_at = Some(self.listed.len());
            self.listed.push(id);
        }
        if span.free_slots < self.cut.slots {
            return Ok(None);
        }
        let at = span.listed_at;
        self.spans[id] = None;
        self.by_base.remove(&base);
        if let Some(at) = at {
            self.listed.swap_remove(at);
            if let Some(moved) = self.listed.get(at).and_then(|id| self.spans[*id].as_mut()) {
                moved.listed_at = Some(at);
            }
        }
        Ok(Some(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_of_a_span_is_left_over() {
        for class in Class::all() {
            let cut = Cut::of(class);
            let (all, used) = (
                u64::from(cut.pages) * PAGE_BYTES,
                u64::from(cut.slots) * class.bytes(),
            );
            assert!(used <= all && cut.slots > 0);
            assert!(50 * (all - used) <= all, "{}: {cut:?}", class.bytes());
        }
    }

    #[test]
    fn slots_are_given_out_once_and_a_free_span_leaves() {
        for class in Class::all() {
            let mut spans = Spans::new(class);
            let slots = spans.cut().slots as usize;
            let mut out = Vec::new();
            assert_eq!(spans.take(1, &mut out), 0);
            spans.add(1 << 30);
            spans.add(1 << 40);
            assert_eq!(spans.take(2 * slots + 1, &mut out), 2 * slots);
            let mut sorted = out.clone();
            sorted.sort_unstable();
            assert!(sorted.windows(2).all(|w| w[1] - w[0] >= class.bytes()));
            let gone: Vec<u64> = out
                .iter()
                .filter_map(|slot| spans.give_back(*slot).unwrap())
                .collect();
            assert_eq!(gone.len(), 2);
            assert_eq!(spans.spans(), 0);
        }
    }

    #[test]
    fn what_is_no_slot_is_refused() {
        let class = Class::of(1000).unwrap();
        let mut spans = Spans::new(class);
        assert!(spans.give_back(5).is_err());
        spans.add(4096);
        let mut out = Vec::new();
        spans.take(1, &mut out);
        assert_eq!(spans.give_back(out[0] + 1), Err(crate::NotMine::Outside));
        let second = out[0] + class.bytes();
        assert_eq!(spans.give_back(second), Err(crate::NotMine::NotGivenOut));
        assert_eq!(spans.give_back(1 << 50), Err(crate::NotMine::Outside));
        assert_eq!(spans.give_back(out[0]), Ok(Some(4096)));
        assert_eq!(spans.give_back(out[0]), Err(crate::NotMine::Outside));
    }
}
