//! From what memory is for, and what was measured here, to a kind of memory.

use super::{Reason, ReasonCode};
use crate::device::Device;
use parking_lot::RwLock;
use pinfold_model::MemoryKind;
use serde::Serialize;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// The host writes it, the device takes copies.
    Upload,
    /// The device copies results into it, the host reads.
    Download,
    /// Copied both ways, or handed from device to device.
    Exchange,
    /// The host writes it, kernels read it in place.
    UploadInPlace,
    /// Kernels use it in place, the host reads and writes it.
    ZeroCopy,
}

/// What was measured on this machine and decides between kinds. Rates in bytes a second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Copies to the device from page-locked memory.
    pub upload_page_locked: f64,
    /// Copies to the device from write-combined memory.
    pub upload_write_combined: f64,
    /// Sequential reads by a kernel of mapped memory.
    pub read_mapped: f64,
    /// Sequential reads by a kernel of mapped write-combined memory.
    pub read_mapped_write_combined: f64,
}

impl Use {
    /// True where memory of the kind can serve this use at all. Write-combined memory is only for
    /// uses in which the host never reads; kernels reach only mapped memory.
    pub fn allows(self, kind: MemoryKind) -> bool {
        use MemoryKind::{Mapped, MappedWriteCombined, PageLocked, Pageable, WriteCombined};
        match self {
            Use::Upload => {
                matches!(
                    kind,
                    Pageable | PageLocked | WriteCombined | Mapped | MappedWriteCombined
                )
            }
            Use::Download | Use::Exchange => matches!(kind, Pageable | PageLocked | Mapped),
            Use::UploadInPlace => matches!(kind, Mapped | MappedWriteCombined),
            Use::ZeroCopy => kind == Mapped,
        }
    }
}

/// Write-combining gives up every read by the host; it is chosen only where it gains at least
/// this much, well above the spread of a short measurement.
const WRITE_COMBINED_GAIN_MIN: f64 = 1.05;

impl Measured {
    /// True where copies from write-combined memory are clearly faster.
    pub fn write_combining_pays_for_copies(&self) -> bool {
        self.upload_write_combined >= WRITE_COMBINED_GAIN_MIN * self.upload_page_locked
    }

    /// True where kernels read write-combined memory clearly faster.
    pub fn write_combining_pays_in_place(&self) -> bool {
        self.read_mapped_write_combined >= WRITE_COMBINED_GAIN_MIN * self.read_mapped
    }
}

/// A kind, and why.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) kind: MemoryKind,
    pub(crate) reason: Reason,
}

/// A decision for every use, made anew only when something is measured.
#[derive(Debug)]
pub(crate) struct Decisions {
    upload: Decision,
    upload_in_place: Decision,
    integrated: bool,
}

/// Where requests ask for a decision. Each thread keeps the decisions that it used last, so that
/// asking costs neither a lock nor a cache line that threads share.
pub(crate) struct Desk {
    /// No two sets of decisions in the process have the same.
    version: AtomicU64,
    decisions: RwLock<Arc<Decisions>>,
}

thread_local! {
    static LAST: RefCell<(u64, Option<Arc<Decisions>>)> = const { RefCell::new((0, None)) };
}

impl Desk {
    pub(crate) fn new(decisions: Decisions) -> Self {
        Desk {
            version: AtomicU64::new(new_version()),
            decisions: RwLock::new(Arc::new(decisions)),
        }
    }

    /// Decides by other decisions from now on.
    pub(crate) fn set(&self, decisions: Decisions) {
        let mut now = self.decisions.write();
        *now = Arc::new(decisions);
        self.version.store(new_version(), Ordering::Release);
    }

    #[inline]
    pub(crate) fn decide(&self, usage: Use, asked: Option<MemoryKind>) -> Decision {
        let version = self.version.load(Ordering::Acquire);
        let by_last = LAST.try_with(|last| {
            let last = last.try_borrow().ok()?;
            let decisions = last.1.as_ref().filter(|_| last.0 == version)?;
            Some(decisions.decide(usage, asked))
        });
        match by_last {
            Ok(Some(decision)) => decision,
            _ => self.decide_anew(version, usage, asked),
        }
    }

    #[cold]
    fn decide_anew(&self, version: u64, usage: Use, asked: Option<MemoryKind>) -> Decision {
        let decisions = self.decisions.read().clone();
        let decision = decisions.decide(usage, asked);
        // The version was read first: newer decisions are at worst asked for once more.
        let _ = LAST.try_with(|last| {
            if let Ok(mut last) = last.try_borrow_mut() {
                *last = (version, Some(decisions));
            }
        });
        decision
    }
}

fn new_version() -> u64 {
    static VERSIONS: AtomicU64 = AtomicU64::new(1);
    VERSIONS.fetch_add(1, Ordering::Relaxed)
}

impl Decisions {
    pub(crate) fn new(devices: &[Device], measured: Option<&Measured>) -> Self {
        Decisions {
            upload: upload(measured),
            upload_in_place: upload_in_place(measured),
            integrated: devices.iter().all(|d| d.info().capabilities.integrated),
        }
    }

    pub(crate) fn decide(&self, usage: Use, asked: Option<MemoryKind>) -> Decision {
        if let Some(kind) = asked {
            let reason = Reason::new(ReasonCode::Asked, "asked for by name");
            return Decision { kind, reason };
        }
        let decision = |kind, code, text| Decision {
            kind,
            reason: Reason::new(code, text),
        };
        match usage {
            Use::Upload | Use::Download | Use::Exchange if self.integrated => decision(
                MemoryKind::Mapped,
                ReasonCode::SharedMemory,
                "the device shares the host's memory, so that no copy is needed",
            ),
            Use::Upload => self.upload.clone(),
            Use::Download => decision(
                MemoryKind::PageLocked,
                ReasonCode::DirectCopy,
                "the device copies straight into page-locked memory; write-combined memory is \
                 never used for results, since the host would read it uncached",
            ),
            Use::Exchange => decision(
                MemoryKind::PageLocked,
                ReasonCode::DirectCopy,
                "host and device both read and write it: page-locked and cached",
            ),
            Use::UploadInPlace => self.upload_in_place.clone(),
            Use::ZeroCopy => decision(
                MemoryKind::Mapped,
                ReasonCode::InPlace,
                "kernels use it in place; the host reads it too, so it is cached",
            ),
        }
    }
}

fn upload(measured: Option<&Measured>) -> Decision {
    let (kind, code, text) = match measured {
        None => (
            MemoryKind::PageLocked,
            ReasonCode::DirectCopy,
            "the device copies straight from page-locked memory; write-combining was not measured \
             here, so it is not used"
                .to_owned(),
        ),
        Some(m) => {
            let (locked, combined) = (m.upload_page_locked, m.upload_write_combined);
            let figures = format!("{} against {}", rate(combined), rate(locked));
            if m.write_combining_pays_for_copies() {
                let text = format!("write-combining pays for uploads here: {figures} page-locked");
                (
                    MemoryKind::WriteCombined,
                    ReasonCode::WriteCombiningPays,
                    text,
                )
            } else {
                let text = format!("write-combining gains nothing here: {figures} page-locked");
                (MemoryKind::PageLocked, ReasonCode::DirectCopy, text)
            }
        }
    };
    Decision {
        kind,
        reason: Reason::made(code, text),
    }
}

fn upload_in_place(measured: Option<&Measured>) -> Decision {
    let (kind, code, text) = match measured {
        None => (
            MemoryKind::Mapped,
            ReasonCode::InPlace,
            "kernels read it in place; write-combining was not measured here, so it is not used"
                .to_owned(),
        ),
        Some(m) => {
            let (mapped, combined) = (m.read_mapped, m.read_mapped_write_combined);
            let figures = format!("{} against {}", rate(combined), rate(mapped));
            if m.write_combining_pays_in_place() {
                let text = format!("kernels read write-combined memory faster here: {figures}");
                (
                    MemoryKind::MappedWriteCombined,
                    ReasonCode::WriteCombiningPays,
                    text,
                )
            } else {
                let text = format!(
                    "kernels read it in place; write-combining gains nothing here: {figures}"
                );
                (MemoryKind::Mapped, ReasonCode::InPlace, text)
            }
        }
    };
    Decision {
        kind,
        reason: Reason::made(code, text),
    }
}

fn rate(bytes_per_s: f64) -> String {
    format!("{:.1} GB/s", bytes_per_s / 1e9)
}
