//! The dot product of two vectors that are fresh in host memory, under every kind of it.
//!
//! Every run starts when the host has written both vectors, and ends when the host has the result.
//! The copying strategies copy the vectors to the device; the mapped ones let the kernel read them
//! in place. The result is copied back, or published into mapped memory, where the host polls for
//! it: as the strategies' names say for copies, and always by the mapped ones and by what pinfold
//! chooses.

use crate::error::{JobError, Result};
use crate::progress::Progress;
use crate::report::{DeviceLabel, Fact, JobReport, StrategyResult, SweepReport, placement_lines};
use crate::rounds::{Rounds, Timings, interleave};
use pinfold::buffer::InFlight;
use pinfold::kernels::CellBuffer;
use pinfold::kernels::dot::Dot;
use pinfold::measure::{ReadAdvice, ReadCosts, ReadPath};
use pinfold::{
    Device, DeviceBuffer, DownloadBuffer, Memory, MemoryKind, Placement, ScalarCell, Stream,
    UploadBuffer,
};
use std::time::Duration;

/// The shortest vectors.
pub const ELEMENTS_MIN: u64 = 1;
/// The longest vectors: 16 GiB each.
pub const ELEMENTS_MAX: u64 = 1 << 32;
/// The length that a run takes by itself.
pub const ELEMENTS_DEFAULT: u64 = 1 << 20;
/// The lengths of a sweep, as powers of two.
const SWEEP_LOG2: std::ops::RangeInclusive<u32> = 13..=27;

/// Largest relative error of a right result. Products are exact in double and at most 2^32 of
/// them are added, in a tree over thousands of threads: far below this.
const ERROR_MAX: f64 = 1e-11;
/// No run takes nearly as long.
const LIMIT: Duration = Duration::from_secs(120);
/// Name of the strategy that pinfold chooses.
const CHOSEN: &str = "chosen";

/// One way to get the vectors to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    name: &'static str,
    path: ReadPath,
    /// The kind of host memory; `None` lets pinfold choose.
    kind: Option<MemoryKind>,
    /// Whether the result is published into mapped memory, or copied back.
    published: bool,
}

const fn copied(name: &'static str, kind: MemoryKind) -> Way {
    Way {
        name,
        path: ReadPath::Copy,
        kind: Some(kind),
        published: false,
    }
}

const fn copied_published(name: &'static str, kind: MemoryKind) -> Way {
    Way {
        published: true,
        ..copied(name, kind)
    }
}

const fn in_place(name: &'static str, kind: MemoryKind) -> Way {
    Way {
        name,
        path: ReadPath::InPlace,
        kind: Some(kind),
        published: true,
    }
}

/// What pinfold chooses is among them, unless it had to make do with other memory.
const WAYS: [Way; 6] = [
    copied("pageable copy", MemoryKind::Pageable),
    copied("page-locked copy", MemoryKind::PageLocked),
    copied_published("page-locked copy, published", MemoryKind::PageLocked),
    copied_published("write-combined copy, published", MemoryKind::WriteCombined),
    in_place("mapped", MemoryKind::Mapped),
    in_place("mapped write-combined", MemoryKind::MappedWriteCombined),
];

/// Runs one length under every strategy.
///
/// # Errors
/// [`JobError::OutOfRange`] for a length that is not allowed, [`JobError::WrongResult`], and what
/// memory and device say.
pub fn run(device: &Device, elements: u64, progress: &mut dyn Progress) -> Result<JobReport> {
    if !(ELEMENTS_MIN..=ELEMENTS_MAX).contains(&elements) {
        return Err(JobError::OutOfRange {
            what: "the number of elements",
            got: elements,
            min: ELEMENTS_MIN,
            max: ELEMENTS_MAX,
        });
    }
    check_room(device, elements)?;
    Job::new(device, progress)?.run(elements as usize, progress)
}

/// Refuses vectors that the host has no room for: the input, and a pair for every strategy that is
/// measured at the same time. On a simulated device the host also stands in for the device.
fn check_room(device: &Device, elements: u64) -> Result<()> {
    let pairs = if device.is_simulated() {
        3
    } else {
        2 + WAYS.len() as u64
    };
    let need_bytes = pairs * 8 * elements;
    let headroom = pinfold_machine::Machine::read().pin_headroom();
    if need_bytes <= headroom.bytes {
        return Ok(());
    }
    Err(JobError::TooLarge {
        what: format!("vectors of {elements} elements"),
        need_bytes,
        left_bytes: headroom.bytes,
        limited_by: headroom.reason,
    })
}

/// Runs every power of two from 8 192 to 2^27 under every strategy.
///
/// # Errors
/// As [`run`].
pub fn sweep(device: &Device, progress: &mut dyn Progress) -> Result<SweepReport> {
    check_room(device, 1 << SWEEP_LOG2.end())?;
    let mut job = Job::new(device, progress)?;
    let runs: Result<Vec<_>> = SWEEP_LOG2
        .map(|log2| job.run(1 << log2, progress))
        .collect();
    Ok(SweepReport {
        job: "dot".to_owned(),
        device: DeviceLabel::of(device),
        runs: runs?,
    })
}

/// The device side, made once.
struct Job {
    device: Device,
    memory: Memory,
    stream: Stream,
    dot: Dot,
    cell: ScalarCell,
    cell_on_device: CellBuffer,
    costs: ReadCosts,
}

/// Two vectors and what the right result is.
struct Input {
    a: Vec<f32>,
    b: Vec<f32>,
    expected: f64,
    /// The sum of all products' magnitudes: what errors are measured against.
    magnitude: f64,
}

/// A strategy with its buffers.
struct Contender {
    way: Way,
    vectors: Option<[UploadBuffer<f32>; 2]>,
    result: Option<DownloadBuffer<pinfold::kernels::CellWords>>,
    placements: Vec<Placement>,
    error: f64,
}

impl Job {
    fn new(device: &Device, progress: &mut dyn Progress) -> Result<Self> {
        progress.begin("measuring this machine", 1);
        let costs = ReadCosts::measure(device)?;
        progress.step();
        progress.end();
        let memory = Memory::new(device);
        memory.set_measured(costs.measured());
        let stream = device.stream()?;
        Ok(Job {
            device: device.clone(),
            dot: Dot::load(&memory, &stream)?,
            cell: memory.scalar_cell()?,
            cell_on_device: memory.device(1)?,
            memory,
            stream,
            costs,
        })
    }

    fn run(&mut self, elements: usize, progress: &mut dyn Progress) -> Result<JobReport> {
        let input = Input::new(elements);
        let bytes = 8 * elements as u64;
        let advice = self.costs.advise(bytes, 2);
        let chosen = Way {
            name: CHOSEN,
            path: advice.path,
            kind: None,
            published: true,
        };
        let ways: Vec<Way> = WAYS.into_iter().chain([chosen]).collect();
        let rounds = rounds(&self.device, elements);
        let steps = ways.len() * (rounds.warm_up + rounds.counted);
        progress.begin(&format!("dot product of {elements} elements"), steps as u64);
        let mut on_device = [self.memory.device(elements)?, self.memory.device(elements)?];
        let results = if self.device.is_simulated() {
            // Virtual time does not drift: one after the other needs less memory.
            let each = ways.iter().map(|way| {
                self.compare(
                    std::slice::from_ref(way),
                    &input,
                    &mut on_device,
                    rounds,
                    progress,
                )
            });
            each.collect::<Result<Vec<_>>>()?.concat()
        } else {
            self.compare(&ways, &input, &mut on_device, rounds, progress)?
        };
        progress.end();
        Ok(self.report(elements, &advice, results))
    }

    /// Measures some ways against each other.
    fn compare(
        &mut self,
        ways: &[Way],
        input: &Input,
        on_device: &mut [DeviceBuffer<f32>; 2],
        rounds: Rounds,
        progress: &mut dyn Progress,
    ) -> Result<Vec<(StrategyResult, Vec<Placement>)>> {
        let made: Result<Vec<_>> = ways
            .iter()
            .map(|way| Contender::new(*way, &self.memory, input.a.len()))
            .collect();
        let mut contenders = made?;
        let timings = interleave(&mut contenders, rounds, progress, |_, contender| {
            contender.fill(input)?;
            let (seconds, value) = self.once(contender, on_device)?;
            contender.check(value, input)?;
            Ok(seconds)
        })?;
        Ok(contenders
            .into_iter()
            .zip(timings)
            .map(|(c, t)| c.result(&t))
            .collect())
    }

    /// One run: seconds, and the result.
    fn once(
        &mut self,
        contender: &mut Contender,
        on_device: &mut [DeviceBuffer<f32>; 2],
    ) -> Result<(f64, f64)> {
        let Some([a, b]) = contender.vectors.take() else {
            return Ok((0.0, f64::NAN));
        };
        let start_ns = self.device.now_ns();
        let (a, b) = match contender.way.path {
            ReadPath::InPlace => (a.lend(), b.lend()),
            ReadPath::Copy => {
                let [to_a, to_b] = &mut *on_device;
                (self.stream.upload(a, to_a)?, self.stream.upload(b, to_b)?)
            }
        };
        let value = match (contender.way.path, contender.result.take()) {
            (path, None) => self.published(path, &a, &b, on_device)?,
            (_, Some(result)) => {
                let [a, b] = &*on_device;
                self.dot.run(&self.stream, a, b, &mut self.cell_on_device)?;
                let result = self.stream.download(&self.cell_on_device, result)?.wait()?;
                let value = f64::from_bits(result[0][0]);
                contender.result = Some(result);
                value
            }
        };
        let seconds = (self.device.now_ns() - start_ns) as f64 * 1e-9;
        contender.vectors = Some([a.wait()?, b.wait()?]);
        Ok((seconds, value))
    }

    fn published(
        &mut self,
        path: ReadPath,
        a: &InFlight<UploadBuffer<f32>>,
        b: &InFlight<UploadBuffer<f32>>,
        on_device: &[DeviceBuffer<f32>; 2],
    ) -> Result<f64> {
        let expected = match path {
            ReadPath::InPlace => self.dot.run(&self.stream, a, b, &mut self.cell)?,
            ReadPath::Copy => {
                self.dot
                    .run(&self.stream, &on_device[0], &on_device[1], &mut self.cell)?
            }
        };
        Ok(self.cell.wait(expected, LIMIT)?[0])
    }

    fn report(
        &self,
        elements: usize,
        advice: &ReadAdvice,
        results: Vec<(StrategyResult, Vec<Placement>)>,
    ) -> JobReport {
        let chosen_kind = results
            .last()
            .and_then(|(_, p)| p.first())
            .map(Placement::kind);
        let chosen = WAYS
            .iter()
            .find(|w| w.published && w.path == advice.path && w.kind == chosen_kind);
        let placements = placement_lines(results.last().into_iter().flat_map(|(_, p)| p));
        JobReport {
            job: "dot".to_owned(),
            device: DeviceLabel::of(&self.device),
            input: vec![
                Fact::new("elements", elements),
                Fact::new("size", pinfold::Bytes(8 * elements as u64)),
            ],
            strategies: results.into_iter().map(|(result, _)| result).collect(),
            chosen: chosen.map_or(CHOSEN, |way| way.name).to_owned(),
            reason: advice.reason.clone(),
            placements,
            memory: Some(self.memory.report()),
        }
    }
}

impl Input {
    fn new(elements: usize) -> Self {
        // Any numbers will do; these cancel well, so that a lost element shows.
        let number = |i: usize, salt: u64| {
            let bits = pinfold::kernels::splitmix64(i as u64 ^ salt) >> 40;
            bits as f32 / (1u32 << 23) as f32 - 1.0
        };
        let a: Vec<f32> = (0..elements).map(|i| number(i, 0)).collect();
        let b: Vec<f32> = (0..elements).map(|i| number(i, 1 << 63)).collect();
        let products = || a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        let (expected, magnitude) =
            products().fold((0.0, 0.0), |(sum, size), p| (sum + p, size + f64::abs(p)));
        Input {
            a,
            b,
            expected,
            magnitude,
        }
    }
}

impl Contender {
    fn new(way: Way, memory: &Memory, elements: usize) -> Result<Self> {
        let memory = match way.kind {
            Some(kind) => memory.of_kind(kind).strict(),
            None => memory.clone(),
        };
        let vector = || match way.path {
            ReadPath::Copy => memory.upload::<f32>(elements),
            ReadPath::InPlace => memory.upload_in_place::<f32>(elements),
        };
        let vectors = [vector()?, vector()?];
        let result = if way.published {
            None
        } else {
            Some(memory_for_result(&memory, way)?)
        };
        let mut placements = vec![vectors[0].placement().clone()];
        placements.extend(result.as_ref().map(|r| r.placement().clone()));
        Ok(Contender {
            way,
            vectors: Some(vectors),
            result,
            placements,
            error: 0.0,
        })
    }

    /// The host writes both vectors: outside of the measured time.
    fn fill(&mut self, input: &Input) -> Result<()> {
        if let Some([a, b]) = &mut self.vectors {
            a.write(0, &input.a)?;
            b.write(0, &input.b)?;
        }
        Ok(())
    }

    fn check(&mut self, value: f64, input: &Input) -> Result<()> {
        let error = (value - input.expected).abs() / input.magnitude.max(f64::MIN_POSITIVE);
        if error.is_nan() || error > ERROR_MAX {
            let strategy = self.way.name.to_owned();
            return Err(JobError::WrongResult {
                strategy,
                error,
                allowed: ERROR_MAX,
            });
        }
        self.error = self.error.max(error);
        Ok(())
    }

    fn result(self, timings: &Timings) -> (StrategyResult, Vec<Placement>) {
        let elements = self.vectors.as_ref().map_or(0, |[a, _]| a.len());
        let from = self
            .placements
            .first()
            .map_or(MemoryKind::Pageable, Placement::kind);
        let how = match self.way.path {
            ReadPath::Copy => "copied to device",
            ReadPath::InPlace => "read in place",
        };
        let back = if self.way.published {
            "result published"
        } else {
            "result copied"
        };
        let result = StrategyResult {
            name: self.way.name.to_owned(),
            placement: format!("{from}, {how}, {back}"),
            seconds: timings.median(),
            seconds_min: timings.min(),
            seconds_max: timings.max(),
            repeats: timings.count(),
            bytes_up: 8 * elements as u64,
            bytes_down: std::mem::size_of::<pinfold::kernels::CellWords>() as u64,
            error: self.error,
            iterations: None,
            seconds_per_iteration: None,
        };
        (result, self.placements)
    }
}

/// Results are never write-combined: the host reads them.
fn memory_for_result(
    memory: &Memory,
    way: Way,
) -> Result<DownloadBuffer<pinfold::kernels::CellWords>> {
    let kind = match way.kind {
        Some(MemoryKind::Pageable) => MemoryKind::Pageable,
        _ => MemoryKind::PageLocked,
    };
    Ok(memory.of_kind(kind).download(1)?)
}

fn rounds(device: &Device, elements: usize) -> Rounds {
    if device.is_simulated() {
        return Rounds::SIMULATED;
    }
    // Short runs vary most and cost least.
    let counted = match elements {
        0..=0x4_0000 => 301,
        0x4_0001..=0x20_0000 => 101,
        0x20_0001..=0x200_0000 => 11,
        _ => 5,
    };
    Rounds {
        warm_up: 2,
        counted,
    }
}
