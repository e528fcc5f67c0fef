//! Held-out points: sizes, directions, kinds and patterns between and beyond the ones that a
//! profile is made from, drawn from a seed; and what the model says about each.

use pinfold::kernels::splitmix64;
use pinfold::{Bytes, MemoryKind};
use pinfold_model::{Access, Direction, Pattern, Profile, cost};

/// One thing to predict and to measure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Point {
    /// A copy of page-locked memory that is waited for.
    Copy {
        direction: Direction,
        kind: MemoryKind,
        bytes: u64,
    },
    /// A kernel that uses mapped memory in place and in order.
    InOrder { access: Access, bytes: u64 },
    /// A kernel that reads 4 bytes in every so many.
    Strided { stride_bytes: u32, bytes: u64 },
    /// A kernel that reads random rows.
    Rows {
        row_bytes: u32,
        footprint_bytes: u64,
        count: u64,
    },
    /// A copy, and a kernel behind it that reads what was copied.
    CopiedThenRead { bytes: u64 },
}

impl Point {
    /// The model's word for it, in nanoseconds.
    pub(super) fn predicted_ns(&self, profile: &Profile) -> f64 {
        let in_place = |access, pattern, bytes| {
            cost::launch_and_wait_ns(profile)
                + cost::zero_copy_ns(profile, access, pattern, bytes, bytes)
        };
        match *self {
            Point::Copy {
                direction,
                kind,
                bytes,
            } => cost::copy_ns(profile, direction, kind, bytes),
            Point::InOrder { access, bytes } => {
                in_place(access, Pattern::Sequential { passes: 1.0 }, bytes)
            }
            Point::Strided {
                stride_bytes,
                bytes,
            } => {
                let element_bytes = 4;
                let pattern = Pattern::Strided {
                    element_bytes,
                    stride_bytes,
                };
                in_place(Access::Read, pattern, bytes)
            }
            Point::Rows {
                row_bytes,
                footprint_bytes,
                count,
            } => in_place(
                Access::Read,
                Pattern::Random { row_bytes, count },
                footprint_bytes,
            ),
            Point::CopiedThenRead { bytes } => {
                cost::copied_then_read_ns(profile, MemoryKind::PageLocked, bytes)
            }
        }
    }

    /// In words.
    pub(super) fn name(&self) -> String {
        match self {
            Point::Copy {
                direction,
                kind,
                bytes,
            } => format!("{kind} {} {}", Bytes(*bytes), way(*direction)),
            Point::InOrder { access, bytes } => {
                let what = match access {
                    Access::Read => "read",
                    Access::Write => "written",
                };
                format!("{} {what} in place", Bytes(*bytes))
            }
            Point::Strided {
                stride_bytes,
                bytes,
            } => format!("4 B in every {stride_bytes} of {}", Bytes(*bytes)),
            Point::Rows {
                row_bytes,
                footprint_bytes,
                count,
            } => format!(
                "{count} rows of {row_bytes} B over {}",
                Bytes(*footprint_bytes)
            ),
            Point::CopiedThenRead { bytes } => format!("{} copied, then read", Bytes(*bytes)),
        }
    }
}

pub(super) fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::ToDevice => "to the device",
        Direction::ToHost => "to the host",
    }
}

/// Numbers from a seed, the same in every run.
pub(super) struct Draw(u64);

/// A word.
const WORD: u64 = 8;
/// Every row size divides this: footprints are multiples of it.
const ROWS_BYTES: u64 = 15_360;
/// Row sizes that are in no table, and some that are.
const ROW_BYTES: [u32; 14] = [4, 8, 12, 20, 32, 40, 48, 80, 96, 128, 192, 256, 512, 768];

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Draw(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        splitmix64(self.0)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// As likely in every octave, in whole words.
    pub(super) fn bytes(&mut self, least: u64, most: u64) -> u64 {
        let part = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let (low, high) = (least.max(WORD) as f64, most.max(2 * WORD) as f64);
        let bytes = low * (high / low).powf(part);
        (bytes as u64 / WORD * WORD).max(WORD)
    }

    pub(super) fn direction(&mut self) -> Direction {
        match self.below(2) {
            0 => Direction::ToDevice,
            _ => Direction::ToHost,
        }
    }

    /// A copy of page-locked memory; nothing is copied into write-combined memory.
    pub(super) fn copy(&mut self, most: u64) -> Point {
        let direction = self.direction();
        let kinds = [
            MemoryKind::PageLocked,
            MemoryKind::Registered,
            MemoryKind::WriteCombined,
        ];
        let choices = match direction {
            Direction::ToDevice => 3,
            Direction::ToHost => 2,
        };
        Point::Copy {
            direction,
            kind: kinds[self.below(choices) as usize],
            bytes: self.bytes(512, most),
        }
    }

    pub(super) fn in_order(&mut self, most: u64) -> Point {
        let access = match self.below(2) {
            0 => Access::Read,
            _ => Access::Write,
        };
        Point::InOrder {
            access,
            bytes: self.bytes(32 << 10, most),
        }
    }

    pub(super) fn strided(&mut self, bytes: u64) -> Point {
        Point::Strided {
            stride_bytes: self.bytes(8, 512).next_multiple_of(4) as u32,
            bytes,
        }
    }

    pub(super) fn footprint(&mut self, least: u64, most: u64) -> u64 {
        self.bytes(least, most).next_multiple_of(ROWS_BYTES)
    }

    pub(super) fn rows(&mut self, footprint_bytes: u64, most_bytes: u64) -> Point {
        let row_bytes = ROW_BYTES[self.below(ROW_BYTES.len() as u64) as usize];
        let most = (most_bytes / u64::from(row_bytes)).min(1 << 20);
        Point::Rows {
            row_bytes,
            footprint_bytes,
            count: self.bytes(1 << 15, most.max(1 << 16)).min(most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_repeatable_and_within_their_bounds() {
        let all = |seed| {
            let mut draw = Draw::new(seed);
            (0..200).map(|_| draw.copy(1 << 30)).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        for point in all(3) {
            let Point::Copy {
                direction,
                kind,
                bytes,
            } = point
            else {
                panic!("{point:?}");
            };
            assert!(
                (504..=1 << 30).contains(&bytes) && bytes % 8 == 0,
                "{bytes}"
            );
            assert!(direction == Direction::ToDevice || !kind.is_write_combined());
        }
    }

    #[test]
    fn a_footprint_has_a_whole_number_of_rows_of_every_size() {
        let mut draw = Draw::new(5);
        for _ in 0..20 {
            let bytes = draw.footprint(1 << 20, 1 << 30);
            assert!(
                ROW_BYTES
                    .iter()
                    .all(|row| bytes.is_multiple_of(u64::from(*row))),
                "{bytes}"
            );
        }
    }
}
