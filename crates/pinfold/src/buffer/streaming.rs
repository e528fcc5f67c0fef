//! Writes that go past the processor's caches.
//!
//! What the host writes for a device it does not read again. Written by ordinary stores it stays in
//! the core's own caches, and every line that the device then asks for has to be found and fetched
//! from there. On an H200 behind a Xeon a kernel got 512 KiB of fresh host memory in 24 µs instead
//! of 37 where it had been written by streaming stores (`bench/results`, `bench-fresh.json`). It is
//! what write-combined memory is for, and works in memory of any kind.

/// Below this, the fence costs more than the device gains.
const STREAMED_BYTES_MIN: usize = 4096;

/// Copies `bytes` bytes; where they are many, by streaming stores. They are visible to devices, as
/// those of ordinary stores are, when this returns.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes < STREAMED_BYTES_MIN {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { copy_much(from, to, bytes) };
}

#[cfg(target_arch = "x86_64")]
unsafe fn copy_much(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    /// Bytes of one store, and what its address is a multiple of.
    const UNIT: usize = size_of::<__m128i>();
    let head = to.align_offset(UNIT).min(bytes);
    let units = (bytes - head) / UNIT;
    // SAFETY: head, units and tail are the parts of the caller's ranges one behind the other; the
    // units' target is aligned, as streaming stores need. SSE2 is part of x86-64. The fence orders
    // the streaming stores before all later ones, also those that start the device.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let (from_units, to_units) = (from.add(head), to.add(head));
        for at in (0..units).map(|n| n * UNIT) {
            let unit = _mm_loadu_si128(from_units.add(at).cast());
            _mm_stream_si128(to_units.add(at).cast(), unit);
        }
        let done = head + units * UNIT;
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), bytes - done);
        _mm_sfence();
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_much(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_wherever_it_begins_and_nothing_else_is_touched() {
        let from: Vec<u8> = (0..3 * STREAMED_BYTES_MIN).map(|i| (i * 7) as u8).collect();
        for (skip, at, bytes) in [
            (0, 0, 0),
            (1, 3, 100),
            (0, 0, STREAMED_BYTES_MIN),
            (3, 5, STREAMED_BYTES_MIN + 1),
            (8, 16, 2 * STREAMED_BYTES_MIN + 15),
            (15, 1, 2 * STREAMED_BYTES_MIN - 1),
        ] {
            let mut to = vec![0xA5; 3 * STREAMED_BYTES_MIN];
            let target = &mut to[at..at + bytes];
            // SAFETY: both ranges are inside their vectors.
            unsafe { copy(from[skip..].as_ptr(), target.as_mut_ptr(), bytes) };
            assert_eq!(to[at..at + bytes], from[skip..skip + bytes]);
            let rest = to[..at].iter().chain(&to[at + bytes..]);
            assert!(rest.into_iter().all(|byte| *byte == 0xA5));
        }
    }
}
