//! The engine's threads, and what each has: a stream, and page-locked slots.

use super::EngineOptions;
use super::control::Control;
use super::job::Job;
use super::staged::{self, Place};
use crate::buffer::ExchangeBuffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::stream::Stream;
use parking_lot::Mutex;
use pinfold_hal::HostWork;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::RefCell;
use std::sync::OnceLock;

/// More threads gained nothing on any link that was measured.
const THREADS_BY_ITSELF_MAX: usize = 8;
const THREADS_MAX: u32 = 64;
const SLOT_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=64 << 20;
const SLOTS: std::ops::RangeInclusive<u32> = 2..=16;

/// What a thread does first: it moves to the processors of the device's NUMA node, where there are
/// several nodes and the node is known.
fn run_near(device: &Device) -> impl Fn(usize) + Send + Sync + 'static {
    let (platform, node) = (device.platform_inner().clone(), device.info().numa_node);
    move |_| {
        // Where the nodes cannot be told, the threads run anywhere.
        if let (Some(node), Ok(nodes)) = (node, platform.nodes())
            && nodes.numbers().len() > 1
        {
            nodes.run_near(node);
        }
    }
}

thread_local! {
    /// The engines that this thread is at work for.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// This thread is at work for an engine.
struct Inside;

impl Inside {
    fn enter(lanes: &Lanes) -> Self {
        INSIDE.with_borrow_mut(|all| all.push(lanes.key()));
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|all| all.pop());
    }
}

/// Fills a slot with the bytes of a transfer from an offset on.
pub(super) type Fill<'a> = &'a (dyn Fn(u64, &mut [u8]) -> Result<()> + Sync);
/// Takes bytes of a transfer out of a slot.
pub(super) type Pour<'a> = &'a (dyn Fn(u64, &[u8]) -> Result<()> + Sync);

/// Threads with a lane each. Nothing is made before the first transfer.
pub(super) struct Lanes {
    memory: Memory,
    device: Device,
    slot_bytes: u64,
    slots: usize,
    threads: OnceLock<ThreadPool>,
    /// One for each of the engine's threads, and the last one for the calling thread, where there
    /// is more than one.
    lanes: Vec<Mutex<Option<Lane>>>,
    /// For copies by the driver, from whichever thread.
    driver: Mutex<Option<Stream>>,
}

/// What one thread works with.
pub(super) struct Lane {
    pub(super) stream: Stream,
    /// Slots that are at hand.
    pub(super) free: Vec<ExchangeBuffer<u8>>,
}

impl Lanes {
    pub(super) fn new(memory: Memory, device: &Device, options: &EngineOptions) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let by_itself = processors.min(THREADS_BY_ITSELF_MAX) as u32;
        let count = options.threads.unwrap_or(by_itself).clamp(1, THREADS_MAX);
        let slot_bytes = options
            .slot_bytes
            .clamp(*SLOT_BYTES.start(), *SLOT_BYTES.end());
        Lanes {
            memory,
            device: device.clone(),
            slot_bytes: slot_bytes.next_multiple_of(pinfold_pool::PAGE_BYTES),
            slots: options.slots.clamp(*SLOTS.start(), *SLOTS.end()) as usize,
            threads: OnceLock::new(),
            lanes: (0..count).map(|_| Mutex::default()).collect(),
            driver: Mutex::default(),
        }
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn count(&self) -> u32 {
        self.lanes.len() as u32
    }

    pub(super) fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Moves a job to the device on all threads, and waits for it.
    pub(super) fn upload(&self, job: &Job, to: &Place, fill: Fill<'_>) -> Result<()> {
        self.on_all(job, |lane| staged::upload(self, lane, job, to, fill))
    }

    /// Moves a job to the host on all threads, and waits for it.
    pub(super) fn download(&self, job: &Job, from: &Place, pour: Pour<'_>) -> Result<()> {
        self.on_all(job, |lane| staged::download(self, lane, job, from, pour))
    }

    /// Does a job on all threads, the calling one among them, each on its lane, and waits for it.
    /// The caller is at it while the others still wake up.
    pub(super) fn on_all(
        &self,
        job: &Job,
        share: impl Fn(&mut Lane) -> Result<()> + Sync,
    ) -> Result<()> {
        if self.device.is_simulated() {
            self.device.declare_host_work(HostWork::Wake);
        }
        self.check_not_inside()?;
        let told = |outcome: Result<()>| {
            if let Err(error) = outcome {
                job.fail(error);
            }
        };
        self.threads()?.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, thread| {
                if let Some(lane) = self.lanes.get(thread.index()) {
                    told(self.on_lane(&mut lane.lock(), &share));
                }
            });
            // Where another caller is at work with it, the others do without.
            let own = self.lanes.get(self.sleepers()).and_then(Mutex::try_lock);
            if let Some(mut lane) = own {
                told(self.on_lane(&mut lane, &share));
            }
        });
        job.outcome()
    }

    /// # Errors
    /// [`Error::Threads`] on a thread that is at work for this engine: it cannot wait for the
    /// engine.
    pub(super) fn check_not_inside(&self) -> Result<()> {
        let inside = INSIDE.with_borrow(|all| all.contains(&self.key()));
        match inside {
            false => Ok(()),
            true => Err(Error::Threads {
                count: self.lanes.len(),
                problem: "work of a pipeline cannot wait for its own engine; use a stream, or \
                          another engine"
                    .to_owned(),
            }),
        }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Threads that the engine has itself: all but the calling one, and one at least.
    fn sleepers(&self) -> usize {
        (self.lanes.len() - 1).max(1)
    }

    fn on_lane(
        &self,
        lane: &mut Option<Lane>,
        share: impl Fn(&mut Lane) -> Result<()>,
    ) -> Result<()> {
        let _inside = Inside::enter(self);
        if lane.is_none() {
            *lane = Some(Lane {
                stream: self.device.stream()?,
                free: Vec::new(),
            });
        }
        lane.as_mut().map_or(Ok(()), share)
    }

    /// The threads, made on first use.
    pub(super) fn threads(&self) -> Result<&ThreadPool> {
        if let Some(threads) = self.threads.get() {
            return Ok(threads);
        }
        let name = |n| format!("pinfold-mover-{n}");
        let made = ThreadPoolBuilder::new()
            .num_threads(self.sleepers())
            .thread_name(name)
            .start_handler(run_near(&self.device))
            .build()
            .map_err(|error| Error::Threads {
                count: self.lanes.len(),
                problem: error.to_string(),
            })?;
        // Should two threads come at once, one set of threads goes again.
        Ok(self.threads.get_or_init(|| made))
    }

    /// A slot of the lane's, where one is at hand or, beside those in flight, may still be made.
    pub(super) fn slot(
        &self,
        lane: &mut Lane,
        in_flight: usize,
    ) -> Result<Option<ExchangeBuffer<u8>>> {
        if let Some(slot) = lane.free.pop() {
            return Ok(Some(slot));
        }
        if in_flight >= self.slots {
            return Ok(None);
        }
        match self.memory.exchange(self.slot_bytes as usize) {
            // With fewer slots than wished for it goes on, only slower.
            Err(_) if in_flight > 0 => Ok(None),
            made => made.map(Some),
        }
    }

    /// One copy by the driver, which returns when all of it has been read.
    pub(super) fn driver_upload(&self, from: &[u8], to: &Place, control: &Control) -> Result<()> {
        let job = Job::new(from.len() as u64, from.len() as u64, control);
        self.by_driver(&job, |stream| {
            stream.upload_slice(from, &to.block, to.offset_bytes)
        })
    }

    /// One copy by the driver, which returns when all of it was written.
    pub(super) fn driver_download(
        &self,
        to: &mut [u8],
        from: &Place,
        control: &Control,
    ) -> Result<()> {
        let job = Job::new(to.len() as u64, to.len() as u64, control);
        self.by_driver(&job, |stream| {
            stream.download_slice(&from.block, from.offset_bytes, to)
        })
    }

    fn by_driver(&self, job: &Job, copy: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
        if let Some(range) = job.claim() {
            let idle = self.driver.lock().take();
            let stream = idle.map_or_else(|| self.device.stream(), Ok)?;
            copy(&stream)?;
            // Another thread may have put one there meanwhile: then that one goes.
            let other = self.driver.lock().replace(stream);
            drop(other);
            job.arrived(range.end - range.start);
        }
        job.outcome()
    }
}
