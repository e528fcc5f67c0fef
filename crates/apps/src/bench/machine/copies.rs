//! Copies by the driver: size × direction × kind of memory, and both directions at once.

use super::super::table::Figure;
use super::rig::{Rig, SEED, check_host, fill, word_of};
use crate::error::{JobError, Result};
use crate::progress::Progress;
use pinfold::UploadBuffer;
use pinfold::buffer::HandOver;
use pinfold::event::EventKind;
use pinfold::hal::PcieLink;
use pinfold::{DeviceBuffer, ExchangeBuffer, InFlight, MemoryKind, RegisteredBuffer};
use pinfold_model::Direction;

/// Host memory that copies start from and end in.
pub(in crate::bench) const KINDS: [MemoryKind; 4] = [
    MemoryKind::Pageable,
    MemoryKind::PageLocked,
    MemoryKind::WriteCombined,
    MemoryKind::Registered,
];
pub(in crate::bench) const DIRECTIONS: [Direction; 2] = [Direction::ToDevice, Direction::ToHost];
/// Copies that are enqueued behind each other where the link's rate is measured.
const HELD_COPIES: usize = 8;
/// Copies that keep the link busy while it is asked what it runs at.
const LOAD_COPIES: usize = 64;
const WORD: u64 = 8;

/// Copies of one direction and kind.
pub(super) struct Copies {
    pub(super) direction: Direction,
    pub(super) kind: MemoryKind,
    /// Nanoseconds of a copy that is waited for, by bytes.
    pub(super) ns: Vec<(u64, Figure)>,
    /// Bytes a second of copies that follow each other at once; page-locked kinds have it.
    pub(super) held_bytes_per_s: Option<Figure>,
}

/// All that copies tell.
pub(super) struct Measured {
    pub(super) ways: Vec<Copies>,
    /// Nanoseconds of the call that enqueues a copy.
    pub(super) call_ns: Figure,
    /// Both directions at once, bytes a second in all.
    pub(super) both_bytes_per_s: Figure,
    /// The link as it was before, and while copies ran.
    pub(super) link: Option<(PcieLink, PcieLink)>,
}

/// One kind's memory, while no one has it.
enum Slot {
    Driver(Option<InFlight<ExchangeBuffer<u64>>>),
    /// Write-combined memory, which the host does not read and copies do not end in.
    Combined(Option<InFlight<UploadBuffer<u64>>>),
    Registered(Option<InFlight<RegisteredBuffer<Vec<u64>>>>),
}

/// Buffers of every kind on both sides, as large as the largest copy.
pub(in crate::bench) struct Buffers {
    slots: [Slot; KINDS.len()],
    up: DeviceBuffer<u64>,
    down: DeviceBuffer<u64>,
    words: usize,
}

impl Buffers {
    /// All of them hold the pattern, but for the target of copies to the device.
    pub(in crate::bench) fn new(rig: &mut Rig, bytes: u64) -> Result<Self> {
        let words = (bytes / WORD) as usize;
        let mut slots = Vec::new();
        for kind in KINDS {
            slots.push(if kind == MemoryKind::Registered {
                let mut owner = vec![0; words];
                fill(&mut owner, word_of);
                let registered = rig.pooled.register(owner)?;
                Slot::Registered(Some(registered.hand_over()))
            } else if kind.is_write_combined() {
                let mut buffer = rig.plain.of_kind(kind).upload::<u64>(words)?;
                buffer.write_each(|i| word_of(i as u64));
                Slot::Combined(Some(buffer.hand_over()))
            } else {
                let mut buffer = rig.plain.of_kind(kind).exchange::<u64>(words)?;
                fill(&mut buffer, word_of);
                Slot::Driver(Some(buffer.hand_over()))
            });
        }
        let slots = slots.try_into().map_err(|_| JobError::OutOfRange {
            what: "kinds of memory",
            got: 0,
            min: 1,
            max: KINDS.len() as u64,
        })?;
        let mut buffers = Buffers {
            slots,
            up: rig.plain.device(words)?,
            down: rig.plain.device(words)?,
            words,
        };
        rig.stream.fill(&mut buffers.up, 0)?;
        rig.patterns.fill(&rig.stream, &mut buffers.down, SEED)?;
        rig.stream.synchronize()?;
        Ok(buffers)
    }

    /// Enqueues one copy.
    pub(in crate::bench) fn copy(
        &mut self,
        rig: &Rig,
        direction: Direction,
        kind: usize,
        bytes: u64,
    ) -> Result<()> {
        let words = ((bytes / WORD) as usize).clamp(1, self.words);
        let (stream, up, down) = (&rig.stream, &mut self.up, &self.down);
        match &mut self.slots[kind] {
            Slot::Driver(slot) => {
                if let Some(flight) = slot.take() {
                    *slot = Some(match direction {
                        Direction::ToDevice => stream.upload_part(flight, 0..words, up, 0)?,
                        Direction::ToHost => stream.download_part(down, 0..words, flight, 0)?,
                    });
                }
            }
            Slot::Combined(slot) => {
                if let Some(flight) = slot.take() {
                    *slot = Some(stream.upload_part(flight, 0..words, up, 0)?);
                }
            }
            Slot::Registered(slot) => {
                if let Some(flight) = slot.take() {
                    *slot = Some(match direction {
                        Direction::ToDevice => stream.upload_part(flight, 0..words, up, 0)?,
                        Direction::ToHost => stream.download_part(down, 0..words, flight, 0)?,
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether the first bytes on the device are those that were copied there.
    fn check_up(&mut self, rig: &mut Rig, bytes: u64) -> Result<()> {
        let words = (bytes / WORD) as usize;
        rig.check_device(&self.up.slice(0..words)?)?;
        rig.stream.fill(&mut self.up, 0)?;
        Ok(rig.stream.synchronize()?)
    }

    /// Whether each kind's memory holds what was copied into it and out of it.
    fn check_down(self) -> Result<()> {
        for slot in self.slots {
            match slot {
                Slot::Driver(Some(flight)) => check_host(flight.wait()?.as_slice())?,
                Slot::Registered(Some(flight)) => check_host(flight.wait()?.as_slice())?,
                Slot::Driver(None) | Slot::Registered(None) | Slot::Combined(_) => {}
            }
        }
        Ok(())
    }
}

/// Directions with the kinds, by number, whose copies go that way.
pub(in crate::bench) fn turns() -> Vec<(Direction, usize)> {
    let all = DIRECTIONS.into_iter();
    let all = all.flat_map(|d| (0..KINDS.len()).map(move |k| (d, k)));
    let fits =
        |(d, k): &(Direction, usize)| *d == Direction::ToDevice || !KINDS[*k].is_write_combined();
    all.filter(fits).collect()
}

/// Measures copies.
pub(super) fn measure(rig: &mut Rig, progress: &mut dyn Progress) -> Result<Measured> {
    let sizes = rig.plan.copy_bytes.clone();
    progress.begin("copies", sizes.len() as u64 + 2);
    let mut buffers = Buffers::new(rig, rig.plan.bytes_max())?;
    let mut turns = turns();
    let mut ways: Vec<Copies> = (turns.iter())
        .map(|(direction, kind)| Copies {
            direction: *direction,
            kind: KINDS[*kind],
            ns: Vec::new(),
            held_bytes_per_s: None,
        })
        .collect();
    for bytes in sizes {
        let repeats = rig.plan.repeats(bytes);
        let figures = rig.rounds(&mut turns, repeats, |rig, (direction, kind)| {
            rig.until_done(|rig| buffers.copy(rig, *direction, *kind, bytes))
        })?;
        for (way, figure) in ways.iter_mut().zip(figures) {
            way.ns.push((bytes, figure));
        }
        buffers.check_up(rig, bytes)?;
        progress.step();
    }
    let bytes = rig.plan.bytes_max().min(256 << 20);
    let mut locked: Vec<(usize, (Direction, usize))> = turns
        .into_iter()
        .enumerate()
        .filter(|(_, (_, kind))| KINDS[*kind] != MemoryKind::Pageable)
        .collect();
    let repeats = rig.plan.repeats(bytes);
    let held = rig.rounds(&mut locked, repeats, |rig, (_, (direction, kind))| {
        rig.held_ns(|rig| {
            (0..HELD_COPIES).try_for_each(|_| buffers.copy(rig, *direction, *kind, bytes))
        })
    })?;
    for ((way, _), figure) in locked.into_iter().zip(held) {
        let moved = bytes as f64 * HELD_COPIES as f64;
        ways[way].held_bytes_per_s = Some(figure.rate(moved).times(1e9));
    }
    progress.step();
    let link = link_under_load(rig, &mut buffers, bytes)?;
    let call_ns = call(rig, &mut buffers)?;
    buffers.check_down()?;
    let both_bytes_per_s = both(rig)?;
    progress.step();
    progress.end();
    Ok(Measured {
        ways,
        call_ns,
        both_bytes_per_s,
        link,
    })
}

/// What the call that enqueues a small page-locked copy takes.
fn call(rig: &mut Rig, buffers: &mut Buffers) -> Result<Figure> {
    rig.repeat(rig.plan.many(), |rig| {
        let start_ns = rig.now_ns();
        buffers.copy(rig, Direction::ToDevice, 1, 64 << 10)?;
        let ns = (rig.now_ns() - start_ns) as f64;
        rig.stream.synchronize()?;
        Ok(ns)
    })
}

/// What the link runs at: an idle one may have dropped to a lower generation.
fn link_under_load(
    rig: &mut Rig,
    buffers: &mut Buffers,
    bytes: u64,
) -> Result<Option<(PcieLink, PcieLink)>> {
    let copies = if rig.plan.simulated { 1 } else { LOAD_COPIES };
    for _ in 0..copies {
        buffers.copy(rig, Direction::ToDevice, 1, bytes)?;
    }
    let now = rig.device.platform().device(rig.device.index())?;
    let load = now.info().link;
    rig.stream.synchronize()?;
    Ok(rig.device.info().link.zip(load))
}

/// Two equal copies of the largest size, one a direction, that start together.
fn both(rig: &mut Rig) -> Result<Figure> {
    let bytes = rig.plan.bytes_max();
    let words = (bytes / WORD) as usize;
    let locked = rig.plain.of_kind(MemoryKind::PageLocked);
    let other = rig.device.stream()?;
    let (mut to, from) = (
        rig.plain.device::<u64>(words)?,
        rig.plain.device::<u64>(words)?,
    );
    let mut up = Some(locked.upload::<u64>(words)?.hand_over());
    let mut down = Some(locked.download::<u64>(words)?.hand_over());
    let go = rig.device.event(EventKind::NoTiming)?;
    let done = rig.device.event(EventKind::NoTiming)?;
    let figure = rig.repeat(rig.plan.repeats(bytes), |rig| {
        rig.held_ns(|rig| {
            rig.stream.record(&go)?;
            other.wait(&go)?;
            if let Some(flight) = up.take() {
                up = Some(rig.stream.upload(flight, &mut to)?);
            }
            if let Some(flight) = down.take() {
                down = Some(other.download(&from, flight)?);
            }
            other.record(&done)?;
            Ok(rig.stream.wait(&done)?)
        })
    })?;
    Ok(figure.rate(2.0 * bytes as f64).times(1e9))
}
