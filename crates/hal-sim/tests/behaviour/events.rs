//! Events: snapshots, and what they say before and after.

use crate::common::*;
use pinfold_hal::{BackendOps, DeviceId, ErrorCode, EventFlags, EventOps, StreamKind, StreamOps};
use pinfold_hal_sim::{Policy, SimOptions};
use pinfold_model::Profile;

const BYTES: u64 = 1 << 20;

#[test]
fn an_event_that_was_never_recorded_holds_nobody_up() {
    let bench = bench(Policy::Lazy);
    let event = bench.event();
    assert!(bench.sim.event_query(event).unwrap());
    bench.sim.event_synchronize(event).unwrap();
    bench.sim.stream_wait_event(bench.stream, event).unwrap();
    let elapsed = bench.sim.event_elapsed_ns(event, event);
    assert_eq!(elapsed.unwrap_err().code, ErrorCode::InvalidHandle);
}

#[test]
fn recording_again_does_not_move_waits_that_were_enqueued_before() {
    for policy in POLICIES {
        let bench = bench(policy);
        let other = bench.new_stream(StreamKind::NonBlocking);
        let (host, device, event) = (bench.host(BYTES), bench.device(BYTES), bench.event());
        let small = bench.device(16);
        bench.sim.event_record(event, bench.stream).unwrap();
        bench.sim.stream_wait_event(other, event).unwrap();
        bench.up(device, host, BYTES);
        bench.sim.event_record(event, bench.stream).unwrap();
        bench.fill(other, small, 1, 16).unwrap();
        bench.sim.stream_synchronize(other).unwrap();
        assert!(!bench.sim.event_query(event).unwrap(), "{policy}");
        bench.sim.event_synchronize(event).unwrap();
        assert!(bench.sim.stream_query(bench.stream).unwrap(), "{policy}");
    }
}

#[test]
fn a_wait_makes_the_work_before_the_event_visible() {
    for seed in 0..50 {
        let bench = bench(Policy::Seeded(seed));
        let other = bench.new_stream(StreamKind::NonBlocking);
        let (host, device, event) = (bench.host(64), bench.device(64), bench.event());
        bench.fill(bench.stream, device, 6, 64).unwrap();
        bench.sim.event_record(event, bench.stream).unwrap();
        bench.sim.stream_wait_event(other, event).unwrap();
        bench.try_down(other, host, device, 64).unwrap();
        bench.sim.stream_synchronize(other).unwrap();
        assert_eq!(read(host, 64), [6; 64], "seed {seed}");
    }
}

#[test]
fn elapsed_time_needs_two_time_stamps_that_were_reached() {
    let bench = bench(Policy::Eager);
    let (host, device) = (bench.host(BYTES), bench.device(BYTES));
    let (from, to) = (bench.event(), bench.event());
    bench.sim.event_record(from, bench.stream).unwrap();
    bench.up(device, host, BYTES);
    bench.sim.event_record(to, bench.stream).unwrap();
    let early = bench.sim.event_elapsed_ns(from, to).unwrap_err();
    assert_eq!(early.code, ErrorCode::NotReady);
    bench.sync();
    let forth = bench.sim.event_elapsed_ns(from, to).unwrap();
    assert!(forth > 0.0);
    assert_eq!(bench.sim.event_elapsed_ns(to, from).unwrap(), -forth);
    let flags = EventFlags {
        disable_timing: true,
        ..Default::default()
    };
    let untimed = bench.sim.event_create(DEVICE, flags).unwrap();
    bench.sim.event_record(untimed, bench.stream).unwrap();
    bench.sync();
    let refused = bench.sim.event_elapsed_ns(from, untimed).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidHandle);
}

#[test]
fn a_destroyed_event_keeps_the_waits_that_were_enqueued() {
    let bench = bench(Policy::Lazy);
    let other = bench.new_stream(StreamKind::NonBlocking);
    let (host, device, event) = (bench.host(64), bench.device(64), bench.event());
    bench.fill(bench.stream, device, 6, 64).unwrap();
    bench.sim.event_record(event, bench.stream).unwrap();
    bench.sim.stream_wait_event(other, event).unwrap();
    bench.destroy_event(event).unwrap();
    bench.try_down(other, host, device, 64).unwrap();
    bench.sim.stream_synchronize(other).unwrap();
    assert_eq!(read(host, 64), [6; 64]);
}

#[test]
fn interprocess_events_are_opened_in_their_own_simulation_only() {
    let bench_a = bench(Policy::Lazy);
    let flags = EventFlags {
        disable_timing: true,
        interprocess: true,
        blocking_sync: false,
    };
    let timed = EventFlags {
        disable_timing: false,
        ..flags
    };
    let refused = bench_a.sim.event_create(DEVICE, timed).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidValue);
    assert!(bench_a.sim.event_export(bench_a.event()).is_err());

    let event = bench_a.sim.event_create(DEVICE, flags).unwrap();
    let handle = bench_a.sim.event_export(event).unwrap();
    let twin = bench_a.sim.event_import(DEVICE, handle).unwrap();
    let (host, device) = (bench_a.host(BYTES), bench_a.device(BYTES));
    bench_a.up(device, host, BYTES);
    bench_a.sim.event_record(event, bench_a.stream).unwrap();
    assert!(!bench_a.sim.event_query(twin).unwrap());
    bench_a.destroy_event(event).unwrap();
    bench_a.sim.event_synchronize(twin).unwrap();
    assert!(bench_a.sim.stream_query(bench_a.stream).unwrap());

    let bench_b = bench(Policy::Lazy);
    assert!(bench_b.sim.event_import(DEVICE, handle).is_err());
    assert!(bench_a.sim.event_import(DEVICE, [0; 64]).is_err());
}

#[test]
fn events_and_streams_of_two_devices_mix_only_in_waits() {
    let bench = bench_with(
        SimOptions::new(Profile::h200())
            .devices(2)
            .policy(Policy::Lazy),
    );
    bench.sim.open(DeviceId(1)).unwrap();
    let there = bench
        .sim
        .stream_create(DeviceId(1), StreamKind::NonBlocking)
        .unwrap();
    let (host, device, event) = (bench.host(64), bench.device(64), bench.event());
    let refused = bench.sim.event_record(event, there).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidHandle);
    bench.fill(bench.stream, device, 8, 64).unwrap();
    bench.down(host, device, 64);
    bench.sim.event_record(event, bench.stream).unwrap();
    bench.sim.stream_wait_event(there, event).unwrap();
    bench.sim.stream_synchronize(there).unwrap();
    assert_eq!(read(host, 64), [8; 64]);
    bench.free_host(host).unwrap();
    assert_eq!(bench.sim.hazards(), []);
}
