//! Size classes: what a small request is rounded up to.
//!
//! Up to 512 bytes a class is a multiple of a cache line; above, eight classes to each doubling.
//! So a request wastes at most one eighth of itself, or less than a cache line.

/// Alignment of every slot: a cache line, so that no two blocks share one.
pub const SLOT_ALIGN_BYTES: u64 = 64;
/// Requests above this are whole pages, not slots of a class.
pub const SMALL_BYTES_MAX: u64 = 1 << 20;
/// Number of classes.
pub const CLASSES: usize = LINEAR + DOUBLINGS * PER_DOUBLING;

const LINEAR: usize = 8;
const LINEAR_BYTES_MAX: u64 = LINEAR as u64 * SLOT_ALIGN_BYTES;
const PER_DOUBLING: usize = 8;
const PER_DOUBLING_LOG2: u32 = PER_DOUBLING.ilog2();
/// From 512 bytes to 1 MiB.
const DOUBLINGS: usize = (SMALL_BYTES_MAX / LINEAR_BYTES_MAX).ilog2() as usize;

/// A size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(u8);

impl Class {
    /// The smallest class that holds so many bytes; `None` for none and for more than
    /// [`SMALL_BYTES_MAX`].
    #[inline]
    pub fn of(bytes: u64) -> Option<Class> {
        if bytes == 0 || bytes > SMALL_BYTES_MAX {
            return None;
        }
        let last = bytes - 1;
        if bytes <= LINEAR_BYTES_MAX {
            return Some(Class((last / SLOT_ALIGN_BYTES) as u8));
        }
        let log2 = last.ilog2();
        // The top four bits of `last`, of which the first is set.
        let step = (last >> (log2 - PER_DOUBLING_LOG2)) as usize - PER_DOUBLING;
        let doubling = (log2 - LINEAR_BYTES_MAX.ilog2()) as usize;
        Some(Class((LINEAR + doubling * PER_DOUBLING + step) as u8))
    }

    /// All classes, smallest first.
    pub fn all() -> impl Iterator<Item = Class> {
        (0..CLASSES as u8).map(Class)
    }

    /// Its number, below [`CLASSES`].
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Bytes of a slot.
    #[inline]
    pub fn bytes(self) -> u64 {
        BYTES[self.index()]
    }
}

/// Bytes of a slot, by class.
pub(crate) const BYTES: [u64; CLASSES] = {
    let mut bytes = [0; CLASSES];
    let mut index = 0;
    while index < CLASSES {
        bytes[index] = if index < LINEAR {
            (index as u64 + 1) * SLOT_ALIGN_BYTES
        } else {
            let (doubling, step) = (
                (index - LINEAR) / PER_DOUBLING,
                (index - LINEAR) % PER_DOUBLING,
            );
            let base = LINEAR_BYTES_MAX << doubling;
            base + base / PER_DOUBLING as u64 * (step as u64 + 1)
        };
        index += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        let sizes: Vec<u64> = Class::all().map(Class::bytes).collect();
        assert!(sizes.is_sorted() && sizes.len() == CLASSES);
        assert_eq!(
            (sizes[0], *sizes.last().unwrap()),
            (SLOT_ALIGN_BYTES, SMALL_BYTES_MAX)
        );
        let mut expected = 0;
        for bytes in 1..=SMALL_BYTES_MAX {
            if bytes > sizes[expected] {
                expected += 1;
            }
            assert_eq!(Class::of(bytes).unwrap().index(), expected, "{bytes}");
        }
        assert_eq!(Class::of(0), None);
        assert_eq!(Class::of(SMALL_BYTES_MAX + 1), None);
        assert_eq!(Class::of(u64::MAX), None);
    }

    #[test]
    fn waste_is_below_a_cache_line_or_at_most_an_eighth() {
        for bytes in 1..=SMALL_BYTES_MAX {
            let waste = Class::of(bytes).unwrap().bytes() - bytes;
            assert!(
                waste < SLOT_ALIGN_BYTES || 8 * waste <= bytes,
                "{bytes}: {waste}"
            );
        }
    }

    #[test]
    fn slots_are_aligned() {
        assert!(Class::all().all(|class| class.bytes() % SLOT_ALIGN_BYTES == 0));
    }
}
