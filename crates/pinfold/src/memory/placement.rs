//! Where a buffer is, and why.

use crate::track::report::site_text;
use pinfold_model::MemoryKind;
use serde::{Serialize, Serializer};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Where a buffer is, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Placement {
    kind: MemoryKind,
    bytes: u64,
    reason: Reason,
    ladder: Vec<LadderStep>,
    #[serde(serialize_with = "site_text")]
    site: &'static Location<'static>,
}

impl Placement {
    pub(crate) fn new(
        kind: MemoryKind,
        bytes: u64,
        reason: Reason,
        site: &'static Location<'static>,
    ) -> Self {
        Placement {
            kind,
            bytes,
            reason,
            ladder: Vec::new(),
            site,
        }
    }

    pub(crate) fn with_ladder(self, ladder: Vec<LadderStep>) -> Self {
        Placement { ladder, ..self }
    }

    /// The kind of memory.
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// Bytes asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why this kind.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// What was tried before, and how it failed. Empty where the first choice was had.
    pub fn ladder(&self) -> &[LadderStep] {
        &self.ladder
    }

    /// The line of code that asked.
    pub fn site(&self) -> &'static Location<'static> {
        self.site
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.site, self.kind, self.reason)?;
        for step in &self.ladder {
            write!(f, "; {} failed: {}", step.tried, step.problem)?;
        }
        Ok(())
    }
}

/// One rung of the ladder that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LadderStep {
    /// The kind that was tried.
    pub tried: MemoryKind,
    /// What the driver, the system or the pool said.
    pub problem: String,
}

/// Why a kind was chosen: a stable code for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    code: ReasonCode,
    text: Text,
}

/// A text that costs nothing to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Text {
    Fixed(&'static str),
    Made(Arc<str>),
}

impl Text {
    fn as_str(&self) -> &str {
        match self {
            Text::Fixed(text) => text,
            Text::Made(text) => text,
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

/// The kinds of reasons there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ReasonCode {
    /// The caller named the kind.
    Asked,
    /// Only the device touches it.
    DeviceOnly,
    /// Page-locked memory is copied straight by the device.
    DirectCopy,
    /// Write-combining was measured to pay on this machine.
    WriteCombiningPays,
    /// Kernels reach it in place.
    InPlace,
    /// The device shares the host's memory: copies would be waste.
    SharedMemory,
    /// The caller's own memory, page-locked where it lies.
    Registered,
    /// The caller's own memory, which other code of the process had page-locked already.
    Borrowed,
}

impl Reason {
    pub(crate) fn new(code: ReasonCode, text: &'static str) -> Self {
        let text = Text::Fixed(text);
        Reason { code, text }
    }

    pub(crate) fn made(code: ReasonCode, text: String) -> Self {
        let text = Text::Made(text.into());
        Reason { code, text }
    }

    pub(crate) fn device() -> Self {
        Reason::new(ReasonCode::DeviceOnly, "only the device touches it")
    }

    /// The stable code.
    pub fn code(&self) -> ReasonCode {
        self.code
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.as_str())
    }
}
