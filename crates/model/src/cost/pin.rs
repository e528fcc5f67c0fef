//! What page-locked memory costs to get and give back, and after how many uses it has paid.

use super::copy_ns;
use crate::{Direction, MemoryKind, Profile};

/// Getting memory of a kind. `Registered` is the registration alone, of memory that exists.
/// Pageable memory costs nothing here: it is touched by whoever fills it.
pub fn allocate_ns(profile: &Profile, kind: MemoryKind, bytes: u64) -> f64 {
    let a = &profile.allocation;
    let (fixed, per_byte) = match kind {
        MemoryKind::Pageable => return 0.0,
        MemoryKind::Device => return a.device_alloc_ns.value,
        MemoryKind::PageLocked | MemoryKind::Mapped => {
            (a.host_alloc_fixed_ns, a.host_alloc_ns_per_byte)
        }
        MemoryKind::WriteCombined | MemoryKind::MappedWriteCombined => (
            a.write_combined_alloc_fixed_ns,
            a.write_combined_alloc_ns_per_byte,
        ),
        MemoryKind::Registered => (a.register_fixed_ns, a.register_ns_per_byte),
    };
    fixed.value + per_byte.value * bytes as f64
}

/// Giving memory of a kind back.
pub fn free_ns(profile: &Profile, kind: MemoryKind, bytes: u64) -> f64 {
    let a = &profile.allocation;
    let (fixed, per_byte) = match kind {
        MemoryKind::Pageable => return 0.0,
        MemoryKind::Device => return a.device_free_ns.value,
        MemoryKind::Registered => (a.unregister_fixed_ns, a.unregister_ns_per_byte),
        _ => (a.host_free_fixed_ns, a.host_free_ns_per_byte),
    };
    fixed.value + per_byte.value * bytes as f64
}

/// Uses after which page-locking at one rate has paid, where each use then copies at the
/// page-locked rate instead of the pageable one: `(1/R_pin) / (1/B_pageable − 1/B_pinned)`.
///
/// `None` where it never pays because the page-locked copy is not faster.
pub fn break_even_uses(
    pin_bytes_per_s: f64,
    pageable_bytes_per_s: f64,
    page_locked_bytes_per_s: f64,
) -> Option<f64> {
    let saved_s_per_byte = 1.0 / pageable_bytes_per_s - 1.0 / page_locked_bytes_per_s;
    (saved_s_per_byte > 0.0).then(|| 1.0 / pin_bytes_per_s / saved_s_per_byte)
}

/// The same for one block on a machine, with fixed costs and the way back: uses after which getting
/// and giving back memory of `kind` has paid against pageable copies. `None` where it never does.
pub fn pinning_break_even_uses(
    profile: &Profile,
    direction: Direction,
    kind: MemoryKind,
    bytes: u64,
) -> Option<f64> {
    let pageable_ns = copy_ns(profile, direction, MemoryKind::Pageable, bytes);
    let saved_ns = pageable_ns - copy_ns(profile, direction, kind, bytes);
    let spent_ns = allocate_ns(profile, kind, bytes) + free_ns(profile, kind, bytes);
    (saved_ns > 0.0).then(|| spent_ns / saved_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = (1u64 << 30) as f64;

    #[test]
    fn pinning_pays_after_the_uses_that_the_formula_says() {
        let slow = break_even_uses(2.7 * GIB, 8e9, 55e9).unwrap();
        assert!((slow - 3.2).abs() < 0.05, "{slow}");
        let fast = break_even_uses(31.0 * GIB, 8e9, 55e9).unwrap();
        assert!(fast < 1.0, "{fast}");
        assert_eq!(break_even_uses(1e9, 8e9, 8e9), None);
    }

    #[test]
    fn registering_pays_earlier_than_allocating() {
        let h200 = Profile::h200();
        let uses = |kind| pinning_break_even_uses(&h200, Direction::ToDevice, kind, 1 << 30);
        assert!(uses(MemoryKind::Registered).unwrap() < uses(MemoryKind::PageLocked).unwrap());
    }
}
