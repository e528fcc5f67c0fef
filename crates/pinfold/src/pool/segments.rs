//! Segments: where a pool's memory comes from, and how it goes back.

use super::numa::NumaNode;
use super::numa::place::Place;
use super::prefault::{Crew, THREADS_MAX, prefault};
use crate::device::Device;
use memmap2::{Advice, MmapMut, MmapOptions};
use pinfold_hal::{
    DeviceAddr, DeviceId, DriverError, ErrorCode, HostAddr, HostAllocFlags, RegisterFlags,
};
use smallvec::SmallVec;

/// Segments begin on a huge page, and are whole ones.
pub(super) const SEGMENT_ALIGN_BYTES: u64 = 2 << 20;

/// Registrations meet at multiples of this address, so that everybody can tell where, and no copy
/// may cross such a place: a real driver refuses it.
pub(crate) const CUT_BYTES: u64 = 64 << 20;

/// How segments are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Make {
    /// Mapped from the system, touched by several threads, registered chunk by chunk.
    Registered,
    /// By the driver.
    Allocated {
        /// Whether processors write it combined, and read it uncached.
        write_combined: bool,
    },
}

/// How much of the machine making a segment may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// As many processors as help: somebody waits for it.
    Fast,
    /// One processor: nobody waits, and others have work to do.
    Gentle,
}

/// Page-locked memory of one mapping or allocation.
pub(super) struct Segment {
    pub(super) base: HostAddr,
    pub(super) bytes: u64,
    /// Where each device sees its first byte, where that is not where the host does.
    pub(super) device: SmallVec<[(DeviceId, DeviceAddr); 1]>,
    /// What of it lies on another NUMA node than it should.
    pub(super) misplaced_bytes: u64,
    backing: Backing,
}

enum Backing {
    /// Starts of the registrations; the mapping holds them, and a part before the first.
    Mapping {
        starts: Vec<HostAddr>,
        map: MmapMut,
    },
    Driver,
}

impl Segment {
    /// Where its registrations start, those that there are.
    fn starts(&self) -> &[HostAddr] {
        match &self.backing {
            Backing::Mapping { starts, .. } => starts,
            Backing::Driver => &[],
        }
    }

    /// Start and bytes of its registrations, those that there can be.
    fn chunks(&self) -> impl Iterator<Item = (HostAddr, u64)> + use<> {
        let (mut at, end) = (self.base.0 as u64, self.base.0 as u64 + self.bytes);
        std::iter::from_fn(move || {
            let start = at;
            at = chunk_end(start, end);
            (start < end).then_some((HostAddr(start as usize), at - start))
        })
    }

    /// What of a registered segment is page-locked.
    pub(super) fn pinned_bytes(&self) -> u64 {
        let is_pinned = |chunk: &(HostAddr, u64)| self.starts().contains(&chunk.0);
        self.chunks()
            .filter(is_pinned)
            .map(|(_, bytes)| bytes)
            .sum()
    }
}

/// Where the registration that starts there ends.
fn chunk_end(start: u64, end: u64) -> u64 {
    (start - start % CUT_BYTES + CUT_BYTES).min(end)
}

/// Makes and unmakes segments for a set of devices.
pub(super) struct Maker {
    pub(super) devices: Vec<Device>,
    pub(super) place: Place,
    make: Make,
}

impl Maker {
    pub(super) fn new(devices: &[Device], make: Make, numa: NumaNode) -> Self {
        Maker {
            devices: devices.to_vec(),
            place: Place::new(&devices[0], numa),
            make,
        }
    }

    pub(super) fn make(&self, bytes: u64, pace: Pace) -> Result<Segment, DriverError> {
        let segment = match self.make {
            Make::Registered => self.map_and_register(bytes, pace),
            Make::Allocated { write_combined } => self.allocate(bytes, write_combined),
        }?;
        Ok(Segment {
            misplaced_bytes: self.place.misplaced_bytes(segment.base, bytes),
            ..segment
        })
    }

    fn first(&self) -> &Device {
        &self.devices[0]
    }

    fn mapped(&self) -> bool {
        let can = |d: &Device| d.info().capabilities.can_map_host_memory;
        self.devices.iter().all(can)
    }

    /// True where segments are registered, so that they can be unpinned and pinned again.
    pub(super) fn registers(&self) -> bool {
        self.make == Make::Registered
    }

    fn register_flags(&self) -> RegisterFlags {
        RegisterFlags {
            portable: self.devices.len() > 1,
            mapped: self.mapped(),
            read_only: false,
        }
    }

    fn map_and_register(&self, bytes: u64, pace: Pace) -> Result<Segment, DriverError> {
        let no_memory = |e: std::io::Error| {
            DriverError::with_detail(ErrorCode::OutOfMemory, "mmap", e.to_string())
        };
        // Aligned to its own size, up to the distance of cuts, so that as few as can be lie within.
        // The part of the mapping before it is never touched.
        let align = bytes
            .checked_next_power_of_two()
            .map_or(CUT_BYTES, |size| size.clamp(SEGMENT_ALIGN_BYTES, CUT_BYTES));
        let length = usize::try_from(bytes.saturating_add(align))
            .map_err(|_| no_memory(std::io::ErrorKind::OutOfMemory.into()))?;
        let mut map = MmapOptions::new()
            .len(length)
            .map_anon()
            .map_err(no_memory)?;
        // A kernel without huge pages refuses, and small ones serve as well, more slowly.
        let _ = map.advise(Advice::HugePage);
        let skip = map.as_ptr().align_offset(align as usize);
        let memory = &mut map[skip..skip + bytes as usize];
        let base = HostAddr(memory.as_mut_ptr().expose_provenance());
        let has_nodes = self.place.bind(base, bytes)?;
        let run_near = || self.place.run_near();
        let crew = Crew {
            threads_max: match pace {
                Pace::Fast => THREADS_MAX,
                Pace::Gentle => 1,
            },
            first: has_nodes.then_some(&run_near),
        };
        let device = self.first();
        let flags = self.register_flags();
        let chunks = cut(memory, base.0);
        let ranges: Vec<(HostAddr, u64)> = chunks
            .iter()
            .map(|chunk| {
                let start = HostAddr(chunk.as_ptr().expose_provenance());
                (start, chunk.len() as u64)
            })
            .collect();
        let mut starts = Vec::new();
        let registered = prefault(chunks, crew, |n| {
            let (start, bytes) = ranges[n];
            // SAFETY: the chunk lies in the mapping, which is kept until it is unregistered.
            unsafe {
                device
                    .driver()
                    .host_register(device.id(), start, bytes, flags)
            }?;
            starts.push(start);
            Ok(())
        });
        let backing = Backing::Mapping { starts, map };
        let segment = Segment {
            base,
            bytes,
            device: SmallVec::new(),
            misplaced_bytes: 0,
            backing,
        };
        match registered.and_then(|()| self.device_addrs(&segment)) {
            Ok(device) => Ok(Segment { device, ..segment }),
            Err(error) => {
                // Whatever the driver does not let go of stays mapped for ever.
                let _ = self.unmake(segment);
                Err(error)
            }
        }
    }

    fn allocate(&self, bytes: u64, write_combined: bool) -> Result<Segment, DriverError> {
        let flags = HostAllocFlags {
            portable: self.devices.len() > 1,
            mapped: self.mapped(),
            write_combined,
        };
        let device = self.first();
        let mut allocate = || device.driver().host_alloc(device.id(), bytes, flags);
        let base = self.place.allocate(bytes, &mut allocate)?;
        let segment = Segment {
            base,
            bytes,
            device: SmallVec::new(),
            misplaced_bytes: 0,
            backing: Backing::Driver,
        };
        match self.device_addrs(&segment) {
            Ok(device) => Ok(Segment { device, ..segment }),
            Err(error) => {
                let _ = self.unmake(segment);
                Err(error)
            }
        }
    }

    /// Where devices see the segment, where they do not see it at the host's addresses. All chunks
    /// have to be in line.
    fn device_addrs(
        &self,
        segment: &Segment,
    ) -> Result<SmallVec<[(DeviceId, DeviceAddr); 1]>, DriverError> {
        if !self.mapped() {
            return Ok(SmallVec::new());
        }
        let mut found = SmallVec::new();
        for device in &self.devices {
            let at = |host| device.driver().device_address(device.id(), host);
            let base = at(segment.base)?;
            for chunk in segment.starts() {
                let offset = (chunk.0 - segment.base.0) as u64;
                if at(*chunk)? != base.offset(offset) {
                    return Err(DriverError::with_detail(
                        ErrorCode::NotSupported,
                        "cuMemHostGetDevicePointer",
                        "the chunks of a segment are not side by side for the device",
                    ));
                }
            }
            if base.0 != segment.base.0 as u64 {
                found.push((device.id(), base));
            }
        }
        Ok(found)
    }

    /// Page-locks what of a segment is not: all of it, or what was before. Contents stay.
    pub(super) fn pin(&self, segment: &mut Segment) -> Result<(), DriverError> {
        let before = segment.starts().len();
        let pinned = self
            .register_rest(segment)
            .and_then(|()| self.device_addrs(segment));
        match pinned {
            Ok(device) => {
                segment.device = device;
                Ok(())
            }
            Err(error) => {
                self.unregister_down_to(segment, before);
                Err(error)
            }
        }
    }

    fn register_rest(&self, segment: &mut Segment) -> Result<(), DriverError> {
        let device = self.first();
        let flags = self.register_flags();
        for (start, bytes) in segment.chunks() {
            if segment.starts().contains(&start) {
                continue;
            }
            // SAFETY: the chunk lies in the mapping, which is kept until it is unregistered.
            unsafe {
                device
                    .driver()
                    .host_register(device.id(), start, bytes, flags)
            }?;
            if let Backing::Mapping { starts, .. } = &mut segment.backing {
                starts.push(start);
            }
        }
        Ok(())
    }

    /// Makes as much of a segment that no device uses ordinary memory as the driver lets go of.
    pub(super) fn unpin(&self, segment: &mut Segment) {
        self.unregister_down_to(segment, 0);
    }

    fn unregister_down_to(&self, segment: &mut Segment, count: usize) {
        let device = self.first();
        let Backing::Mapping { starts, .. } = &mut segment.backing else {
            return;
        };
        while let Some(start) = starts.last().filter(|_| starts.len() > count) {
            // SAFETY: the chunk was registered by this maker, and no device uses it.
            if unsafe { device.driver().host_unregister(device.id(), *start) }.is_err() {
                return;
            }
            starts.pop();
        }
    }

    /// Gives a segment back that nobody uses. Where the driver does not let go of all of it, the
    /// memory stays mapped for ever, and the error tells how much.
    pub(super) fn unmake(&self, segment: Segment) -> Result<(), u64> {
        let device = self.first();
        self.place.forget(segment.base);
        match segment.backing {
            Backing::Mapping { starts, map } => {
                let kept = starts.iter().filter(|start| {
                    // SAFETY: the chunk was registered by this maker, and nobody uses it.
                    unsafe { device.driver().host_unregister(device.id(), **start) }.is_err()
                });
                if kept.count() > 0 {
                    std::mem::forget(map);
                    return Err(segment.bytes);
                }
                Ok(())
            }
            Backing::Driver => {
                // SAFETY: the memory came from `host_alloc`, and nobody uses it.
                let freed = unsafe { device.driver().host_free(device.id(), segment.base) };
                freed.map_err(|_| segment.bytes)
            }
        }
    }
}

/// Memory in chunks that meet at multiples of [`CUT_BYTES`].
fn cut(memory: &mut [u8], start: usize) -> Vec<&mut [u8]> {
    let mut chunks = Vec::new();
    let (mut rest, mut at) = (memory, start as u64);
    while !rest.is_empty() {
        let length = chunk_end(at, at + rest.len() as u64) - at;
        let (chunk, behind) = rest.split_at_mut(length as usize);
        chunks.push(chunk);
        (rest, at) = (behind, at + length);
    }
    chunks
}
