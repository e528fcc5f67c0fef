//! Ordinary memory carried through page-locked slots by several host threads, while earlier slots
//! are on the link.

use super::copy::{copy_engine_ns, copy_ns};
use crate::{Direction, MemoryKind, Profile};

/// The rate of `threads` threads in bytes a second: what the threads copy and what the link
/// carries, as the root of the sum of their inverse squares. Threads and link disturb each other in
/// the memory that they share, so that the slower one alone is not reached where the two are close.
/// Within 10 % of what was measured on an H200 with 1, 2, 4 and 8 threads.
pub fn staged_bytes_per_s(profile: &Profile, direction: Direction, threads: u32) -> f64 {
    let copied = f64::from(threads.max(1)) * profile.staging.thread_bytes_per_s.value;
    let carried = match direction {
        Direction::ToDevice => profile.link.to_device_bytes_per_s.value,
        Direction::ToHost => profile.link.to_host_bytes_per_s.value,
    };
    1.0 / (copied.powi(-2) + carried.powi(-2)).sqrt()
}

/// One transfer of `bytes` in chunks of `chunk_bytes`: waking the threads; the first chunk of each,
/// which all copy side by side while the link has nothing to carry yet; then what is left to copy
/// beside what the link carries, put together as in [`staged_bytes_per_s`]; and the wait for the
/// last chunk. To the host the same happens the other way round.
pub fn staged_ns(
    profile: &Profile,
    direction: Direction,
    threads: u32,
    chunk_bytes: u64,
    bytes: u64,
) -> f64 {
    let chunk_bytes = chunk_bytes.clamp(1, bytes.max(1));
    let chunks = bytes.div_ceil(chunk_bytes).max(1);
    let at_work = u64::from(threads.max(1)).min(chunks);
    let thread_bytes_per_s = profile.staging.thread_bytes_per_s.value;
    let first_ns = chunk_bytes as f64 / thread_bytes_per_s * 1e9;
    let left_bytes = bytes.saturating_sub(at_work * chunk_bytes) as f64;
    let left_ns = left_bytes / (at_work as f64 * thread_bytes_per_s) * 1e9;
    let kind = MemoryKind::PageLocked;
    let carried_ns = copy_engine_ns(profile, direction, kind, bytes);
    let ends_ns = copy_ns(profile, direction, kind, chunk_bytes)
        - copy_engine_ns(profile, direction, kind, chunk_bytes);
    profile.staging.wake_ns.value + first_ns + left_ns.hypot(carried_ns) + ends_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h200_rates_are_within_10_percent_of_what_was_measured() {
        let h200 = Profile::h200();
        for (threads, measured) in [(1, 8.8e9), (2, 17.2e9), (4, 29.0e9), (8, 47.1e9)] {
            let rate = staged_bytes_per_s(&h200, Direction::ToDevice, threads);
            let off = rate / measured - 1.0;
            assert!(off.abs() < 0.10, "{threads} threads: {off:+.3}");
        }
    }

    #[test]
    fn one_chunk_is_copied_once_and_much_goes_at_the_rate() {
        let h200 = Profile::h200();
        let (chunk, way) = (2 << 20, Direction::ToDevice);
        let alone = staged_ns(&h200, way, 8, chunk, chunk);
        let copied = chunk as f64 / h200.staging.thread_bytes_per_s.value * 1e9;
        let copy = copy_ns(&h200, way, MemoryKind::PageLocked, chunk);
        assert!((alone / (h200.staging.wake_ns.value + copied + copy) - 1.0).abs() < 1e-9);
        let bytes = 8 << 30;
        let rate = bytes as f64 / staged_ns(&h200, way, 8, chunk, bytes) * 1e9;
        assert!((rate / staged_bytes_per_s(&h200, way, 8) - 1.0).abs() < 0.01);
    }

    #[test]
    fn staging_pays_for_much_and_not_for_little() {
        let h200 = Profile::h200();
        let driver = |bytes| copy_ns(&h200, Direction::ToDevice, MemoryKind::Pageable, bytes);
        let staged = |bytes| staged_ns(&h200, Direction::ToDevice, 8, 2 << 20, bytes);
        assert!(staged(1 << 30) < driver(1 << 30) / 4.0);
        assert!(staged(16 << 10) > driver(16 << 10));
    }
}
