//! Which ranges of host memory this process has page-locked through one backend, and who did.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::panic::Location;

/// Ranges by start address. They never overlap; two of them may share a page, as the driver allows.
#[derive(Default)]
pub(crate) struct Registry {
    ranges: Mutex<BTreeMap<usize, Entry>>,
}

struct Entry {
    end: usize,
    site: &'static Location<'static>,
}

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
        let end = start.saturating_add(bytes);
        let mut ranges = self.ranges.lock();
        let overlapping = ranges
            .range(..end)
            .next_back()
            .filter(|(_, e)| e.end > start);
        if let Some((_, entry)) = overlapping {
            let owner = format!("the buffer registered at {}", entry.site);
            return Err(Error::AlreadyRegistered { start, end, owner });
        }
        ranges.insert(start, Entry { end, site });
        Ok(())
    }

    /// Takes a range out again.
    pub(crate) fn leave(&self, start: usize) {
        self.ranges.lock().remove(&start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_found_to_the_byte_and_name_the_first_owner() {
        let registry = Registry::default();
        let site = Location::caller();
        registry.enter(8192, 100, site).unwrap();
        let error = registry.enter(8291, 10, site).unwrap_err();
        assert!(error.to_string().contains("registry.rs"), "{error}");
        assert!(registry.enter(0, 8193, site).is_err());
        assert!(registry.enter(8200, 10, site).is_err());
        registry.enter(0, 8192, site).unwrap();
        registry.enter(8292, 1, site).unwrap();
        registry.leave(8192);
        registry.enter(8200, 10, site).unwrap();
    }
}
