//! The books as data, for programs and for people.

use super::live::LiveBlock;
use crate::error::Bytes;
use crate::pool::PoolStats;
use pinfold_model::MemoryKind;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

/// Bytes and counts of one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindStats {
    /// Live blocks.
    pub blocks: u64,
    /// Bytes that live blocks were asked for.
    pub requested_bytes: u64,
    /// Bytes that live blocks take.
    pub held_bytes: u64,
    /// Most bytes that were held at once.
    pub held_bytes_peak: u64,
    /// Blocks taken since the start.
    pub taken: u64,
}

/// The books at one moment; exact whenever no other thread takes or gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStats {
    /// By kind; kinds that were never used are absent.
    pub kinds: BTreeMap<MemoryKind, KindStats>,
    /// Bytes of dropped buffers that the device may still use. They count as held.
    pub retired_bytes: u64,
    /// Bytes of dropped buffers that driver or system did not let go of: nobody has them any more.
    pub lost_bytes: u64,
    /// Bytes of live buffers that are ordinary memory at the moment, until a device uses them
    /// again ([`PinOnUse`](crate::pool::PinOnUse)). They count as held.
    pub unpinned_bytes: u64,
    /// Requests that were not served with the kind first chosen.
    pub ladder_steps: u64,
}

/// Bytes and counts of one call site and kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SiteStats {
    /// The line of code that asked.
    #[serde(serialize_with = "site_text")]
    pub site: &'static Location<'static>,
    /// The kind of memory that it got.
    pub kind: MemoryKind,
    /// Live blocks.
    pub blocks: u64,
    /// Bytes that live blocks were asked for.
    pub requested_bytes: u64,
    /// Bytes that live blocks take.
    pub held_bytes: u64,
    /// Blocks taken since the start.
    pub taken: u64,
    /// Bytes asked for since the start.
    pub taken_bytes: u64,
}

pub(crate) fn site_text<S: Serializer>(
    site: &&'static Location<'static>,
    s: S,
) -> Result<S::Ok, S::Error> {
    s.collect_str(site)
}

/// Everything that a memory manager knows of its memory at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryReport {
    /// The devices, by name.
    pub devices: Vec<String>,
    /// True where they are simulated.
    pub simulated: bool,
    /// By kind of memory.
    #[serde(flatten)]
    pub stats: MemoryStats,
    /// By call site, those that hold the most first.
    pub sites: Vec<SiteStats>,
    /// Live blocks one by one, the oldest first, where they are [tracked](super::Tracking).
    pub blocks: Vec<LiveBlock>,
    /// Live blocks that are tracked and not listed: at most
    /// [`BLOCKS_MAX`](MemoryReport::BLOCKS_MAX) are.
    pub blocks_not_listed: u64,
    /// The pools' books, where there are pools.
    pub pools: Vec<PoolStats>,
}

impl MemoryReport {
    /// Most live blocks that a report lists.
    pub const BLOCKS_MAX: usize = 1000;

    /// Blocks that are in use, by the books.
    pub fn live_blocks(&self) -> u64 {
        self.stats.kinds.values().map(|kind| kind.blocks).sum()
    }

    /// The report as JSON.
    ///
    /// ```
    /// # fn main() -> Result<(), pinfold::Error> {
    /// # let device = "sim".parse::<pinfold::DeviceChoice>()?.open()?.device;
    /// let memory = pinfold::Memory::new(&device);
    /// let buffer = memory.upload::<f32>(1000)?;
    /// assert!(memory.report().to_json().contains("\"requested_bytes\": 4000"));
    /// # drop(buffer);
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_json(&self) -> String {
        // Names, numbers and lists of them always have a text.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simulated = if self.simulated { " (simulated)" } else { "" };
        writeln!(f, "memory of {}{simulated}", self.devices.join(", "))?;
        for (kind, books) in &self.stats.kinds {
            writeln!(
                f,
                "  {kind}: {} in {} live blocks ({} asked for), at most {}, {} blocks in all",
                Bytes(books.held_bytes),
                books.blocks,
                Bytes(books.requested_bytes),
                Bytes(books.held_bytes_peak),
                books.taken
            )?;
        }
        for site in self.sites.iter().filter(|site| site.blocks > 0) {
            writeln!(
                f,
                "  live from {}: {} {} blocks, {}",
                site.site,
                site.blocks,
                site.kind,
                Bytes(site.requested_bytes)
            )?;
        }
        self.blocks
            .iter()
            .try_for_each(|block| writeln!(f, "{block}"))?;
        if self.blocks_not_listed > 0 {
            writeln!(f, "  and {} blocks more", self.blocks_not_listed)?;
        }
        Ok(())
    }
}
