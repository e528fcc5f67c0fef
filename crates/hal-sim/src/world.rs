//! The whole state of a simulation, and the steps that every call is made of: check, spend time,
//! enqueue, wait.

use crate::SimOptions;
use crate::address::{DeviceMap, HOST_SPACE_BYTES, HostMap, HostRange, SPLIT_OFFSET};
use crate::error::{bad_handle, not_open};
use crate::event::Events;
use crate::graph::Graphs;
use crate::hazard::HazardLog;
use crate::module::Modules;
use crate::operation::{Operation, Prepared, Work};
use crate::policy::{Numbers, Policy};
use crate::schedule::{Engines, ps};
use pinfold_hal::{DeviceId, DriverError, ErrorCode, Result, StreamId, StreamKind};
use pinfold_model::{Direction, Profile, cost};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What poisoned memory holds.
pub(crate) const POISON: u8 = 0xA5;

/// Most operations that nobody has waited for. Beyond it the older half counts as waited for, so
/// that a program that never waits does not grow the simulation without end.
const OPERATIONS_MAX: usize = 16 << 10;

/// The last operation of something, and when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) id: u64,
    pub(crate) end_ps: u64,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) kind: StreamKind,
    pub(crate) tail: Option<Tail>,
    /// The capture that it takes part in.
    pub(crate) capture: Option<u64>,
}

/// A device.
pub(crate) struct Device {
    pub(crate) opens: u32,
    /// Why the context is lost: code and detail.
    pub(crate) lost: Option<(ErrorCode, String)>,
    pub(crate) engines: Engines,
    /// The ends of destroyed streams.
    pub(crate) orphans: Vec<Tail>,
}

/// Everything, behind one lock.
pub(crate) struct World {
    pub(crate) options: SimOptions,
    pub(crate) clock_ps: u64,
    pub(crate) numbers: Numbers,
    pub(crate) devices: Vec<Device>,
    pub(crate) host: HostMap,
    /// How often memory was registered, by its start, where it moves for devices then.
    registered: BTreeMap<usize, u64>,
    pub(crate) blocks: DeviceMap,
    /// Operations that nobody has waited for, by the order of their enqueueing.
    pub(crate) operations: BTreeMap<u64, Operation>,
    /// Those of them that have not taken effect.
    pub(crate) pending: BTreeSet<u64>,
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    pub(crate) events: Events,
    pub(crate) modules: Modules,
    pub(crate) graphs: Graphs,
    pub(crate) hazards: Arc<HazardLog>,
    next_id: u64,
}

impl World {
    pub(crate) fn new(options: SimOptions, hazards: Arc<HazardLog>) -> Self {
        let seed = match options.policy {
            Policy::Seeded(seed) => seed,
            Policy::Eager | Policy::Lazy => 0,
        };
        let slowed = |way| cost::both_directions_slowdown(&options.profile, way);
        let engines = Engines::new(slowed(Direction::ToDevice), slowed(Direction::ToHost));
        let device = |_| Device {
            opens: 0,
            lost: None,
            engines: engines.clone(),
            orphans: Vec::new(),
        };
        let count = options.profile.devices.len() as u32;
        let default_stream = |n| {
            let id = StreamId {
                device: DeviceId(n),
                raw: 0,
            };
            (id, Stream::new(StreamKind::Blocking))
        };
        World {
            devices: (0..count).map(device).collect(),
            streams: (0..count).map(default_stream).collect(),
            options,
            clock_ps: 0,
            numbers: Numbers::new(seed),
            host: HostMap::default(),
            registered: BTreeMap::new(),
            blocks: DeviceMap::default(),
            operations: BTreeMap::new(),
            pending: BTreeSet::new(),
            events: Events::default(),
            modules: Modules::default(),
            graphs: Graphs::default(),
            hazards,
            next_id: 0,
        }
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.options.profile
    }

    /// A number that was never given out: for handles and operations alike. Never 0.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// True for a handle that existed once.
    pub(crate) fn was_given_out(&self, raw: u64) -> bool {
        (1..=self.next_id).contains(&raw)
    }

    pub(crate) fn spend(&mut self, nanoseconds: f64) {
        self.clock_ps = self.clock_ps.saturating_add(ps(nanoseconds));
    }

    /// What page-locked memory's device addresses are ahead of its host addresses.
    pub(crate) fn host_offset(&self) -> u64 {
        if self.options.split_addresses {
            SPLIT_OFFSET
        } else {
            0
        }
    }

    /// The same for memory that is being registered.
    pub(crate) fn registered_offset(&mut self, start: usize) -> u64 {
        if !self.options.moving_addresses {
            return self.host_offset();
        }
        let times = self.registered.entry(start).or_default();
        *times += 1;
        SPLIT_OFFSET + *times * HOST_SPACE_BYTES % SPLIT_OFFSET
    }

    /// Whether kernels of a device can use a page-locked range. Under unified addressing all of it
    /// is mapped for all devices (CUDA C++ Programming Guide, unified virtual addressing).
    pub(crate) fn reaches(&self, device: DeviceId, range: &HostRange) -> bool {
        let profile = &self.profile().devices[device.0 as usize];
        let unified = profile.capabilities.unified_addressing;
        let here = range.portable || range.device == device;
        profile.capabilities.can_map_host_memory && (unified || (range.mapped && here))
    }

    /// The device, if it exists, is open, and is not lost.
    pub(crate) fn usable(&mut self, id: DeviceId, call: &'static str) -> Result<&mut Device> {
        let device = self.existing(id, call)?;
        if device.opens == 0 {
            return Err(not_open(call, id));
        }
        match &device.lost {
            Some((code, detail)) => Err(DriverError::with_detail(*code, call, detail.clone())),
            None => Ok(device),
        }
    }

    pub(crate) fn existing(&mut self, id: DeviceId, call: &'static str) -> Result<&mut Device> {
        let count = self.devices.len();
        self.devices.get_mut(id.0 as usize).ok_or_else(|| {
            let what = format!("there is no device {id}; there are {count}");
            DriverError::with_detail(ErrorCode::InvalidDevice, call, what)
        })
    }

    pub(crate) fn is_lost(&self, id: DeviceId) -> bool {
        let device = self.devices.get(id.0 as usize);
        device.is_some_and(|device| device.lost.is_some())
    }

    /// Loses a device's context; the first reason stays. Work in flight is dropped here and now, so
    /// that nobody waits for what a callback holds.
    pub(crate) fn lose(&mut self, id: DeviceId, code: ErrorCode, detail: String) {
        if let Some(device) = self.devices.get_mut(id.0 as usize) {
            device.lost.get_or_insert((code, detail));
        }
        let clock = self.clock_ps;
        for operation in self.operations.values_mut().filter(|op| op.device == id) {
            operation.discard(clock);
        }
    }

    /// The stream, if it exists on a usable device.
    pub(crate) fn stream(&mut self, id: StreamId, call: &'static str) -> Result<&mut Stream> {
        self.usable(id.device, call)?;
        let was = self.was_given_out(id.raw);
        if !self.streams.contains_key(&id) && was {
            self.hazards
                .note(call, format!("stream {} was destroyed", id.raw));
        }
        let known = self.streams.get_mut(&id);
        known.ok_or_else(|| bad_handle(call, format!("there is no stream {}", id.raw)))
    }

    /// What new work of a stream comes after: its own last work, and by the rule of the legacy
    /// default stream, that of others.
    pub(crate) fn fences(&self, id: StreamId) -> Vec<Tail> {
        let mut fences: Vec<Tail> = Vec::new();
        let Some(stream) = self.streams.get(&id) else {
            return fences;
        };
        fences.extend(stream.tail);
        let default = StreamId { raw: 0, ..id };
        if id == default {
            let on_device = self
                .streams
                .iter()
                .filter(|(other, _)| other.device == id.device);
            let blocking =
                on_device.filter(|(other, s)| **other != default && s.kind == StreamKind::Blocking);
            fences.extend(blocking.filter_map(|(_, s)| s.tail));
            fences.extend(&self.devices[id.device.0 as usize].orphans);
        } else if stream.kind == StreamKind::Blocking {
            fences.extend(self.streams.get(&default).and_then(|s| s.tail));
        }
        fences
    }

    /// Enqueues work behind what the stream holds, and behind `also`.
    pub(crate) fn submit(&mut self, stream: StreamId, work: Prepared, also: Option<Tail>) -> Tail {
        let mut fences = self.fences(stream);
        fences.extend(also);
        let ready = fences.iter().map(|fence| fence.end_ps).max().unwrap_or(0);
        let from = ready.max(self.clock_ps.saturating_add(work.start_ps));
        let engines = &mut self.devices[stream.device.0 as usize].engines;
        let (_, end_ps) = engines.place(work.resource, from, work.busy_ps, self.clock_ps);
        if let Some(target) = work.poisons
            && !self.is_awaited(target.addr() as u64, target.end() as u64)
        {
            target.fill(POISON);
        }
        let mut after: Vec<u64> = fences.iter().map(|fence| fence.id).collect();
        after.retain(|id| self.operations.contains_key(id));
        let tail = Tail {
            id: self.new_id(),
            end_ps,
        };
        let operation = Operation {
            device: stream.device,
            work: work.work,
            pieces: None,
            after,
            uses: work.uses,
            module: work.module,
            end_ps,
        };
        self.operations.insert(tail.id, operation);
        self.pending.insert(tail.id);
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.tail = Some(tail);
        }
        self.begin(tail.id);
        if work.blocks_host {
            self.force(&[tail.id]);
        }
        if work.blocks_host {
            self.pass_time_until(end_ps);
        }
        self.forget_some();
        tail
    }

    /// True where an operation that has not taken effect uses the range, or is a callback, which
    /// may use any: then its bytes still count.
    fn is_awaited(&self, start: u64, end: u64) -> bool {
        let mut pending = self.pending.iter().filter_map(|id| self.operations.get(id));
        pending.any(|op| {
            let touched = |&(a, b): &(u64, u64)| a < end && start < b;
            matches!(op.work, Work::Callback(_)) || op.uses.iter().any(touched)
        })
    }

    fn forget_some(&mut self) {
        if self.operations.len() > OPERATIONS_MAX {
            let older: Vec<u64> = self
                .operations
                .keys()
                .copied()
                .take(OPERATIONS_MAX / 2)
                .collect();
            self.force(&older);
            self.observe(&older);
        }
    }

    /// A wait: the clock goes on to the end of the work, and a little more for the way back.
    pub(crate) fn pass_time_until(&mut self, end_ps: u64) {
        if end_ps > self.clock_ps {
            let back = ps(self.profile().calls.sync_return_ns.value);
            self.clock_ps = end_ps.saturating_add(back);
        }
    }

    /// Waits for work: time passes, it takes effect, and the program knows that it is done.
    pub(crate) fn wait_for(&mut self, tails: &[Tail]) {
        let end = tails.iter().map(|tail| tail.end_ps).max().unwrap_or(0);
        self.pass_time_until(end);
        let ids: Vec<u64> = tails.iter().map(|tail| tail.id).collect();
        self.force(&ids);
        self.observe(&ids);
    }

    /// True where the work is over by the clock; then it has taken effect, and the program knows.
    pub(crate) fn query(&mut self, tails: &[Tail]) -> bool {
        let over = tails.iter().all(|tail| tail.end_ps <= self.clock_ps);
        if over {
            self.wait_for(tails);
        }
        over
    }

    /// The program knows that these and all before them are done: forgets them.
    pub(crate) fn observe(&mut self, ids: &[u64]) {
        let mut todo = ids.to_vec();
        while let Some(id) = todo.pop() {
            if let Some(operation) = self.operations.remove(&id) {
                self.pending.remove(&id);
                todo.extend(operation.after);
            }
        }
    }

    /// Notes a hazard where work in flight uses a range that is about to go away, and waits for it.
    pub(crate) fn release(&mut self, call: &'static str, start: u64, end: u64) {
        let users = self
            .operations
            .iter()
            .filter(|(_, op)| op.uses.iter().any(|&(a, b)| a < end && start < b));
        let tails: Vec<Tail> = users
            .map(|(&id, op)| Tail {
                id,
                end_ps: op.end_ps,
            })
            .collect();
        if !tails.is_empty() {
            let what = format!(
                "{start:#x}..{end:#x} is used by {} operations that nobody has waited for",
                tails.len()
            );
            self.hazards.note(call, what);
            self.wait_for(&tails);
        }
    }

    /// The ends of everything on a device.
    pub(crate) fn device_tails(&self, device: DeviceId) -> Vec<Tail> {
        let own = self.streams.iter().filter(|(id, _)| id.device == device);
        let mut tails: Vec<Tail> = own.filter_map(|(_, stream)| stream.tail).collect();
        tails.extend(&self.devices[device.0 as usize].orphans);
        tails
    }

    /// Lets time go on to the next end of work, or by a moment where there is none, and lets take
    /// effect what is over by then.
    pub(crate) fn pause(&mut self) {
        const MOMENT_NS: f64 = 100.0;
        let ends = self.operations.values().map(|op| op.end_ps);
        match ends.filter(|&end| end > self.clock_ps).min() {
            Some(end) => self.clock_ps = end,
            None => self.spend(MOMENT_NS),
        }
        let over = self.pending.iter().filter(|id| {
            let operation = self.operations.get(id);
            operation.is_some_and(|op| op.end_ps <= self.clock_ps)
        });
        let over: Vec<u64> = over.copied().collect();
        self.force(&over);
    }
}

impl Stream {
    pub(crate) fn new(kind: StreamKind) -> Self {
        Stream {
            kind,
            tail: None,
            capture: None,
        }
    }
}
