//! What a kernel spends on memory: on device memory, and on host memory that it uses in place.

use super::copy::{copy_engine_ns, copy_start_ns};
use crate::{Access, Direction, MemoryKind, Pattern, Profile};

/// Bytes that device and link move at least for one access (a sector).
pub const SECTOR_BYTES: u32 = 32;

/// A launch and the wait for it, for a kernel that does nothing.
pub fn launch_and_wait_ns(profile: &Profile) -> f64 {
    let calls = &profile.calls;
    calls.launch_call_ns.value
        + calls.launch_start_ns.value
        + calls.kernel_floor_ns.value
        + calls.sync_return_ns.value
}

/// One copy of page-locked memory to the device, and behind it in the same queue a kernel that
/// reads all of it once and is waited for. The launch call goes on while the copy runs.
pub fn copied_then_read_ns(profile: &Profile, kind: MemoryKind, bytes: u64) -> f64 {
    let (calls, way) = (&profile.calls, Direction::ToDevice);
    let copied_ns =
        copy_start_ns(profile, way, kind, bytes) + copy_engine_ns(profile, way, kind, bytes);
    let launched_ns = calls.launch_call_ns.value + calls.launch_start_ns.value;
    let once = Pattern::Sequential { passes: 1.0 };
    calls.copy_call_ns.value
        + copied_ns.max(launched_ns)
        + calls.kernel_floor_ns.value
        + kernel_device_memory_ns(profile, once, bytes)
        + calls.sync_return_ns.value
}

/// A kernel's traffic to a range of device memory of `bytes`, in whole sectors.
pub fn kernel_device_memory_ns(profile: &Profile, pattern: Pattern, bytes: u64) -> f64 {
    let kernel = &profile.kernel;
    match pattern {
        Pattern::Sequential { .. } => {
            pattern.useful_bytes(bytes) / kernel.device_memory_bytes_per_s.value * 1e9
        }
        Pattern::Strided {
            element_bytes,
            stride_bytes,
        } => {
            // Elements closer than a sector share it: then the whole range moves.
            let elements = bytes.div_ceil(u64::from(stride_bytes.max(element_bytes).max(1)));
            let moved = (elements as f64 * in_sectors(element_bytes)).min(bytes as f64);
            moved / kernel.device_memory_bytes_per_s.value * 1e9
        }
        Pattern::Random { row_bytes, count }
        | Pattern::Windowed {
            row_bytes, count, ..
        } => {
            let rate = kernel.device_random_sector_bytes_per_s.value;
            count as f64 * in_sectors(row_bytes) / rate * 1e9
        }
        // A profile has no latency of device memory: this is the least that the loads take.
        Pattern::Dependent { count } => {
            let rate = kernel.device_random_sector_bytes_per_s.value;
            count as f64 * in_sectors(4) / rate * 1e9
        }
    }
}

/// A kernel's accesses to a range of host memory of `bytes`, used in place, that are spread over
/// `footprint_bytes`: one latency, then useful bytes over their rate.
///
/// Random rows come from the profile's table. For strides, the profile's curve gives touches a
/// second of 4-byte elements; a larger element uses as many touches, up to the sequential rate.
/// Loads that depend on each other take a latency each.
pub fn zero_copy_ns(
    profile: &Profile,
    access: Access,
    pattern: Pattern,
    bytes: u64,
    footprint_bytes: u64,
) -> f64 {
    let useful = pattern.useful_bytes(bytes);
    if useful <= 0.0 {
        return 0.0;
    }
    let kernel = &profile.kernel;
    let in_order = match access {
        Access::Read => kernel.zero_copy_read_bytes_per_s.value,
        Access::Write => kernel.zero_copy_write_bytes_per_s.value,
    };
    let curves = &profile.curves;
    // The link carries whole sectors: a row takes as long as one that fills all it touches.
    let rows = |row_bytes: u32, footprint: u64| {
        let moved = in_sectors(row_bytes);
        let rate = curves
            .zero_copy_rows
            .rate_bytes_per_s(moved, footprint as f64);
        rate.min(in_order) * f64::from(row_bytes) / moved
    };
    let rate = match pattern {
        Pattern::Sequential { .. } => in_order,
        Pattern::Strided {
            element_bytes,
            stride_bytes,
        } => {
            let rate = curves
                .zero_copy_strided
                .rate_bytes_per_s(f64::from(stride_bytes.max(1)));
            (rate / 4.0 * f64::from(element_bytes)).min(in_order)
        }
        Pattern::Random { row_bytes, .. } => rows(row_bytes, footprint_bytes),
        // What counts is how far apart the accesses of one moment are.
        Pattern::Windowed {
            row_bytes,
            window_bytes,
            ..
        } => rows(row_bytes, footprint_bytes.min(window_bytes)),
        Pattern::Dependent { count } => return count as f64 * kernel.zero_copy_latency_ns.value,
    };
    kernel.zero_copy_latency_ns.value + useful / rate * 1e9
}

/// Putting a list of `count` row numbers into the order of address windows, on the device: two
/// small kernels that read the list, and for each element one access to a counter and one to its
/// place in the order.
pub fn window_order_ns(profile: &Profile, count: u64, number_bytes: u32) -> f64 {
    let once = Pattern::Sequential { passes: 2.0 };
    let places = Pattern::Random {
        row_bytes: 4,
        count: count.saturating_mul(2),
    };
    2.0 * launch_and_wait_ns(profile)
        + kernel_device_memory_ns(profile, once, count.saturating_mul(number_bytes.into()))
        + kernel_device_memory_ns(profile, places, 4 * count)
}

/// Bytes of the sectors that a row touches, as the mean over all places that rows of this size
/// begin at, one behind the other: those are the multiples of the largest power of two in it.
fn in_sectors(row_bytes: u32) -> f64 {
    let row_bytes = row_bytes.max(1);
    let step = SECTOR_BYTES.min(1 << row_bytes.trailing_zeros().min(31));
    f64::from(row_bytes - step + SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(pattern: Pattern, bytes: u64, footprint: u64) -> f64 {
        let ns = zero_copy_ns(&Profile::h200(), Access::Read, pattern, bytes, footprint);
        pattern.useful_bytes(bytes) / ns
    }

    fn rows(row_bytes: u32, footprint: u64) -> f64 {
        rows_of(row_bytes, 1 << 24, footprint)
    }

    fn rows_of(row_bytes: u32, count: u64, footprint: u64) -> f64 {
        rate(Pattern::Random { row_bytes, count }, footprint, footprint)
    }

    #[test]
    fn h200_zero_copy_matches_the_measured_tables() {
        let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 0.15, "{got} {want}");
        near(
            rate(Pattern::Sequential { passes: 1.0 }, 1 << 30, 1 << 30),
            50.9,
        );
        for (k, want) in [
            (2, 25.6),
            (4, 12.8),
            (8, 6.4),
            (16, 3.6),
            (32, 2.5),
            (64, 2.6),
        ] {
            let (element_bytes, stride_bytes) = (4, 4 * k);
            let strided = Pattern::Strided {
                element_bytes,
                stride_bytes,
            };
            near(rate(strided, 1 << 30, 1 << 30), want);
        }
        near(rows(128, 1 << 28), 51.0);
        near(rows(128, 1 << 30), 14.9);
        near(rows(32, 4 << 30), 1.6);
        near(rows(1024, 8 << 30), 44.3);
        near(rows(4, 32 << 30), 0.15);
    }

    #[test]
    fn h200_launch_and_wait_is_the_measured_sum() {
        assert_eq!(launch_and_wait_ns(&Profile::h200()), 8300.0);
    }

    #[test]
    fn a_row_counts_with_the_sectors_that_it_touches() {
        for row_bytes in [4u32, 8, 12, 20, 32, 40, 48, 80, 96, 768] {
            let sectors = |k: u32| {
                let (first, last) = (k * row_bytes, (k + 1) * row_bytes - 1);
                last / SECTOR_BYTES - first / SECTOR_BYTES + 1
            };
            let mean = f64::from((0..SECTOR_BYTES).map(sectors).sum::<u32>()) / 32.0;
            assert_eq!(in_sectors(row_bytes), 32.0 * mean, "{row_bytes}");
        }
    }

    #[test]
    fn device_memory_moves_whole_sectors() {
        let h200 = Profile::h200();
        let random = Pattern::Random {
            row_bytes: 4,
            count: 1 << 30,
        };
        let rate = (4u64 << 30) as f64 / kernel_device_memory_ns(&h200, random, 4 << 30);
        assert!((rate / 160.0 - 1.0).abs() < 0.01, "{rate}");
        let all = kernel_device_memory_ns(&h200, Pattern::Sequential { passes: 1.0 }, 1 << 30);
        let every_second = Pattern::Strided {
            element_bytes: 4,
            stride_bytes: 8,
        };
        assert_eq!(kernel_device_memory_ns(&h200, every_second, 1 << 30), all);
    }

    #[test]
    fn rows_by_windows_cost_what_they_do_over_one_window() {
        let count = 1 << 22;
        let (row_bytes, window_bytes) = (128, 64 << 20);
        let windowed = Pattern::Windowed {
            row_bytes,
            count,
            window_bytes,
        };
        assert_eq!(
            rate(windowed, 8 << 30, 8 << 30),
            rows_of(128, count, 64 << 20)
        );
        assert!(rate(windowed, 8 << 30, 8 << 30) > 8.0 * rows_of(128, count, 8 << 30));
        // 4 Mi elements were put into order in 0.2 ms or so.
        let order_ns = window_order_ns(&Profile::h200(), count, 4);
        assert!((50e3..500e3).contains(&order_ns), "{order_ns}");
    }

    #[test]
    fn a_kernel_behind_a_copy_waits_for_the_copy_or_for_its_own_launch() {
        let h200 = Profile::h200();
        let ns = |bytes| copied_then_read_ns(&h200, MemoryKind::PageLocked, bytes);
        // call 1.8, start 4.8 less 1.6 for a small copy, launch 2.2 + 3.1, floor 1.0, return 2.0
        assert!((ns(4) - 10_100.0).abs() < 1.0, "{}", ns(4));
        let large = 1 << 30;
        let copied =
            crate::cost::copy_ns(&h200, Direction::ToDevice, MemoryKind::PageLocked, large);
        assert!(ns(large) > copied + 1000.0 && ns(large) < copied * 1.02);
    }

    #[test]
    fn nothing_touched_costs_nothing() {
        let none = Pattern::Random {
            row_bytes: 4,
            count: 0,
        };
        assert_eq!(
            zero_copy_ns(&Profile::h200(), Access::Read, none, 1 << 20, 1 << 20),
            0.0
        );
    }
}
