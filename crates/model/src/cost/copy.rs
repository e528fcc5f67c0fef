//! Copies by the driver between host and device: `t = call + start + bytes / rate + return`.

use crate::{Direction, MemoryKind, Profile};

/// One copy with its call and the wait for it. Memory that is not page-locked follows the
/// profile's measured curve, in which staging is included. `Device` means a copy inside the device.
pub fn copy_ns(profile: &Profile, direction: Direction, kind: MemoryKind, bytes: u64) -> f64 {
    let calls = &profile.calls;
    match kind {
        MemoryKind::Pageable => pageable_curve_ns(profile, direction, bytes),
        _ => {
            calls.copy_call_ns.value
                + copy_start_ns(profile, direction, kind, bytes)
                + copy_engine_ns(profile, direction, kind, bytes)
                + calls.sync_return_ns.value
        }
    }
}

/// From the return of the copy call to the first byte.
pub fn copy_start_ns(profile: &Profile, direction: Direction, kind: MemoryKind, bytes: u64) -> f64 {
    let calls = &profile.calls;
    match direction {
        Direction::ToHost => calls.copy_to_host_start_ns.value,
        Direction::ToDevice => {
            let rides_along =
                kind != MemoryKind::Device && bytes as f64 <= calls.small_copy_bytes.value;
            let saving = if rides_along {
                calls.small_copy_saving_ns.value
            } else {
                0.0
            };
            (calls.copy_to_device_start_ns.value - saving).max(0.0)
        }
    }
}

/// The time that a copy keeps its engine busy: bytes over rate; for pageable memory what the curve
/// leaves after call, start and return.
pub fn copy_engine_ns(
    profile: &Profile,
    direction: Direction,
    kind: MemoryKind,
    bytes: u64,
) -> f64 {
    if kind == MemoryKind::Pageable {
        let calls = &profile.calls;
        let around = calls.copy_call_ns.value
            + copy_start_ns(profile, direction, kind, bytes)
            + calls.sync_return_ns.value;
        return (pageable_curve_ns(profile, direction, bytes) - around).max(0.0);
    }
    bytes as f64 / link_rate_bytes_per_s(profile, direction, kind) * 1e9
}

/// How fast the other direction's copy goes while one runs at full rate, as a part of its own rate.
///
/// With `b` the rate of one direction and `d` the total of both, the later of two equal copies that
/// start together goes at `b·(2 − b/(d/2))` until the first is done, and then at `b`; so both are
/// done after `2·bytes/d`.
pub fn both_directions_slowdown(profile: &Profile, direction: Direction) -> f64 {
    let link = &profile.link;
    let one_way = match direction {
        Direction::ToDevice => link.to_device_bytes_per_s.value,
        Direction::ToHost => link.to_host_bytes_per_s.value,
    };
    (2.0 - one_way / (link.both_directions_bytes_per_s.value / 2.0)).clamp(0.0, 1.0)
}

fn pageable_curve_ns(profile: &Profile, direction: Direction, bytes: u64) -> f64 {
    let curve = match direction {
        Direction::ToDevice => &profile.curves.pageable_to_device,
        Direction::ToHost => &profile.curves.pageable_to_host,
    };
    curve.time_ns(bytes as f64)
}

fn link_rate_bytes_per_s(profile: &Profile, direction: Direction, kind: MemoryKind) -> f64 {
    let link = &profile.link;
    if kind == MemoryKind::Device {
        // Every byte is read and written.
        return profile.kernel.device_memory_bytes_per_s.value / 2.0;
    }
    let rate = match (direction, kind.is_write_combined()) {
        (Direction::ToDevice, false) => link.to_device_bytes_per_s,
        (Direction::ToDevice, true) => link.write_combined_to_device_bytes_per_s,
        (Direction::ToHost, false) => link.to_host_bytes_per_s,
        (Direction::ToHost, true) => link.write_combined_to_host_bytes_per_s,
    };
    rate.value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZES: [u64; 7] = [
        1 << 10,
        1 << 14,
        1 << 18,
        1 << 20,
        1 << 24,
        1 << 28,
        1 << 30,
    ];

    /// The measured table of copies, GB/s with call and wait, at `SIZES`.
    const MEASURED: [(Direction, MemoryKind, [f64; 7]); 6] = {
        use Direction::{ToDevice, ToHost};
        use MemoryKind::{PageLocked, Pageable, Registered, WriteCombined};
        [
            (ToDevice, Pageable, [0.14, 1.4, 8.8, 11.6, 12.4, 7.7, 8.3]),
            (
                ToDevice,
                PageLocked,
                [0.15, 1.7, 19.8, 37.6, 53.8, 55.0, 55.0],
            ),
            (
                ToDevice,
                WriteCombined,
                [0.14, 1.8, 20.1, 38.0, 53.7, 53.9, 53.5],
            ),
            (
                ToDevice,
                Registered,
                [0.14, 1.7, 19.9, 38.2, 53.7, 54.7, 54.8],
            ),
            (ToHost, Pageable, [0.12, 1.6, 7.4, 9.8, 13.8, 15.9, 14.0]),
            (
                ToHost,
                PageLocked,
                [0.14, 2.2, 21.8, 39.6, 54.1, 55.2, 55.2],
            ),
        ]
    };

    #[test]
    fn h200_copies_are_predicted_within_15_percent_of_the_measured_table() {
        let h200 = Profile::h200();
        for (direction, kind, rates) in MEASURED {
            for (bytes, rate) in SIZES.into_iter().zip(rates) {
                let measured_ns = bytes as f64 / rate;
                let predicted_ns = copy_ns(&h200, direction, kind, bytes);
                let off = predicted_ns / measured_ns - 1.0;
                assert!(
                    off.abs() < 0.15,
                    "{direction:?} {kind:?} {bytes}: {off:+.3}"
                );
            }
        }
    }

    #[test]
    fn two_equal_copies_in_both_directions_finish_at_the_total_rate() {
        let h200 = Profile::h200();
        let one_way = h200.link.to_device_bytes_per_s.value;
        let slowed = one_way * both_directions_slowdown(&h200, Direction::ToDevice);
        let bytes = 1e9;
        let first_s = bytes / one_way;
        let second_s = first_s + (bytes - slowed * first_s) / one_way;
        let total = 2.0 * bytes / second_s;
        assert!((total / 92.5e9 - 1.0).abs() < 1e-9, "{total}");
    }

    proptest! {
        #[test]
        fn a_larger_copy_never_takes_less_time(
            name in proptest::sample::select(Profile::shipped_names()),
            kind in proptest::sample::select(&MemoryKind::ALL[..]),
            to_device in any::<bool>(),
            a in 0u64..1 << 34,
            b in 0u64..1 << 34,
        ) {
            let profile = Profile::shipped(name).unwrap();
            let direction = if to_device { Direction::ToDevice } else { Direction::ToHost };
            let (small, large) = (a.min(b), a.max(b));
            let (t0, t1) = (
                copy_ns(&profile, direction, kind, small),
                copy_ns(&profile, direction, kind, large),
            );
            prop_assert!(t0 <= t1 * (1.0 + 1e-12), "{} {:?}: {} > {}", name, kind, t0, t1);
        }
    }
}
