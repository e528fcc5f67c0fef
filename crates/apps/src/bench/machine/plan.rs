//! How much is measured: sizes and repetitions, by what the machine has room for and by whether it
//! has to be quick.

use pinfold::Device;

/// Copies, in bytes; each machine leaves out what it has no room for.
const COPY_BYTES: [u64; 11] = [
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
    1 << 30,
];
/// Fresh page-locked memory.
const PIN_BYTES: [u64; 6] = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30];
/// In place, in order.
const IN_PLACE_BYTES: [u64; 7] = [
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
];
/// What random rows lie in.
const FOOTPRINT_BYTES: [u64; 10] = [
    64 << 20,
    256 << 20,
    512 << 20,
    768 << 20,
    1 << 30,
    3 << 29,
    2 << 30,
    4 << 30,
    8 << 30,
    16 << 30, // rows of 4 bytes are numbered in 32 bits
];
const FOOTPRINT_BYTES_QUICK: [u64; 7] = [
    256 << 20,
    512 << 20,
    768 << 20,
    1 << 30,
    3 << 29,
    2 << 30,
    4 << 30,
];
const FOOTPRINT_BYTES_SIMULATED: [u64; 2] = [4 << 20, 16 << 20];
/// A simulated device holds all of it in ordinary memory, and is slower in real time.
const SIMULATED_BYTES_MAX: u64 = 16 << 20;
/// What is left over of the memory that may be page-locked.
const ROOM_PART: u64 = 4;

/// Sizes and repetitions.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Plan {
    pub(in crate::bench) quick: bool,
    pub(in crate::bench) simulated: bool,
    pub(in crate::bench) copy_bytes: Vec<u64>,
    pub(in crate::bench) pin_bytes: Vec<u64>,
    pub(in crate::bench) stage_bytes: u64,
    pub(in crate::bench) threads: Vec<u32>,
    pub(in crate::bench) in_place_bytes: Vec<u64>,
    pub(in crate::bench) footprint_bytes: Vec<u64>,
    /// Most random rows of one launch.
    pub(in crate::bench) rows_max: u64,
    /// Most bytes that random rows of one launch have.
    pub(in crate::bench) rows_bytes_max: u64,
}

impl Plan {
    pub(in crate::bench) fn new(device: &Device, quick: bool) -> Self {
        let simulated = device.is_simulated();
        let room = pinfold_machine::Machine::read().pin_headroom().bytes / ROOM_PART;
        let most = match (simulated, quick) {
            (true, _) => SIMULATED_BYTES_MAX.min(room),
            (false, true) => (256 << 20).min(room),
            (false, false) => (1 << 30).min(room),
        };
        let up_to = |most: u64, sizes: &[u64]| -> Vec<u64> {
            let fit = sizes.iter().copied().filter(|bytes| *bytes <= most);
            let fit: Vec<u64> = fit.collect();
            match fit.is_empty() {
                true => vec![sizes[0]],
                false => fit,
            }
        };
        let footprints = match (simulated, quick) {
            (true, _) => up_to(most, &FOOTPRINT_BYTES_SIMULATED),
            (false, true) => up_to(room, &FOOTPRINT_BYTES_QUICK),
            (false, false) => up_to(room, &FOOTPRINT_BYTES),
        };
        Plan {
            quick,
            simulated,
            copy_bytes: up_to(most, &COPY_BYTES),
            pin_bytes: up_to(most, &PIN_BYTES),
            stage_bytes: most,
            threads: threads(),
            in_place_bytes: up_to(most.min(256 << 20), &IN_PLACE_BYTES),
            footprint_bytes: footprints,
            rows_max: if simulated || quick { 1 << 20 } else { 4 << 20 },
            rows_bytes_max: most.min(256 << 20),
        }
    }

    /// Repetitions of what moves so many bytes; virtual time is the same every time.
    pub(in crate::bench) fn repeats(&self, bytes: u64) -> usize {
        let full: usize = match bytes {
            _ if self.simulated => return 1,
            ..=0x10_0000 => 41,
            0x10_0001..=0x100_0000 => 21,
            _ => 7,
        };
        if self.quick { full.div_ceil(2) } else { full }
    }

    /// Repetitions of what is short and costs nothing.
    pub(in crate::bench) fn many(&self) -> usize {
        self.repeats(0)
    }

    /// Most bytes of one copy.
    pub(in crate::bench) fn bytes_max(&self) -> u64 {
        self.copy_bytes.last().copied().unwrap_or(1 << 10)
    }
}

/// 1, 2, 4 and so on threads, up to one for each processor and 16.
fn threads() -> Vec<u32> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let powers = (0..5).map(|n| 1 << n);
    powers.filter(|n| *n <= processors.max(2)).collect()
}
