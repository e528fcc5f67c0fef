//! From figures to a profile: the cost model's formulas, solved for what they are made of.
//!
//! Sums are measured; where only the sum of parts can be seen, such as the start and the return of
//! a launch, one part is assumed and the other follows.

use super::super::table::Figure;
use super::Figures;
use super::stage::Staged;
use pinfold::profiles::{nearest, plain_name};
use pinfold::{Device, MemoryKind};
use pinfold_model::sections::{Device as DeviceSection, DeviceCapabilities, Host};
use pinfold_model::{Direction, Profile, Quantity, RateTable, RowTable, Source, cost};

/// Sizes of copies whose time is mostly start: beyond, the rate's own spread is larger.
const START_BYTES_MAX: u64 = 1 << 20;

/// The profile of a machine. What no figure tells comes from the nearest shipped profile, and is
/// marked as assumed.
pub(super) fn profile(device: &Device, figures: &Figures) -> Profile {
    let mut profile = nearest(device).assumed();
    machine(&mut profile, device);
    calls(&mut profile, figures);
    link(&mut profile, figures);
    copies(&mut profile, figures);
    allocation(&mut profile, figures);
    host(&mut profile, figures);
    staging(&mut profile, figures);
    kernel(&mut profile, figures);
    curves(&mut profile, figures);
    profile
}

/// Measured values of a profile, and all of them, tables counted as one each.
pub(super) fn counts(profile: &Profile) -> (usize, usize) {
    let curves = &profile.curves;
    let tables = [
        curves.pageable_to_device.source,
        curves.pageable_to_host.source,
        curves.zero_copy_strided.source,
        curves.zero_copy_rows.source,
    ];
    let single = profile.quantities().into_iter().map(|(_, q)| q.source);
    let all: Vec<Source> = single.chain(tables).collect();
    let measured = all.iter().filter(|s| **s == Source::Measured);
    (measured.count(), all.len())
}

/// A cost, where it can be one.
fn set_cost(quantity: &mut Quantity, value: f64) {
    if value.is_finite() {
        *quantity = Quantity::measured(value.max(0.0));
    }
}

/// A rate, where it can be one.
fn set_rate(quantity: &mut Quantity, value: f64) {
    if value.is_finite() && value >= 1.0 {
        *quantity = Quantity::measured(value);
    }
}

fn machine(profile: &mut Profile, device: &Device) {
    let name = plain_name(device);
    let slug: String = (name.chars())
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let word = if device.is_simulated() {
        " (simulated)"
    } else {
        ""
    };
    profile.description = format!("{name}{word}, measured by pinfold bench machine");
    profile.name = slug;
    let info = device.info();
    if !info.simulated {
        let machine = pinfold_machine::Machine::read();
        profile.host = Host {
            source: Source::Measured,
            numa_nodes: (machine.numa.len() as u32).max(1),
            memory_bytes: machine
                .memory
                .total_bytes
                .unwrap_or(profile.host.memory_bytes),
            write_combining_is_real: profile.host.write_combining_is_real,
        };
    }
    let can = &info.capabilities;
    profile.devices = vec![DeviceSection {
        name: name.to_owned(),
        source: Source::Measured,
        numa_node: info.numa_node.unwrap_or(0).min(profile.host.numa_nodes - 1),
        memory_bytes: info.memory_bytes,
        compute_capability: [info.compute_capability.0, info.compute_capability.1],
        multiprocessors: info.multiprocessors,
        l2_bytes: info.l2_bytes,
        pcie_generation: info.link.map_or(0, |link| link.generation_max),
        pcie_width: info.link.map_or(0, |link| link.width_max),
        capabilities: DeviceCapabilities {
            unified_addressing: can.unified_addressing,
            can_map_host_memory: can.can_map_host_memory,
            host_register: can.host_register,
            host_register_read_only: can.host_register_read_only,
            host_pointer_for_registered: can.host_pointer_for_registered,
            pageable_memory_access: can.pageable_memory_access,
            concurrent_managed_access: can.concurrent_managed_access,
            host_native_atomics: can.host_native_atomics,
            integrated: can.integrated,
            async_engines: can.async_engines,
            memory_pools: can.memory_pools,
            host_memory_pools: can.host_memory_pools,
            ipc_events: can.ipc_events,
        },
    }];
}

fn calls(profile: &mut Profile, figures: &Figures) {
    let (small, calls) = (&figures.small, &mut profile.calls);
    set_cost(&mut calls.launch_call_ns, small.launch_call.value);
    set_cost(&mut calls.kernel_floor_ns, small.kernel_floor.value);
    let known = calls.launch_call_ns.value + calls.kernel_floor_ns.value;
    let start = small.launch_and_wait.value - known - calls.sync_return_ns.value;
    set_cost(&mut calls.launch_start_ns, start);
    set_cost(&mut calls.event_record_ns, small.event_record.value);
    set_cost(&mut calls.event_query_ns, small.event_query.value);
    set_cost(&mut calls.event_wait_ns, small.event_wait.value);
    set_cost(&mut calls.callback_call_ns, small.callback_call.value);
    let known = calls.callback_call_ns.value + calls.sync_return_ns.value;
    set_cost(
        &mut calls.callback_start_ns,
        small.callback_and_wait.value - known,
    );
    set_cost(&mut calls.object_ns, small.object.value);
    set_cost(&mut calls.copy_call_ns, figures.copies.call_ns.value);
}

/// Rates of copies that follow each other without a call between them.
fn link(profile: &mut Profile, figures: &Figures) {
    let held = |direction, kind| {
        let mut ways = figures.copies.ways.iter();
        let way = ways.find(|way| way.direction == direction && way.kind == kind);
        way.and_then(|way| way.held_bytes_per_s)
            .map_or(f64::NAN, |f| f.value)
    };
    let link = &mut profile.link;
    for (rate, direction, kind) in [
        (
            &mut link.to_device_bytes_per_s,
            Direction::ToDevice,
            MemoryKind::PageLocked,
        ),
        (
            &mut link.to_host_bytes_per_s,
            Direction::ToHost,
            MemoryKind::PageLocked,
        ),
        (
            &mut link.write_combined_to_device_bytes_per_s,
            Direction::ToDevice,
            MemoryKind::WriteCombined,
        ),
    ] {
        set_rate(rate, held(direction, kind));
    }
    let faster = link
        .to_device_bytes_per_s
        .value
        .max(link.to_host_bytes_per_s.value);
    // The total is never less than one direction alone.
    let both = figures.copies.both_bytes_per_s.value.max(faster);
    set_rate(&mut link.both_directions_bytes_per_s, both);
}

/// What is left of a page-locked copy's time without call, bytes and return, by bytes.
fn starts(profile: &Profile, figures: &Figures, direction: Direction) -> Vec<(u64, f64)> {
    let mut ways = figures.copies.ways.iter();
    let way = ways.find(|w| w.direction == direction && w.kind == MemoryKind::PageLocked);
    let points = way.map_or(&[][..], |way| &way.ns);
    let calls = &profile.calls;
    let around = calls.copy_call_ns.value + calls.sync_return_ns.value;
    let small = points.iter().filter(|(bytes, _)| *bytes <= START_BYTES_MAX);
    small
        .map(|(bytes, ns)| {
            let moving = cost::copy_engine_ns(profile, direction, MemoryKind::PageLocked, *bytes);
            (*bytes, ns.value - around - moving)
        })
        .collect()
}

fn copies(profile: &mut Profile, figures: &Figures) {
    let to_host = starts(profile, figures, Direction::ToHost);
    let (start, _) = middle(&to_host);
    set_cost(&mut profile.calls.copy_to_host_start_ns, start);
    // Small copies may travel inside the command: where the starts are best told apart.
    let starts = starts(profile, figures, Direction::ToDevice);
    let split = (0..starts.len()).min_by(|a, b| {
        let off = |at: usize| middle(&starts[..at]).1 + middle(&starts[at..]).1;
        off(*a).total_cmp(&off(*b))
    });
    let (inside, others) = starts.split_at(split.unwrap_or(0));
    let ((inside_ns, _), (start_ns, _)) = (middle(inside), middle(others));
    let calls = &mut profile.calls;
    set_cost(&mut calls.copy_to_device_start_ns, start_ns);
    let saving = (start_ns - inside_ns).max(0.0);
    let largest = inside.last().filter(|_| saving > 0.0);
    set_cost(
        &mut calls.small_copy_bytes,
        largest.map_or(0.0, |(bytes, _)| *bytes as f64),
    );
    set_cost(
        &mut calls.small_copy_saving_ns,
        if saving.is_finite() { saving } else { 0.0 },
    );
}

/// The median of the values, and how far all of them together are from it.
fn middle(points: &[(u64, f64)]) -> (f64, f64) {
    let mut values: Vec<f64> = points.iter().map(|(_, ns)| *ns).collect();
    if values.is_empty() {
        return (f64::NAN, 0.0);
    }
    let middle = pinfold::measure::median(&mut values);
    (middle, values.iter().map(|v| (v - middle).abs()).sum())
}

/// The line `fixed + per byte` that is nearest in relative terms; neither is below zero.
fn line(points: &[(u64, Figure)]) -> (f64, f64) {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (bytes, ns) in points {
        let (x, y) = (*bytes as f64, ns.value.max(1.0));
        let weight = 1.0 / (y * y);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    let fixed = (wy - slope * wx) / w;
    match (fixed >= 0.0, slope >= 0.0) {
        (true, true) => (fixed, slope),
        // Through the origin, or flat.
        (false, _) => (0.0, wxy / wxx),
        (true, false) => (wy / w, 0.0),
    }
}

fn allocation(profile: &mut Profile, figures: &Figures) {
    let allocation = &mut profile.allocation;
    for pins in &figures.pins.kinds {
        let (get, back) = (line(&pins.get_ns), line(&pins.give_back_ns));
        let (fixed, per_byte) = match pins.kind {
            MemoryKind::Registered => {
                set_cost(&mut allocation.unregister_fixed_ns, back.0);
                set_cost(&mut allocation.unregister_ns_per_byte, back.1);
                (
                    &mut allocation.register_fixed_ns,
                    &mut allocation.register_ns_per_byte,
                )
            }
            MemoryKind::WriteCombined => (
                &mut allocation.write_combined_alloc_fixed_ns,
                &mut allocation.write_combined_alloc_ns_per_byte,
            ),
            _ => {
                set_cost(&mut allocation.host_free_fixed_ns, back.0);
                set_cost(&mut allocation.host_free_ns_per_byte, back.1);
                (
                    &mut allocation.host_alloc_fixed_ns,
                    &mut allocation.host_alloc_ns_per_byte,
                )
            }
        };
        set_cost(fixed, get.0);
        set_cost(per_byte, get.1);
    }
    set_cost(
        &mut allocation.device_alloc_ns,
        figures.pins.device_get_ns.value,
    );
    set_cost(
        &mut allocation.device_free_ns,
        figures.pins.device_give_back_ns.value,
    );
}

/// What cannot be read by the host has no rate of it here.
fn host(profile: &mut Profile, figures: &Figures) {
    let rates = &mut profile.host_rates;
    for rate in &figures.host {
        let read = rate.read_bytes_per_s.map_or(f64::NAN, |f| f.value);
        match rate.kind {
            MemoryKind::PageLocked => {
                let write = rate.write_bytes_per_s.value;
                set_rate(&mut rates.write_page_locked_bytes_per_s, write);
                set_rate(&mut rates.read_page_locked_bytes_per_s, read);
            }
            MemoryKind::WriteCombined => {
                let write = rate.write_bytes_per_s.value;
                set_rate(&mut rates.write_write_combined_bytes_per_s, write);
            }
            _ => {}
        }
    }
}

/// The thread's rate with which the model's time is the measured one, as the median of all ways;
/// then the time to wake threads, likewise, from what is too little for the rate to matter.
fn staging(profile: &mut Profile, figures: &Figures) {
    let most = figures.staged.iter().map(|s| s.bytes).max().unwrap_or(0);
    let (much, little): (Vec<&Staged>, Vec<&Staged>) =
        figures.staged.iter().partition(|s| s.bytes == most);
    let time_ns = |profile: &Profile, s: &Staged| {
        cost::staged_ns(profile, s.direction, s.threads, s.chunk_bytes, s.bytes)
    };
    let rates = much.iter().map(|s| {
        let mut tried = profile.clone();
        let (mut low, mut high) = (1e6_f64, 1e13_f64);
        for _ in 0..100 {
            let rate = (low * high).sqrt();
            tried.staging.thread_bytes_per_s.value = rate;
            match time_ns(&tried, s) > s.ns.value {
                true => low = rate,
                false => high = rate,
            }
        }
        (0, low)
    });
    let (rate, _) = middle(&rates.collect::<Vec<_>>());
    set_rate(&mut profile.staging.thread_bytes_per_s, rate);
    let without = {
        let mut without = profile.clone();
        without.staging.wake_ns.value = 0.0;
        without
    };
    let wakes = little
        .iter()
        .map(|s| (0, s.ns.value - time_ns(&without, s)));
    let (wake, _) = middle(&wakes.collect::<Vec<_>>());
    set_cost(&mut profile.staging.wake_ns, wake);
}

/// Bytes a second where so many took so long, launch and wait and one latency included.
fn in_place_rate(profile: &Profile, useful: f64, ns: Figure) -> f64 {
    let around = cost::launch_and_wait_ns(profile) + profile.kernel.zero_copy_latency_ns.value;
    useful / (ns.value - around) * 1e9
}

fn kernel(profile: &mut Profile, figures: &Figures) {
    let (in_place, launch) = (&figures.in_place, cost::launch_and_wait_ns(profile));
    set_cost(
        &mut profile.kernel.zero_copy_latency_ns,
        in_place.latency_ns.value,
    );
    let largest = |points: &[(u64, Figure)]| {
        let last = points.last();
        last.map_or(f64::NAN, |(bytes, ns)| {
            in_place_rate(profile, *bytes as f64, *ns)
        })
    };
    let (read, write) = (largest(&in_place.reads_ns), largest(&in_place.writes_ns));
    let kernel = &mut profile.kernel;
    set_rate(&mut kernel.zero_copy_read_bytes_per_s, read);
    set_rate(&mut kernel.zero_copy_write_bytes_per_s, write);
    let (bytes, ns) = in_place.device_read;
    let device = bytes as f64 / (ns.value - launch) * 1e9;
    set_rate(&mut kernel.device_memory_bytes_per_s, device);
    // The list of rows is read in order, and the rows are written in order.
    let (bytes, ns) = figures.rows.device_random;
    let rows = bytes as f64 / 32.0;
    let beside = rows * 36.0 / kernel.device_memory_bytes_per_s.value * 1e9;
    let random = bytes as f64 / (ns.value - launch - beside) * 1e9;
    set_rate(&mut kernel.device_random_sector_bytes_per_s, random);
}

fn curves(profile: &mut Profile, figures: &Figures) {
    for way in figures
        .copies
        .ways
        .iter()
        .filter(|w| w.kind == MemoryKind::Pageable)
    {
        let mut least = 0.0_f64;
        let times: Vec<(f64, f64)> = (way.ns.iter())
            .map(|(bytes, ns)| {
                // More bytes never take less: that much is spread.
                least = least.max(ns.value);
                (*bytes as f64, least)
            })
            .collect();
        let table = RateTable {
            source: Source::Measured,
            bytes: times.iter().map(|(bytes, _)| *bytes).collect(),
            bytes_per_s: times.iter().map(|(bytes, ns)| bytes / ns * 1e9).collect(),
        };
        match way.direction {
            Direction::ToDevice => profile.curves.pageable_to_device = table,
            Direction::ToHost => profile.curves.pageable_to_host = table,
        }
    }
    let strided: Vec<(f64, f64)> = (figures.in_place.strided_ns.iter())
        .map(|(stride, bytes, ns)| {
            let useful = bytes.div_ceil(u64::from(*stride)) as f64 * 4.0;
            (
                f64::from(*stride),
                in_place_rate(profile, useful, *ns).max(1.0),
            )
        })
        .collect();
    profile.curves.zero_copy_strided = RateTable {
        source: Source::Measured,
        bytes: strided.iter().map(|(stride, _)| *stride).collect(),
        bytes_per_s: strided.iter().map(|(_, rate)| *rate).collect(),
    };
    let rows = &figures.rows.rows;
    let mut footprints: Vec<u64> = rows.iter().map(|at| at.footprint_bytes).collect();
    footprints.dedup();
    let rates = footprints.iter().map(|footprint| {
        let here = rows.iter().filter(|at| at.footprint_bytes == *footprint);
        let rate = |at: &super::rows::RowsAt| {
            let useful = at.count as f64 * f64::from(at.row_bytes);
            in_place_rate(profile, useful, at.read_ns).max(1.0)
        };
        here.map(rate).collect()
    });
    profile.curves.zero_copy_rows = RowTable {
        source: Source::Measured,
        row_bytes: super::rows::ROW_BYTES.map(f64::from).to_vec(),
        bytes_per_s: rates.collect(),
        footprint_bytes: footprints.iter().map(|bytes| *bytes as f64).collect(),
    };
}
