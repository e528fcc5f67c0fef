//! What this machine's host memory does, measured in a moment.
//!
//! A full benchmark is another matter. This is what a job needs before it can choose: how long it
//! takes until a kernel has read so many bytes that are fresh in host memory, on every way there
//! is.

use crate::buffer::{Expected, HandOver, InFlight, ScalarCell, UploadBuffer};
use crate::device::Device;
use crate::error::Result;
use crate::kernels::CellBuffer;
use crate::kernels::read::Reader;
use crate::memory::{Measured, Memory};
use crate::stream::Stream;
use pinfold_model::MemoryKind;
use serde::Serialize;
use std::time::Duration;

/// Time by size, measured at some sizes and interpolated between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Curve {
    /// Bytes, ascending, with nanoseconds.
    pub points: Vec<(u64, f64)>,
}

impl Curve {
    /// The time for that many bytes: on straight lines between the points, at the first point's
    /// time below it, and at the last line's rate beyond. 0 for a curve without points.
    pub fn time_ns(&self, bytes: u64) -> f64 {
        let Some(first) = self.points.first() else {
            return 0.0;
        };
        if bytes <= first.0 || self.points.len() == 1 {
            return first.1;
        }
        let after = self
            .points
            .partition_point(|(b, _)| *b < bytes)
            .min(self.points.len() - 1);
        let ((b0, t0), (b1, t1)) = (self.points[after - 1], self.points[after]);
        t0 + (t1 - t0) * (bytes - b0) as f64 / (b1 - b0) as f64
    }

    /// The rate of the last line in bytes a second.
    pub fn rate_bytes_per_s(&self) -> f64 {
        match self.points.as_slice() {
            [.., (b0, t0), (b1, t1)] if t1 > t0 => (b1 - b0) as f64 / (t1 - t0) * 1e9,
            _ => 0.0,
        }
    }
}

/// How long it takes until a kernel has read data that is fresh in host memory, and the host knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadCosts {
    /// The device's label.
    pub device: String,
    /// True where the times are virtual.
    pub simulated: bool,
    /// One copy from page-locked memory, then a kernel.
    pub copy_page_locked: Curve,
    /// One copy from write-combined memory, then a kernel.
    pub copy_write_combined: Curve,
    /// A kernel that reads mapped memory in place.
    pub in_place: Curve,
    /// A kernel that reads mapped write-combined memory in place.
    pub in_place_write_combined: Curve,
    /// What each further copy in the same queue adds to the time of their bytes in one copy.
    pub further_copy_ns: f64,
    /// A small kernel's scalar, copied back and waited for.
    pub scalar_copied_ns: f64,
    /// A small kernel's scalar, published into mapped memory and polled for.
    pub scalar_published_ns: f64,
}

/// Sizes that are measured, in KiB: closest where copies and reads in place cross.
const SIZES_KIB: [u64; 12] = [
    4, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 131_072,
];
/// Most bytes that are measured on a simulated device, whose virtual time is linear beyond.
const SIMULATED_BYTES_MAX: u64 = 8 << 20;
/// Repetitions of what is short; the median is taken.
const REPEATS: usize = 41;
/// Repetitions of what is long.
const REPEATS_LONG: usize = 7;
/// A copy of this many bytes, whole and in this many parts, tells what one more copy costs.
const SPLIT_BYTES: usize = 512 << 10;
const PARTS: usize = 4;
/// Nothing that is measured here takes nearly as long.
const LIMIT: Duration = Duration::from_secs(30);

impl ReadCosts {
    /// Measures: about a second on a real device, and up to 1 GiB of memory meanwhile.
    ///
    /// # Errors
    /// Where memory cannot be had or the device fails.
    pub fn measure(device: &Device) -> Result<Self> {
        let memory = Memory::new(device).strict();
        let mut bench = Bench::new(&memory, device)?;
        let ways = [
            (MemoryKind::PageLocked, false),
            (MemoryKind::WriteCombined, false),
            (MemoryKind::Mapped, true),
            (MemoryKind::MappedWriteCombined, true),
        ];
        let mut curves = [const { Curve { points: Vec::new() } }; 4];
        let largest = if device.is_simulated() {
            SIMULATED_BYTES_MAX
        } else {
            u64::MAX
        };
        for bytes in SIZES_KIB
            .map(|kib| kib << 10)
            .into_iter()
            .filter(|bytes| *bytes <= largest)
        {
            let medians = bench.read(bytes, ways)?;
            for (curve, ns) in curves.iter_mut().zip(medians) {
                curve.points.push((bytes, ns));
            }
        }
        let further_copy_ns = bench.further_copy()?;
        let [scalar_copied_ns, scalar_published_ns] = bench.scalars()?;
        let [
            copy_page_locked,
            copy_write_combined,
            in_place,
            in_place_write_combined,
        ] = curves;
        Ok(ReadCosts {
            device: device.name().to_owned(),
            simulated: device.is_simulated(),
            copy_page_locked,
            copy_write_combined,
            in_place,
            in_place_write_combined,
            further_copy_ns,
            scalar_copied_ns,
            scalar_published_ns,
        })
    }

    /// The part that decides between kinds of memory.
    pub fn measured(&self) -> Measured {
        Measured {
            upload_page_locked: self.copy_page_locked.rate_bytes_per_s(),
            upload_write_combined: self.copy_write_combined.rate_bytes_per_s(),
            read_mapped: self.in_place.rate_bytes_per_s(),
            read_mapped_write_combined: self.in_place_write_combined.rate_bytes_per_s(),
        }
    }
}

/// How data that is fresh in host memory gets to a kernel that reads it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadPath {
    /// Copied to device memory first.
    Copy,
    /// Read where it lies.
    InPlace,
}

/// A path, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadAdvice {
    /// The faster path.
    pub path: ReadPath,
    /// Predicted time with copies.
    pub copy_ns: f64,
    /// Predicted time in place.
    pub in_place_ns: f64,
    /// Why, in a sentence with figures.
    pub reason: String,
}

impl ReadCosts {
    /// The faster path for that many bytes that a kernel reads once and in order, in `copies`
    /// arrays.
    pub fn advise(&self, bytes: u64, copies: u32) -> ReadAdvice {
        let measured = self.measured();
        let best = |plain: &Curve, combined: &Curve, use_combined: bool| {
            if use_combined {
                combined.time_ns(bytes)
            } else {
                plain.time_ns(bytes)
            }
        };
        let further = f64::from(copies.saturating_sub(1)) * self.further_copy_ns;
        let copy_ns = further
            + best(
                &self.copy_page_locked,
                &self.copy_write_combined,
                measured.write_combining_pays_for_copies(),
            );
        let in_place_ns = best(
            &self.in_place,
            &self.in_place_write_combined,
            measured.write_combining_pays_in_place(),
        );
        let path = if in_place_ns <= copy_ns {
            ReadPath::InPlace
        } else {
            ReadPath::Copy
        };
        let (better, worse) = match path {
            ReadPath::InPlace => ("reading in place", "copying first"),
            ReadPath::Copy => ("copying first", "reading in place"),
        };
        let how = if self.simulated {
            "simulated"
        } else {
            "measured"
        };
        let reason = format!(
            "{better} {} should take {}, {worse} {} ({how} on this device a moment ago)",
            crate::Bytes(bytes),
            duration(copy_ns.min(in_place_ns)),
            duration(copy_ns.max(in_place_ns)),
        );
        ReadAdvice {
            path,
            copy_ns,
            in_place_ns,
            reason,
        }
    }
}

/// A time for people.
fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

struct Bench<'a> {
    memory: &'a Memory,
    stream: Stream,
    reader: Reader,
    cell: ScalarCell,
}

impl<'a> Bench<'a> {
    fn new(memory: &'a Memory, device: &Device) -> Result<Self> {
        let stream = device.stream()?;
        let reader = Reader::load(memory, &stream)?;
        let cell = memory.scalar_cell()?;
        Ok(Bench {
            memory,
            stream,
            reader,
            cell,
        })
    }

    /// Medians for each way, measured in turn. The host writes the data anew before every
    /// repetition, outside of the measured time.
    fn read(&mut self, bytes: u64, ways: [(MemoryKind, bool); 4]) -> Result<[f64; 4]> {
        let elements = bytes as usize / 4;
        let mut on_device = self.memory.device::<f32>(elements)?;
        let mut buffers = Vec::new();
        for (kind, in_place) in ways {
            let memory = self.memory.of_kind(kind);
            buffers.push(Some(if in_place {
                memory.upload_in_place::<f32>(elements)?
            } else {
                memory.upload::<f32>(elements)?
            }));
        }
        let repeats = match (self.stream.device().is_simulated(), bytes) {
            (true, _) => 1, // virtual time is the same every time
            (false, ..=0x40_0000) => REPEATS,
            (false, _) => REPEATS_LONG,
        };
        // Written as programs do it, by a copy: caches are left in another state by other ways.
        let data: Vec<f32> = (0..elements).map(|i| (i % 251) as f32).collect();
        let mut times: [Vec<f64>; 4] = Default::default();
        for round in 0..=repeats {
            for ((slot, (_, in_place)), times) in buffers.iter_mut().zip(ways).zip(&mut times) {
                let Some(mut buffer) = slot.take() else {
                    continue;
                };
                buffer.write(0, &data)?;
                let start = self.stream.device().now_ns();
                let lent: InFlight<UploadBuffer<f32>>;
                let expected: Expected;
                if in_place {
                    lent = buffer.lend();
                    expected = self.reader.run(&self.stream, &lent, &mut self.cell)?;
                } else {
                    lent = self.stream.upload(buffer, &mut on_device)?;
                    expected = self.reader.run(&self.stream, &on_device, &mut self.cell)?;
                }
                self.cell.wait(expected, LIMIT)?;
                let ns = (self.stream.device().now_ns() - start) as f64;
                if round > 0 {
                    times.push(ns); // the first one warms up
                }
                *slot = Some(lent.wait()?);
            }
        }
        Ok(times.map(|mut t| median(&mut t)))
    }

    /// What splitting one copy into several costs, for each further part.
    fn further_copy(&mut self) -> Result<f64> {
        let memory = self.memory.of_kind(MemoryKind::PageLocked);
        let mut cases = Vec::new();
        for copies in [1, PARTS] {
            let elements = SPLIT_BYTES / 4 / copies;
            let on_device = self.memory.device::<f32>(elements)?;
            cases.push((
                copies,
                Some(memory.upload::<f32>(elements)?),
                on_device,
                Vec::new(),
            ));
        }
        for round in 0..=REPEATS {
            for (copies, slot, on_device, times) in &mut cases {
                let Some(buffer) = slot.take() else { continue };
                let start = self.stream.device().now_ns();
                let mut flight = buffer.hand_over();
                for _ in 0..*copies {
                    flight = self.stream.upload(flight, on_device)?;
                }
                *slot = Some(flight.wait()?);
                if round > 0 {
                    times.push((self.stream.device().now_ns() - start) as f64);
                }
            }
        }
        let [whole_ns, split_ns] = [0, 1].map(|case: usize| median(&mut cases[case].3));
        Ok(((split_ns - whole_ns) / (PARTS - 1) as f64).max(0.0))
    }
}

impl Bench<'_> {
    /// How long a small kernel's result takes to the host: copied back, and published.
    fn scalars(&mut self) -> Result<[f64; 2]> {
        let mut input = self.memory.device::<f32>(1024)?;
        self.stream.fill(&mut input, 0)?;
        let mut on_device: CellBuffer = self.memory.device(1)?;
        let mut slot = Some(self.memory.download(1)?);
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..REPEATS {
            let Some(result) = slot.take() else { continue };
            let start = self.stream.device().now_ns();
            self.reader.run(&self.stream, &input, &mut on_device)?;
            slot = Some(self.stream.download(&on_device, result)?.wait()?);
            let middle = self.stream.device().now_ns();
            let expected = self.reader.run(&self.stream, &input, &mut self.cell)?;
            self.cell.wait(expected, LIMIT)?;
            times[0].push((middle - start) as f64);
            times[1].push((self.stream.device().now_ns() - middle) as f64);
        }
        Ok(times.map(|mut t| median(&mut t)))
    }
}

/// The middle value; the lower one of two. 0 for none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_interpolates_and_extrapolates() {
        let curve = Curve {
            points: vec![(100, 10.0), (200, 20.0), (400, 60.0)],
        };
        let times: Vec<f64> = [1, 100, 150, 200, 300, 500]
            .map(|b| curve.time_ns(b))
            .to_vec();
        assert_eq!(times, [10.0, 10.0, 15.0, 20.0, 40.0, 80.0]);
        assert_eq!(curve.rate_bytes_per_s(), 5e9);
        assert_eq!(Curve::default().time_ns(7), 0.0);
    }

    #[test]
    fn the_median_is_a_measured_value() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }
}
