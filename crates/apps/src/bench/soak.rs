//! A long run that looks for a single wrong byte: several threads take, fill, move, use in place,
//! drop in flight and check buffers of every size, over one pool that is full most of the time.

use super::{BenchReport, BenchRow};
use crate::error::{JobError, Result};
use crate::progress::Progress;
use crate::report::Fact;
use pinfold::kernels::pattern::Patterns;
use pinfold::kernels::splitmix64;
use pinfold::pool::{PoolOptions, WhenFull};
use pinfold::{Bytes, Device, DeviceBuffer, ExchangeBuffer, Memory, ScalarCell, Stream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The longest run.
pub const SECONDS_MAX: u64 = 7 * 24 * 3600;

/// Threads, each with a stream of its own.
const THREADS_MAX: usize = 8;
/// Largest buffer, in words of eight bytes.
const WORDS_LOG2_MAX: u64 = 22;
/// What the pool may hold: less than the threads would like.
const BUDGET_BYTES: u64 = 512 << 20;
/// Buffers that a thread keeps for later.
const KEPT_MAX: usize = 6;
/// No wait takes nearly as long.
const LIMIT: Duration = Duration::from_secs(120);
/// How many buffers pass between two trims to nothing.
const TRIM_EVERY: u64 = 1000;

/// What all threads have done.
#[derive(Default)]
struct Sums {
    buffers: AtomicU64,
    bytes: AtomicU64,
    wrong: AtomicU64,
}

/// Runs for so many seconds.
///
/// # Errors
/// [`JobError::Corrupt`] where a byte was wrong; where memory cannot be had or the device fails.
pub fn run(device: &Device, seconds: u64, progress: &mut dyn Progress) -> Result<BenchReport> {
    let mut options = PoolOptions::default();
    options.budget_bytes = Some(BUDGET_BYTES);
    options.when_full = WhenFull::Wait(LIMIT);
    let Some(memory) = Memory::pooled(std::slice::from_ref(device), &options) else {
        return Ok(BenchReport::new("soak", device));
    };
    let memory = memory.strict();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.clamp(2, THREADS_MAX);
    let (sums, began) = (Sums::default(), Instant::now());
    let end = began + Duration::from_secs(seconds);
    progress.begin("soaking", seconds);
    let outcome: Result<()> = std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for thread in 0..threads as u64 {
            let (memory, sums, sender) = (&memory, &sums, sender.clone());
            scope.spawn(move || {
                let outcome = Soaker::new(memory, device, sums, thread)
                    .and_then(|mut soaker| soaker.soak(end));
                // The other end lives until all threads have answered.
                let _ = sender.send(outcome);
            });
        }
        drop(sender);
        let mut shown = 0;
        let mut outcome = Ok(());
        loop {
            match receiver.recv_timeout(Duration::from_millis(200)) {
                Ok(one) => outcome = outcome.and(one),
                Err(mpsc::RecvTimeoutError::Disconnected) => return outcome,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            while shown < began.elapsed().as_secs().min(seconds) {
                progress.step();
                shown += 1;
            }
        }
    });
    progress.end();
    outcome?;
    report(device, &memory, threads, &sums, began)
}

fn report(
    device: &Device,
    memory: &Memory,
    threads: usize,
    sums: &Sums,
    began: Instant,
) -> Result<BenchReport> {
    let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let (buffers, bytes, wrong) = (read(&sums.buffers), read(&sums.bytes), read(&sums.wrong));
    if wrong > 0 {
        return Err(JobError::Corrupt { buffers, wrong });
    }
    let mut report = BenchReport::new("soak", device);
    report.machine.push(Fact::new("threads", threads));
    let seconds = began.elapsed().as_secs_f64();
    let rate = bytes as f64 / seconds / (1u64 << 30) as f64;
    let row = BenchRow::new("soak", "checked", "GiB/s", vec![rate], false);
    report.rows.push(row);
    let note = |name: &str, value: String| Fact::new(name, value);
    report.findings.extend([
        note("seconds", format!("{seconds:.0}")),
        note("buffers checked", buffers.to_string()),
        note("bytes checked", Bytes(bytes).to_string()),
        note("wrong words", wrong.to_string()),
        note("pool's budget", Bytes(BUDGET_BYTES).to_string()),
    ]);
    if let Some([cached, _]) = memory.pool_stats() {
        let peak = Bytes(cached.pinned_bytes_peak).to_string();
        report.findings.push(note("most page-locked", peak));
    }
    Ok(report)
}

/// One thread's part.
struct Soaker<'a> {
    memory: &'a Memory,
    sums: &'a Sums,
    stream: Stream,
    patterns: Patterns,
    cell: ScalarCell,
    there: DeviceBuffer<u64>,
    /// Buffers with the seed of their pattern.
    kept: Vec<(u64, ExchangeBuffer<u64>)>,
    numbers: u64,
}

impl<'a> Soaker<'a> {
    fn new(memory: &'a Memory, device: &Device, sums: &'a Sums, thread: u64) -> Result<Self> {
        let stream = device.stream()?;
        Ok(Soaker {
            memory,
            sums,
            patterns: Patterns::load(memory, &stream)?,
            cell: memory.scalar_cell()?,
            there: memory.device(1 << WORDS_LOG2_MAX)?,
            stream,
            kept: Vec::new(),
            numbers: thread << 32,
        })
    }

    fn below(&mut self, end: u64) -> u64 {
        self.numbers += 1;
        splitmix64(self.numbers) % end
    }

    fn soak(&mut self, end: Instant) -> Result<()> {
        while Instant::now() < end {
            let log2 = self.below(WORDS_LOG2_MAX + 1);
            let words = 1 + self.below(1 << log2) as usize;
            let seed = self.below(u64::MAX);
            match self.below(5) {
                0 => self.upload(words, seed)?,
                1 => self.download(words, seed)?,
                2 => self.read_in_place(words, seed)?,
                3 => self.write_in_place(words, seed)?,
                _ => self.keep(words, seed)?,
            }
            let buffers = self.sums.buffers.fetch_add(1, Ordering::Relaxed);
            let bytes = 8 * words as u64;
            self.sums.bytes.fetch_add(bytes, Ordering::Relaxed);
            if buffers.is_multiple_of(TRIM_EVERY) {
                self.memory.trim(0)?;
            }
        }
        while !self.kept.is_empty() {
            self.look_at_one_kept();
        }
        Ok(())
    }

    /// Compares words of the host with a pattern.
    fn look(&self, words: &[u64], seed: u64) {
        let numbered = (seed..=u64::MAX).chain(0..).zip(words);
        let wrong = numbered.filter(|(n, word)| splitmix64(*n) != **word);
        let wrong = wrong.count() as u64;
        self.sums.wrong.fetch_add(wrong, Ordering::Relaxed);
    }

    fn look_at_one_kept(&mut self) {
        if let Some((seed, buffer)) = self.kept.pop() {
            self.look(&buffer, seed);
        }
    }

    /// Host to device; the source is dropped in flight, and the device looks.
    fn upload(&mut self, words: usize, seed: u64) -> Result<()> {
        let mut up = self.memory.upload::<u64>(words)?;
        up.write_each(|i| splitmix64(seed.wrapping_add(i as u64)));
        let flight = self.stream.upload_part(up, 0..words, &mut self.there, 0)?;
        drop(flight);
        let there = self.there.slice(0..words)?;
        let promise = self
            .patterns
            .check(&self.stream, &there, seed, &mut self.cell)?;
        let [wrong, _] = self.cell.wait(promise, LIMIT)?;
        self.sums.wrong.fetch_add(wrong as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Device to host; the host looks.
    fn download(&mut self, words: usize, seed: u64) -> Result<()> {
        self.patterns.fill(&self.stream, &mut self.there, seed)?;
        let down = self.memory.download::<u64>(words)?;
        let down = self.stream.download_part(&self.there, 0..words, down, 0)?;
        let down = down.wait()?;
        self.look(&down, seed);
        Ok(())
    }

    /// The device looks at host memory in place; the buffer is dropped in flight.
    fn read_in_place(&mut self, words: usize, seed: u64) -> Result<()> {
        let mut buffer = self.memory.upload_in_place::<u64>(words)?;
        buffer.write_each(|i| splitmix64(seed.wrapping_add(i as u64)));
        let lent = buffer.lend();
        let promise = self
            .patterns
            .check(&self.stream, &lent, seed, &mut self.cell)?;
        drop(lent);
        let [wrong, _] = self.cell.wait(promise, LIMIT)?;
        self.sums.wrong.fetch_add(wrong as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The device writes host memory in place; the host looks.
    fn write_in_place(&mut self, words: usize, seed: u64) -> Result<()> {
        let mut lent = self.memory.zero_copy::<u64>(words)?.lend();
        self.patterns.fill(&self.stream, &mut lent, seed)?;
        let buffer = lent.wait()?;
        self.look(&buffer, seed);
        Ok(())
    }

    /// A buffer that lies around while others come and go, and has to stay as it is.
    fn keep(&mut self, words: usize, seed: u64) -> Result<()> {
        let words = words.min(1 << 17);
        let mut buffer = self.memory.exchange::<u64>(words)?;
        let numbered = (0..).zip(buffer.iter_mut());
        numbered.for_each(|(i, word)| *word = splitmix64(seed.wrapping_add(i)));
        self.kept.push((seed, buffer));
        if self.kept.len() > KEPT_MAX {
            let at = self.below(KEPT_MAX as u64) as usize;
            self.kept.swap(at, KEPT_MAX);
            self.look_at_one_kept();
        }
        Ok(())
    }
}
