//! Fresh memory by size and kind: allocated, registered in place, and given back.

use super::super::table::Figure;
use super::rig::{Rig, fill};
use crate::error::Result;
use crate::progress::Progress;
use pinfold::MemoryKind;

/// Kinds that are made fresh.
pub(super) const KINDS: [MemoryKind; 3] = [
    MemoryKind::PageLocked,
    MemoryKind::WriteCombined,
    MemoryKind::Registered,
];
/// Repetitions: each page-locks anew.
const REPEATS: usize = 5;

/// Getting and giving back, in nanoseconds by bytes, for one kind.
pub(super) struct Pins {
    pub(super) kind: MemoryKind,
    pub(super) get_ns: Vec<(u64, Figure)>,
    pub(super) give_back_ns: Vec<(u64, Figure)>,
}

/// All that making memory tells.
pub(super) struct Measured {
    pub(super) kinds: Vec<Pins>,
    pub(super) device_get_ns: Figure,
    pub(super) device_give_back_ns: Figure,
}

/// Measures page-locking.
pub(super) fn measure(rig: &mut Rig, progress: &mut dyn Progress) -> Result<Measured> {
    let sizes = rig.plan.pin_bytes.clone();
    progress.begin("page-locking", sizes.len() as u64);
    let mut kinds: Vec<Pins> = (KINDS.into_iter())
        .map(|kind| Pins {
            kind,
            get_ns: Vec::new(),
            give_back_ns: Vec::new(),
        })
        .collect();
    for bytes in sizes {
        let repeats = rig.plan.repeats(bytes).min(REPEATS);
        let mut turns: Vec<(MemoryKind, Vec<f64>)> = KINDS.map(|kind| (kind, Vec::new())).into();
        let get = rig.rounds(&mut turns, repeats, |rig, (kind, back)| {
            let (get_ns, back_ns) = once(rig, *kind, bytes as usize)?;
            back.push(back_ns);
            Ok(get_ns)
        })?;
        for ((pins, get), (_, mut back)) in kinds.iter_mut().zip(get).zip(turns) {
            pins.get_ns.push((bytes, get));
            back.remove(0); // the first round warms up
            pins.give_back_ns.push((bytes, Figure::of(back)));
        }
        progress.step();
    }
    let mut back = Vec::new();
    let device_get_ns = rig.repeat(REPEATS, |rig| {
        let start_ns = rig.now_ns();
        let memory = rig.plain.device::<u8>(1 << 20)?;
        let got_ns = rig.now_ns();
        drop(memory);
        back.push((rig.now_ns() - got_ns) as f64);
        Ok((got_ns - start_ns) as f64)
    })?;
    back.remove(0); // the first round warms up
    progress.end();
    Ok(Measured {
        kinds,
        device_get_ns,
        device_give_back_ns: Figure::of(back),
    })
}

/// Nanoseconds to get memory and to give it back.
fn once(rig: &mut Rig, kind: MemoryKind, bytes: usize) -> Result<(f64, f64)> {
    if kind == MemoryKind::Registered {
        let mut owner = vec![0u8; bytes];
        fill(&mut owner, |i| i as u8); // registering memory that was not touched touches it
        let start_ns = rig.now_ns();
        let registered = rig.plain.register(owner)?;
        let got_ns = rig.now_ns();
        let owner = registered.into_inner()?;
        let end_ns = rig.now_ns();
        drop(owner);
        return Ok(((got_ns - start_ns) as f64, (end_ns - got_ns) as f64));
    }
    let memory = rig.plain.of_kind(kind);
    let start_ns = rig.now_ns();
    let buffer = memory.upload::<u8>(bytes)?;
    let got_ns = rig.now_ns();
    drop(buffer);
    let end_ns = rig.now_ns();
    Ok(((got_ns - start_ns) as f64, (end_ns - got_ns) as f64))
}
