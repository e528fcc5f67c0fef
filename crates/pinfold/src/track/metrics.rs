//! The books as metrics, for whatever recorder the program has installed.

use super::report::MemoryReport;
use metrics::{counter, gauge};

impl MemoryReport {
    /// Sets gauges and counters of the `metrics` crate: `pinfold_blocks`,
    /// `pinfold_requested_bytes`, `pinfold_held_bytes` and `pinfold_held_bytes_peak` by `kind`,
    /// `pinfold_blocks_taken_total` by `kind`; `pinfold_pool_pinned_bytes`,
    /// `pinfold_pool_cached_bytes` and `pinfold_pool_quarantined_bytes` by `pool`;
    /// `pinfold_retired_bytes`, `pinfold_lost_bytes`, and `pinfold_ladder_steps_total`. Every one
    /// carries the `device`. To be called whenever the figures are wanted: nothing is measured in
    /// between.
    pub fn emit_metrics(&self) {
        let device = self.devices.join(", ");
        let set = |name: &'static str, label: (&'static str, String), value: u64| {
            let labels = [("device", device.clone()), label];
            gauge!(name, &labels).set(value as f64);
        };
        for (kind, books) in &self.stats.kinds {
            let label = || ("kind", kind.to_string());
            set("pinfold_blocks", label(), books.blocks);
            set("pinfold_requested_bytes", label(), books.requested_bytes);
            set("pinfold_held_bytes", label(), books.held_bytes);
            set("pinfold_held_bytes_peak", label(), books.held_bytes_peak);
            let labels = [("device", device.clone()), label()];
            counter!("pinfold_blocks_taken_total", &labels).absolute(books.taken);
        }
        for (number, pool) in self.pools.iter().enumerate() {
            let label = || ("pool", number.to_string());
            set("pinfold_pool_pinned_bytes", label(), pool.pinned_bytes);
            set("pinfold_pool_cached_bytes", label(), pool.cached_bytes);
            set(
                "pinfold_pool_quarantined_bytes",
                label(),
                pool.quarantined_bytes,
            );
        }
        let alone = [("device", device.clone())];
        gauge!("pinfold_retired_bytes", &alone).set(self.stats.retired_bytes as f64);
        gauge!("pinfold_lost_bytes", &alone).set(self.stats.lost_bytes as f64);
        counter!("pinfold_ladder_steps_total", &alone).absolute(self.stats.ladder_steps);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Memory, Platform};
    use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName};
    use metrics::{Metadata, Recorder, SharedString, Unit};
    use parking_lot::Mutex;
    use pinfold_model::Profile;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    /// Keeps every value under its name and labels.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<BTreeMap<String, f64>>>);

    struct One(Kept, String);

    impl One {
        fn set_to(&self, value: f64) {
            self.0.0.lock().insert(self.1.clone(), value);
        }
    }

    impl CounterFn for One {
        fn increment(&self, _: u64) {}
        fn absolute(&self, value: u64) {
            self.set_to(value as f64);
        }
    }

    impl GaugeFn for One {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, value: f64) {
            self.set_to(value);
        }
    }

    impl Kept {
        fn one(&self, key: &Key) -> Arc<One> {
            Arc::new(One(self.clone(), key.to_string()))
        }
    }

    impl Recorder for Kept {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.one(key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.one(key))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn the_books_arrive_at_the_recorder_with_their_labels() {
        let device = Platform::simulated(Profile::h200()).device(0).unwrap();
        let memory = Memory::new(&device);
        let buffer = memory.upload::<u8>(5000).unwrap();
        let kept = Kept::default();
        metrics::with_local_recorder(&kept, || memory.report().emit_metrics());
        let values = kept.0.lock().clone();
        let value = |name: &str, label: &str| {
            let found = values
                .iter()
                .find(|(key, _)| key.contains(&format!("({name},")) && key.contains(label));
            *found
                .unwrap_or_else(|| panic!("no {name} {label}: {values:?}"))
                .1
        };
        assert_eq!(
            value("pinfold_requested_bytes", "kind = page-locked"),
            5000.0
        );
        assert_eq!(
            value("pinfold_blocks_taken_total", "kind = page-locked"),
            1.0
        );
        assert!(value("pinfold_pool_pinned_bytes", "pool = 0") >= 5000.0);
        assert_eq!(value("pinfold_lost_bytes", "device = simulated h200"), 0.0);
        drop(buffer);
    }
}
