//! What all threads share: the pages, and for each class the spans.
//!
//! Each class has a lock of its own, and the pages have one. A class may take the pages' lock,
//! never the other way round. Nothing that is done under them takes longer than moving a batch.

use crate::classes::{CLASSES, Class};
use crate::pages::{NotMine, Pages};
use crate::spans::Spans;
use crate::sync::Lock;

/// Pages and slots of one pool.
#[derive(Debug)]
pub struct Shared {
    pages: Lock<Pages>,
    classes: Vec<Lock<Spans>>,
}

impl Default for Shared {
    fn default() -> Self {
        Shared {
            pages: Lock::new(Pages::default()),
            classes: Class::all().map(|c| Lock::new(Spans::new(c))).collect(),
        }
    }
}

impl Shared {
    /// Adds a segment of free pages; see [`Pages::add_segment`].
    pub fn add_segment(&self, base: u64, pages: u32) {
        self.pages.with(|all| all.add_segment(base, pages));
    }

    /// Takes a segment out where all of it is free.
    pub fn remove_segment(&self, base: u64) -> Option<u32> {
        self.pages.with(|all| all.remove_segment(base))
    }

    /// Segments that are free as a whole: base and pages.
    pub fn idle_segments(&self) -> Vec<(u64, u32)> {
        self.pages.with(|all| all.idle_segments().collect())
    }

    /// Pages that nobody has: neither a user nor a span.
    pub fn free_pages(&self) -> u64 {
        self.pages.with(|all| all.free_pages())
    }

    /// Number of runs of free pages.
    pub fn holes(&self) -> usize {
        self.pages.with(|all| all.holes())
    }

    /// Gives out so many pages in a row.
    pub fn take_pages(&self, pages: u32) -> Option<u64> {
        self.pages.with(|all| all.take(pages))
    }

    /// Takes pages back.
    ///
    /// # Errors
    /// As [`Pages::give_back`].
    pub fn give_back_pages(&self, addr: u64) -> Result<u32, NotMine> {
        self.pages.with(|all| all.give_back(addr))
    }

    /// Moves up to `want` slots of a class into `out`, cutting one new span where there is none.
    /// 0 where the pages have no room for one: a segment is wanted.
    pub fn take_slots(&self, class: Class, want: usize, out: &mut Vec<u64>) -> usize {
        self.classes[class.index()].with(|spans| {
            let taken = spans.take(want, out);
            if taken > 0 {
                return taken;
            }
            let pages = spans.cut().pages;
            match self.pages.with(|all| all.take(pages)) {
                Some(base) => {
                    spans.add(base);
                    spans.take(want, out)
                }
                None => 0,
            }
        })
    }

    /// Takes slots of a class back. Those that are none are left out; returns how many they were.
    pub fn give_back_slots(&self, class: Class, slots: impl IntoIterator<Item = u64>) -> usize {
        let mut wrong = 0;
        self.classes[class.index()].with(|spans| {
            for slot in slots {
                match spans.give_back(slot) {
                    Ok(None) => {}
                    Ok(Some(base)) => {
                        let given = self.pages.with(|all| all.give_back(base));
                        wrong += usize::from(given.is_err());
                    }
                    Err(_) => wrong += 1,
                }
            }
        });
        wrong
    }
}

const _: () = assert!(CLASSES <= u8::MAX as usize);
