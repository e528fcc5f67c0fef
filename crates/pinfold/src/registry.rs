//! Which ranges of host memory this process has page-locked through one backend, and who did.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::panic::Location;

/// Ranges by start address. They never overlap: the driver works on whole pages, so ranges are
/// kept rounded out to pages.
#[derive(Default)]
pub(crate) struct Registry {
    ranges: Mutex<BTreeMap<usize, Entry>>,
}

struct Entry {
    end: usize,
    site: &'static Location<'static>,
}

/// The page size that ranges are rounded to. Larger pages only make true overlaps more likely to be
/// found by the driver itself, which is still reported.
const PAGE_BYTES: usize = 4096;

impl Registry {
    /// Enters a range.
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`] naming the first owner of an overlapping range.
    pub(crate) fn enter(
        &self,
        start: usize,
        bytes: usize,
        site: &'static Location<'static>,
    ) -> Result<()> {
        let (first, end) = pages(start, bytes);
        let mut ranges = self.ranges.lock();
        let overlapping = ranges
            .range(..end)
            .next_back()
            .filter(|(_, e)| e.end > first);
        if let Some((_, entry)) = overlapping {
            let owner = format!("the buffer registered at {}", entry.site);
            return Err(Error::AlreadyRegistered {
                start,
                end: start + bytes,
                owner,
            });
        }
        ranges.insert(first, Entry { end, site });
        Ok(())
    }

    /// Takes a range out again.
    pub(crate) fn leave(&self, start: usize) {
        self.ranges.lock().remove(&pages(start, 0).0);
    }
}

fn pages(start: usize, bytes: usize) -> (usize, usize) {
    let end = start.saturating_add(bytes).saturating_add(PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    (start / PAGE_BYTES * PAGE_BYTES, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_found_by_page_and_name_the_first_owner() {
        let registry = Registry::default();
        let site = Location::caller();
        registry.enter(8192, 100, site).unwrap();
        let error = registry.enter(8192 + 4000, 10, site).unwrap_err();
        assert!(error.to_string().contains("registry.rs"), "{error}");
        assert!(registry.enter(0, 8193, site).is_err());
        registry.enter(0, 8192, site).unwrap();
        registry.enter(12288, 1, site).unwrap();
        registry.leave(8192 + 7);
        registry.enter(8200, 10, site).unwrap();
    }
}
