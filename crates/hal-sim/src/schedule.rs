//! Virtual time: which resource is busy when, and where new work fits in.
//!
//! Time is counted in picoseconds. A resource is a list of busy intervals; work takes the earliest
//! gap that it fits into. Intervals that the clock has passed are forgotten.

/// Busy from the first to the second moment.
type Interval = (u64, u64);

/// Picoseconds of a model's nanoseconds.
pub(crate) fn ps(nanoseconds: f64) -> u64 {
    // A float beyond the integer's range becomes its nearest end.
    (nanoseconds * 1e3).round() as u64
}

/// When one resource is busy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// Disjoint and in order.
    busy: Vec<Interval>,
}

impl Timeline {
    /// The earliest gap of that length from a moment on.
    pub(crate) fn gap(&self, from: u64, length: u64) -> Interval {
        self.gap_with(from, |start| start.saturating_add(length))
    }

    /// The earliest gap for work whose end depends on its start.
    pub(crate) fn gap_with(&self, from: u64, end_of: impl Fn(u64) -> u64) -> Interval {
        let mut start = from;
        for &(busy_start, busy_end) in &self.busy {
            if busy_end <= start {
                continue;
            }
            let end = end_of(start);
            if end <= busy_start {
                return (start, end);
            }
            start = busy_end;
        }
        (start, end_of(start))
    }

    /// Notes work, and forgets what ended before the clock.
    pub(crate) fn reserve(&mut self, interval: Interval, clock: u64) {
        self.busy.retain(|&(_, end)| end > clock);
        if interval.1 > interval.0 {
            let at = self.busy.partition_point(|&(start, _)| start < interval.0);
            self.busy.insert(at, interval);
        }
    }

    /// When work that starts at a moment ends, where it takes `length` alone and goes at `rate` (0
    /// to 1) of its speed while this resource is busy.
    pub(crate) fn slowed_end(&self, start: u64, length: u64, rate: f64) -> u64 {
        let (mut now, mut left) = (start, length);
        for &(busy_start, busy_end) in &self.busy {
            if busy_end <= now {
                continue;
            }
            let free = busy_start.saturating_sub(now);
            if left <= free {
                break;
            }
            left -= free;
            now = now.max(busy_start);
            let possible = ((busy_end - now) as f64 * rate) as u64;
            if left <= possible {
                return now.saturating_add((left as f64 / rate).round() as u64);
            }
            left -= possible;
            now = busy_end;
        }
        now.saturating_add(left)
    }
}

/// What an operation needs to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Nothing: a mark.
    None,
    /// The copy engine from the host.
    ToDevice,
    /// The copy engine to the host.
    ToHost,
    /// The engine for copies between and inside devices, and for fills.
    OnDevice,
    /// A slot for a kernel.
    Compute,
    /// The thread for host callbacks.
    Callback,
}

/// Kernels of different streams that run side by side.
const KERNEL_SLOTS: usize = 4;

/// The resources of one device.
#[derive(Clone, Debug)]
pub(crate) struct Engines {
    to_device: Timeline,
    to_host: Timeline,
    on_device: Timeline,
    compute: [Timeline; KERNEL_SLOTS],
    callback: Timeline,
    /// The part of its speed that a copy to the device, and to the host, keeps while the other
    /// direction is busy.
    slowed: [f64; 2],
}

impl Engines {
    pub(crate) fn new(slowed_to_device: f64, slowed_to_host: f64) -> Self {
        Engines {
            to_device: Timeline::default(),
            to_host: Timeline::default(),
            on_device: Timeline::default(),
            compute: Default::default(),
            callback: Timeline::default(),
            slowed: [slowed_to_device, slowed_to_host],
        }
    }

    /// Finds the earliest place for work of a length, takes it, and says when it is.
    pub(crate) fn place(
        &mut self,
        resource: Resource,
        from: u64,
        length: u64,
        clock: u64,
    ) -> Interval {
        let (own, interval) = match resource {
            Resource::None => return (from, from),
            Resource::ToDevice => {
                let (other, rate) = (&self.to_host, self.slowed[0]);
                let end = |start| other.slowed_end(start, length, rate);
                let interval = self.to_device.gap_with(from, end);
                (&mut self.to_device, interval)
            }
            Resource::ToHost => {
                let (other, rate) = (&self.to_device, self.slowed[1]);
                let end = |start| other.slowed_end(start, length, rate);
                let interval = self.to_host.gap_with(from, end);
                (&mut self.to_host, interval)
            }
            Resource::OnDevice => {
                let interval = self.on_device.gap(from, length);
                (&mut self.on_device, interval)
            }
            Resource::Callback => {
                let interval = self.callback.gap(from, length);
                (&mut self.callback, interval)
            }
            Resource::Compute => {
                let gaps = self.compute.iter().map(|slot| slot.gap(from, length));
                let best = gaps.enumerate().min_by_key(|&(n, gap)| (gap, n));
                let (n, interval) = best.unwrap_or((0, (from, from.saturating_add(length))));
                (&mut self.compute[n], interval)
            }
        };
        own.reserve(interval, clock);
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_the_earliest_gap_that_it_fits_into() {
        let mut line = Timeline::default();
        line.reserve((10, 20), 0);
        line.reserve((30, 40), 0);
        assert_eq!(line.gap(0, 10), (0, 10));
        assert_eq!(line.gap(5, 10), (20, 30));
        assert_eq!(line.gap(5, 11), (40, 51));
        assert_eq!(line.gap(50, 5), (50, 55));
    }

    #[test]
    fn passed_intervals_are_forgotten() {
        let mut line = Timeline::default();
        for n in 0..100 {
            line.reserve((n * 10, n * 10 + 10), n * 10);
        }
        assert_eq!(line.busy.len(), 1);
    }

    #[test]
    fn two_equal_copies_in_both_directions_share_the_link() {
        // One way 55, both ways 92.5: the later copy goes at 2 - 55/46.25 of its speed.
        let rate = 2.0 - 55.0 / (92.5 / 2.0);
        let mut engines = Engines::new(rate, rate);
        let first = engines.place(Resource::ToDevice, 0, 1_000_000, 0);
        let second = engines.place(Resource::ToHost, 0, 1_000_000, 0);
        assert_eq!(first, (0, 1_000_000));
        let expected = 2.0 * 55.0 / 92.5 * 1e6;
        assert!(
            (second.1 as f64 - expected).abs() < 2.0,
            "{second:?} {expected}"
        );
    }

    #[test]
    fn a_link_that_only_goes_one_way_at_a_time_serialises() {
        let mut engines = Engines::new(0.0, 0.0);
        engines.place(Resource::ToDevice, 0, 100, 0);
        assert_eq!(engines.place(Resource::ToHost, 50, 100, 0), (50, 200));
    }

    #[test]
    fn more_kernels_than_slots_queue() {
        let mut engines = Engines::new(1.0, 1.0);
        let ends: Vec<u64> = (0..=KERNEL_SLOTS)
            .map(|_| engines.place(Resource::Compute, 0, 10, 0).1)
            .collect();
        assert_eq!(ends, [10, 10, 10, 10, 20]);
    }
}
