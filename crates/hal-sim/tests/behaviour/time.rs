//! Virtual time: what costs it, what overlaps, and what does not.

use crate::common::*;
use pinfold_hal::{
    BackendOps, EventOps, HostAllocFlags, HostWork, MemoryOps, StreamKind, StreamOps,
};
use pinfold_hal_sim::{Policy, SimOptions};
use pinfold_model::{Direction, MemoryKind, Profile, cost};

const LARGE: u64 = 16 << 20;
/// So large that the start of a copy does not count.
const HUGE: u64 = 64 << 20;

/// Nanoseconds that a piece of work takes.
fn taken_ns(bench: &Bench, work: impl FnOnce()) -> f64 {
    let before = bench.sim.now_ns();
    work();
    (bench.sim.now_ns() - before) as f64
}

fn near(got: f64, want: f64) {
    assert!((got / want - 1.0).abs() < 0.02, "{got} is not about {want}");
}

#[test]
fn a_copy_and_its_wait_take_what_the_model_says() {
    let h200 = Profile::h200();
    let bench = bench(Policy::Eager);
    let (host, device) = (bench.host(LARGE), bench.device(LARGE));
    for bytes in [4 << 10, 256 << 10, LARGE] {
        let up = taken_ns(&bench, || {
            bench.up(device, host, bytes);
            bench.sync();
        });
        near(
            up,
            cost::copy_ns(&h200, Direction::ToDevice, MemoryKind::PageLocked, bytes),
        );
        let down = taken_ns(&bench, || {
            bench.down(host, device, bytes);
            bench.sync();
        });
        near(
            down,
            cost::copy_ns(&h200, Direction::ToHost, MemoryKind::PageLocked, bytes),
        );
    }
}

#[test]
fn a_pageable_copy_blocks_the_host_and_a_page_locked_one_does_not() {
    let bench = bench(Policy::Eager);
    let device = bench.device(LARGE);
    let mut ordinary = vec![1; LARGE as usize];
    let from = address_of(&mut ordinary);
    let blocked = taken_ns(&bench, || bench.up(device, from, LARGE));
    let model = |kind| cost::copy_ns(&Profile::h200(), Direction::ToDevice, kind, LARGE);
    near(blocked, model(MemoryKind::Pageable));
    bench.sync();
    let host = bench.host(LARGE);
    let returned = taken_ns(&bench, || bench.up(device, host, LARGE));
    assert!(returned < 10_000.0, "{returned}");
}

#[test]
fn both_directions_at_once_reach_the_total_rate() {
    let bench = bench(Policy::Eager);
    let other = bench.new_stream(StreamKind::NonBlocking);
    let (a, b) = (bench.host(HUGE), bench.host(HUGE));
    let (x, y) = (bench.device(HUGE), bench.device(HUGE));
    let taken = taken_ns(&bench, || {
        bench.up(x, a, HUGE);
        bench.try_down(other, b, y, HUGE).unwrap();
        bench.sim.device_synchronize(DEVICE).unwrap();
    });
    near(2.0 * HUGE as f64 / taken, 92.5);
}

#[test]
fn copies_of_one_direction_queue_even_on_two_streams() {
    let bench = bench(Policy::Eager);
    let other = bench.new_stream(StreamKind::NonBlocking);
    let (host, device) = (bench.host(HUGE), bench.device(HUGE));
    let taken = taken_ns(&bench, || {
        bench.up(device, host, HUGE);
        bench.try_up(other, device, host, HUGE).unwrap();
        bench.sim.device_synchronize(DEVICE).unwrap();
    });
    near(2.0 * HUGE as f64 / taken, 55.0);
}

#[test]
fn a_kernel_and_a_copy_of_two_streams_overlap() {
    let bench = bench(Policy::Eager);
    let next = bench.function("next");
    let other = bench.new_stream(StreamKind::NonBlocking);
    let (host, x, y) = (bench.host(LARGE), bench.device(LARGE), bench.device(LARGE));
    let mapped = bench.mapped(host);
    let copy = |stream| {
        bench.try_up(stream, y, host, LARGE).unwrap();
        bench.sim.stream_synchronize(stream).unwrap();
    };
    let copy_alone = taken_ns(&bench, || copy(other));
    let kernel_alone = taken_ns(&bench, || {
        bench.next(next, mapped, x, LARGE);
        bench.sync();
    });
    let both = taken_ns(&bench, || {
        bench.next(next, mapped, x, LARGE);
        copy(other);
        bench.sync();
    });
    assert!(
        both < 0.6 * (copy_alone + kernel_alone),
        "{both} {copy_alone} {kernel_alone}"
    );
    let queued = taken_ns(&bench, || {
        bench.next(next, mapped, x, LARGE);
        copy(bench.stream);
    });
    assert!(queued > 0.95 * (copy_alone + kernel_alone), "{queued}");
}

#[test]
fn an_event_orders_streams_in_time_too() {
    let bench = bench(Policy::Lazy);
    let other = bench.new_stream(StreamKind::NonBlocking);
    let (host, device) = (bench.host(HUGE), bench.device(HUGE));
    let (start, middle, end) = (bench.event(), bench.event(), bench.event());
    bench.sim.event_record(start, bench.stream).unwrap();
    bench.up(device, host, HUGE);
    bench.sim.event_record(middle, bench.stream).unwrap();
    bench.sim.stream_wait_event(other, middle).unwrap();
    bench.try_down(other, host, device, HUGE).unwrap();
    bench.sim.event_record(end, other).unwrap();
    bench.sim.device_synchronize(DEVICE).unwrap();
    let up = bench.sim.event_elapsed_ns(start, middle).unwrap();
    let down = bench.sim.event_elapsed_ns(middle, end).unwrap();
    near(HUGE as f64 / up, 55.0);
    near(HUGE as f64 / down, 55.2);
}

#[test]
fn host_work_costs_time_by_the_kind_of_memory() {
    let wc_real = Profile::shipped("wc-real").unwrap();
    let bench = bench_with(SimOptions::new(wc_real));
    let flags = HostAllocFlags {
        write_combined: true,
        ..Default::default()
    };
    let combined = bench.sim.host_alloc(DEVICE, LARGE, flags).unwrap();
    let plain = bench.host(LARGE);
    let reading = |addr| {
        let work = HostWork::Read { addr, bytes: LARGE };
        taken_ns(&bench, || bench.sim.host_work(work))
    };
    near(reading(combined) / reading(plain), 68.0);
    let compute = HostWork::Compute { nanoseconds: 1234 };
    assert_eq!(taken_ns(&bench, || bench.sim.host_work(compute)), 1234.0);
}

#[test]
fn write_combined_uploads_follow_the_profile() {
    let wc_real = Profile::shipped("wc-real").unwrap();
    let bench = bench_with(SimOptions::new(wc_real));
    let flags = HostAllocFlags {
        write_combined: true,
        ..Default::default()
    };
    let combined = bench.sim.host_alloc(DEVICE, HUGE, flags).unwrap();
    let (plain, device) = (bench.host(HUGE), bench.device(HUGE));
    let upload = |from| {
        taken_ns(&bench, || {
            bench.up(device, from, HUGE);
            bench.sync();
        })
    };
    near(upload(plain) / upload(combined), 1.25);
}

#[test]
fn registering_is_as_much_slower_as_asked_for_and_nothing_else_is() {
    let times = |options: SimOptions| {
        let bench = bench_with(options);
        let mut memory = vec![0; LARGE as usize];
        let addr = address_of(&mut memory);
        [
            taken_ns(&bench, || bench.register(addr, LARGE).unwrap()),
            taken_ns(&bench, || bench.unregister(addr).unwrap()),
            taken_ns(&bench, || _ = bench.fresh_host(LARGE)),
        ]
    };
    let plain = times(SimOptions::new(Profile::h200()));
    let slow = times(SimOptions::new(Profile::h200()).slow_registration(5.0));
    near(slow[0] / plain[0], 5.0);
    assert_eq!(slow[1..], plain[1..]);
}

#[test]
fn pause_goes_on_to_the_next_end() {
    let bench = bench(Policy::Lazy);
    let (host, device) = (bench.host(LARGE), bench.device(LARGE));
    bench.up(device, host, LARGE);
    assert!(!bench.sim.stream_query(bench.stream).unwrap());
    bench.sim.pause();
    assert!(bench.sim.stream_query(bench.stream).unwrap());
    near(taken_ns(&bench, || bench.sim.pause()), 100.0);
}

#[test]
fn the_legacy_default_stream_waits_for_blocking_streams_and_they_for_it() {
    for (kind, ordered) in [
        (StreamKind::Blocking, true),
        (StreamKind::NonBlocking, false),
    ] {
        let bench = bench(Policy::Lazy);
        let stream = bench.new_stream(kind);
        let default = bench.sim.default_stream(DEVICE);
        let (host, device, x) = (bench.host(LARGE), bench.device(LARGE), bench.device(16));
        bench.fill(default, device, 0, LARGE).unwrap();
        bench.try_up(stream, device, host, LARGE).unwrap();
        bench.fill(default, x, 1, 16).unwrap();
        let end = bench.event();
        bench.sim.event_record(end, default).unwrap();
        bench.sim.event_synchronize(end).unwrap();
        assert_eq!(bench.sim.stream_query(stream).unwrap(), ordered, "{kind:?}");
    }
}
