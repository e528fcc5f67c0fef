//! Kernels that use host memory where it lies, in order and with a stride, and one load that waits
//! for the one before; the same on device memory, to compare.

use super::super::table::Figure;
use super::rig::{LIMIT, Rig, SEED, check, check_host, fill, word_of};
use crate::error::Result;
use crate::progress::Progress;
use pinfold::kernels::chase::Chaser;
use pinfold::kernels::read::Reader;
use pinfold::{InFlight, MemoryKind, UploadBuffer, ZeroCopyBuffer};

/// Distances of two elements of 4 bytes.
const STRIDE_BYTES: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];
/// What is walked over with a stride.
const STRIDED_BYTES_MAX: u64 = 256 << 20;
/// Loads of the short and the long walk: their difference has no launch in it.
const STEPS: [u64; 2] = [1 << 8, 1 << 12];
/// Memory of the walk: beyond what any cache holds.
const WALK_BYTES_MAX: u64 = 256 << 20;
/// Device memory that is read: far beyond the level-2 cache.
const DEVICE_BYTES: u64 = 1 << 30;

/// Nanoseconds with launch and wait by bytes.
pub(super) type BySize = Vec<(u64, Figure)>;

/// What is used in place.
pub(super) struct Measured {
    pub(super) reads_ns: BySize,
    pub(super) write_combined_reads_ns: BySize,
    pub(super) writes_ns: BySize,
    /// Distance of elements, bytes of the range, nanoseconds.
    pub(super) strided_ns: Vec<(u32, u64, Figure)>,
    /// One load of host memory, and of device memory where the device is a real one: a profile
    /// has no latency of device memory.
    pub(super) latency_ns: Figure,
    pub(super) device_latency_ns: Option<Figure>,
    /// Bytes read of device memory, and the nanoseconds of it.
    pub(super) device_read: (u64, Figure),
}

/// Measures what kernels do in place.
pub(super) fn measure(rig: &mut Rig, progress: &mut dyn Progress) -> Result<Measured> {
    let sizes = rig.plan.in_place_bytes.clone();
    progress.begin("in place", sizes.len() as u64 + 3);
    let (mut reads_ns, mut combined_ns, mut writes_ns) = (Vec::new(), Vec::new(), Vec::new());
    for bytes in sizes {
        let [read, combined, write] = in_order(rig, bytes)?;
        reads_ns.push((bytes, read));
        combined_ns.push((bytes, combined));
        writes_ns.push((bytes, write));
        progress.step();
    }
    let strided_ns = strided(rig)?;
    progress.step();
    let (latency_ns, device_latency_ns) = latencies(rig)?;
    progress.step();
    let device_read = device_read(rig)?;
    progress.step();
    progress.end();
    Ok(Measured {
        reads_ns,
        write_combined_reads_ns: combined_ns,
        writes_ns,
        strided_ns,
        latency_ns,
        device_latency_ns,
        device_read,
    })
}

/// One size's memory of both kinds.
struct InOrder {
    mapped: InFlight<ZeroCopyBuffer<u64>>,
    combined: InFlight<UploadBuffer<u64>>,
}

/// Mapped memory read, write-combined mapped memory read, mapped memory written.
fn in_order(rig: &mut Rig, bytes: u64) -> Result<[Figure; 3]> {
    let words = (bytes / 8) as usize;
    let mut mapped = rig
        .pooled
        .of_kind(MemoryKind::Mapped)
        .zero_copy::<u64>(words)?;
    fill(&mut mapped, word_of);
    let combined = rig.pooled.of_kind(MemoryKind::MappedWriteCombined);
    let mut combined = combined.upload_in_place::<u64>(words)?;
    combined.write_each(|i| word_of(i as u64));
    let mut lent = InOrder {
        mapped: mapped.lend(),
        combined: combined.lend(),
    };
    let figures = rig.rounds(&mut [0, 1, 2], rig.plan.repeats(bytes), |rig, way| {
        rig.until_done(|rig| match way {
            0 => Ok(rig
                .patterns
                .check(&rig.stream, &lent.mapped, SEED, &mut rig.found)?),
            1 => Ok(rig
                .patterns
                .check(&rig.stream, &lent.combined, SEED, &mut rig.found)?),
            _ => Ok(rig.patterns.fill(&rig.stream, &mut lent.mapped, SEED)?),
        })
    })?;
    rig.check_device(&lent.mapped)?;
    rig.check_device(&lent.combined)?;
    check_host(lent.mapped.wait()?.as_slice())?;
    drop(lent.combined.wait()?);
    let [read, combined, write] = [0, 1, 2].map(|way: usize| figures[way]);
    Ok([read, combined, write])
}

fn strided(rig: &mut Rig) -> Result<Vec<(u32, u64, Figure)>> {
    let bytes = rig.plan.bytes_max().min(STRIDED_BYTES_MAX);
    let mut mapped = (rig.pooled).zero_copy::<u64>((bytes / 8) as usize)?;
    fill(&mut mapped, word_of);
    let lent = mapped.lend();
    let mut strides = STRIDE_BYTES;
    let repeats = rig.plan.repeats(bytes);
    let figures = rig.rounds(&mut strides, repeats, |rig, stride| {
        rig.until_done(|rig| {
            let found = &mut rig.found;
            Ok((rig.patterns).check_strided(&rig.stream, &lent, *stride, SEED, found)?)
        })
    })?;
    for stride in STRIDE_BYTES {
        let cell = &mut rig.cell;
        let found = (rig.patterns).check_strided(&rig.stream, &lent, stride, SEED, cell)?;
        check(rig.cell.wait(found, LIMIT)?[0] == 0.0)?;
    }
    drop(lent.wait()?);
    let strides = STRIDE_BYTES.into_iter().zip(figures);
    Ok(strides.map(|(stride, ns)| (stride, bytes, ns)).collect())
}

/// One load of mapped and of device memory.
fn latencies(rig: &mut Rig) -> Result<(Figure, Option<Figure>)> {
    let bytes = rig.plan.bytes_max().min(WALK_BYTES_MAX);
    let places = (bytes / 4) as usize;
    // A large odd step over a power of two comes by every place, and never near the last one.
    let step = |i: u64| ((i + 0x009E_3779) & (places as u64 - 1)) as u32;
    let mut mapped = rig.pooled.zero_copy::<u32>(places)?;
    fill(&mut mapped, step);
    let mut there = rig.pooled.device::<u32>(places)?;
    let mapped = rig.stream.upload(mapped, &mut there)?;
    let mut chaser = Chaser::load(&rig.pooled, &rig.stream)?;
    rig.stream.synchronize()?;
    let mut one = |rig: &mut Rig, in_place: bool| -> Result<f64> {
        let mut ns = [0.0; 2];
        for (ns, steps) in ns.iter_mut().zip(STEPS) {
            *ns = rig.until_done(|rig| {
                let (stream, found) = (&rig.stream, &mut rig.found);
                match in_place {
                    true => chaser.run(stream, &mapped, steps, found)?,
                    false => chaser.run(stream, &there, steps, found)?,
                }
                Ok(())
            })?;
        }
        Ok(((ns[1] - ns[0]) / (STEPS[1] - STEPS[0]) as f64).max(0.0))
    };
    let repeats = rig.plan.repeats(bytes);
    let figures = rig.rounds(&mut [true, false], repeats, |rig, in_place| {
        one(rig, *in_place)
    })?;
    let end = chaser.run(&rig.stream, &mapped, STEPS[0], &mut rig.cell)?;
    let want = (0..STEPS[0]).fold(0, |place, _| u64::from(step(place)));
    check(rig.cell.wait(end, LIMIT)?[0] == want as f64)?;
    drop(mapped.wait()?);
    let there = figures.get(1).copied().filter(|_| !rig.plan.simulated);
    Ok((figures[0], there))
}

/// Device memory read in order.
fn device_read(rig: &mut Rig) -> Result<(u64, Figure)> {
    let bytes = match rig.plan.simulated {
        true => rig.plan.bytes_max(),
        false => DEVICE_BYTES.min(rig.device.info().memory_bytes / 8),
    };
    let mut memory = rig.pooled.device::<f32>((bytes / 4) as usize)?;
    rig.stream.fill(&mut memory, 0)?;
    let mut reader = Reader::load(&rig.pooled, &rig.stream)?;
    let figure = rig.repeat(rig.plan.repeats(bytes), |rig| {
        rig.until_done(|rig| {
            reader.run(&rig.stream, &memory, &mut rig.found)?;
            Ok(())
        })
    })?;
    let sum = reader.run(&rig.stream, &memory, &mut rig.cell)?;
    check(rig.cell.wait(sum, LIMIT)?[0] == 0.0)?;
    Ok((bytes, figure))
}
