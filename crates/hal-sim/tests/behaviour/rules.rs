//! Broken rules: each is noted as a hazard, and hurts no more than it has to.

use crate::common::*;
use pinfold_hal::{BackendOps, CaptureStatus, ErrorCode, GraphOps, StreamOps};
use pinfold_hal_sim::{Policy, Sim, SimOptions};
use pinfold_model::Profile;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

const BYTES: u64 = 1 << 20;

fn hazards(bench: &Bench) -> usize {
    bench.sim.hazards().len()
}

#[test]
fn freeing_memory_in_flight_is_a_hazard_and_waits() {
    for policy in POLICIES {
        let bench = bench(policy);
        let (host, device, target) = (bench.host(BYTES), bench.device(BYTES), bench.host(BYTES));
        write(host, &[3; BYTES as usize]);
        bench.up(device, host, BYTES);
        bench.free_host(host).unwrap();
        assert_eq!(hazards(&bench), 1, "{policy}");
        bench.down(target, device, BYTES);
        bench.free_device(device).unwrap();
        assert_eq!(hazards(&bench), 2, "{policy}");
        assert_eq!(read(target, 8), [3; 8], "{policy}");
    }
}

#[test]
fn unregistering_memory_in_flight_is_a_hazard() {
    let bench = bench(Policy::Lazy);
    let mut memory = vec![5; BYTES as usize];
    let (from, device) = (address_of(&mut memory), bench.device(BYTES));
    bench.register(from, BYTES).unwrap();
    bench.up(device, from, BYTES);
    bench.unregister(from).unwrap();
    assert_eq!(hazards(&bench), 1);
}

#[test]
fn freeing_after_the_wait_is_no_hazard() {
    for policy in POLICIES {
        let bench = bench(policy);
        let (host, device) = (bench.host(BYTES), bench.device(BYTES));
        bench.up(device, host, BYTES);
        bench.sync();
        bench.free_host(host).unwrap();
        bench.free_device(device).unwrap();
        assert_eq!(hazards(&bench), 0, "{policy}");
    }
}

#[test]
fn handles_are_destroyed_once() {
    let bench = bench(Policy::Eager);
    let event = bench.event();
    bench.destroy_event(event).unwrap();
    assert_eq!(
        bench.destroy_event(event).unwrap_err().code,
        ErrorCode::InvalidHandle
    );
    bench.destroy_stream(bench.stream).unwrap();
    assert_eq!(
        bench.destroy_stream(bench.stream).unwrap_err().code,
        ErrorCode::InvalidHandle
    );
    assert_eq!(hazards(&bench), 2);
}

#[test]
fn a_destroyed_stream_still_runs_to_its_end() {
    let bench = bench(Policy::Lazy);
    let (host, device) = (bench.host(64), bench.device(64));
    bench.fill(bench.stream, device, 4, 64).unwrap();
    bench.down(host, device, 64);
    bench.destroy_stream(bench.stream).unwrap();
    bench.sim.device_synchronize(DEVICE).unwrap();
    assert_eq!(read(host, 64), [4; 64]);
    assert_eq!(hazards(&bench), 0);
}

#[test]
fn callbacks_run_in_their_turn_once() {
    for policy in POLICIES {
        let bench = bench(policy);
        let (host, device) = (bench.host(4), bench.device(4));
        let seen = Arc::new(AtomicU32::new(0));
        let seen_inside = Arc::clone(&seen);
        bench.fill(bench.stream, device, 1, 4).unwrap();
        bench.down(host, device, 4);
        let callback = move || {
            let word = read(host, 4).try_into().map(u32::from_ne_bytes);
            seen_inside.fetch_add(word.unwrap(), Ordering::Relaxed);
        };
        bench
            .sim
            .host_callback(bench.stream, Box::new(callback))
            .unwrap();
        bench.sync();
        assert_eq!(seen.load(Ordering::Relaxed), 0x0101_0101, "{policy}");
    }
}

#[test]
fn a_callback_must_not_call_the_driver() {
    let sim = Arc::new(Sim::new(
        SimOptions::new(Profile::h200()).policy(Policy::Lazy),
    ));
    sim.open(DEVICE).unwrap();
    let stream = sim.default_stream(DEVICE);
    let (inside, (sender, answers)) = (Arc::clone(&sim), mpsc::channel());
    let callback = move || {
        let answer = inside.stream_query(inside.default_stream(DEVICE));
        sender
            .send((answer.unwrap_err().code, inside.now_ns()))
            .unwrap();
        inside.pause();
    };
    sim.host_callback(stream, Box::new(callback)).unwrap();
    sim.stream_synchronize(stream).unwrap();
    let (code, now_ns) = answers.recv().unwrap();
    assert_eq!(code, ErrorCode::NotPermitted);
    assert!(now_ns <= sim.now_ns());
    assert_eq!(sim.hazards().len(), 2);
}

#[test]
fn a_callback_that_panics_harms_nobody() {
    let bench = bench(Policy::Lazy);
    bench
        .sim
        .host_callback(bench.stream, Box::new(|| panic!("on purpose")))
        .unwrap();
    bench.sync();
    assert_eq!(hazards(&bench), 1);
    bench.device(1);
}

#[test]
fn a_lost_device_stays_lost_until_it_is_closed() {
    let bench = bench(Policy::Lazy);
    let (host, device) = (bench.host(64), bench.device(64));
    bench.fill(bench.stream, device, 1, 64).unwrap();
    bench.down(host, device, 64);
    let (sender, dropped) = mpsc::channel::<()>();
    let callback = move || sender.send(()).unwrap();
    bench
        .sim
        .host_callback(bench.stream, Box::new(callback))
        .unwrap();
    bench.sim.lose_device(DEVICE);
    assert!(
        dropped.recv().is_err(),
        "the callback ran, or is still held"
    );
    for _ in 0..2 {
        let lost = bench.sim.stream_synchronize(bench.stream).unwrap_err();
        assert!(lost.code.is_sticky(), "{lost}");
    }
    assert_eq!(read(host, 64), [0xA5; 64]);
    close(&bench.sim, DEVICE).unwrap();
    bench.sim.open(DEVICE).unwrap();
    bench.free_host(host).unwrap();
}

#[test]
fn closing_with_work_in_flight_is_a_hazard() {
    let bench = bench(Policy::Lazy);
    let (host, device) = (bench.host(64), bench.device(64));
    bench.up(device, host, 64);
    close(&bench.sim, DEVICE).unwrap();
    assert_eq!(hazards(&bench), 1);
}

#[test]
fn streams_of_other_code_are_not_supported() {
    let bench = bench(Policy::Eager);
    // SAFETY: refused without a look at the address.
    let refused = unsafe { bench.sim.stream_adopt(DEVICE, 64) };
    assert_eq!(refused.unwrap_err().code, ErrorCode::NotSupported);
}

#[test]
fn what_needs_a_missing_entry_point_is_not_supported_and_all_else_works() {
    let options = SimOptions::new(Profile::h200());
    let lacking = ["cuLaunchHostFunc", "cuStreamBeginCapture_v2"];
    let bench = bench_with(
        lacking
            .into_iter()
            .fold(options, SimOptions::missing_symbol),
    );
    assert_eq!(bench.sim.info().missing_symbols, lacking);
    let held = Arc::new(());
    let mine = Arc::clone(&held);
    let callback = Box::new(move || drop(mine));
    for (refused, symbol) in [
        (bench.sim.host_callback(bench.stream, callback), lacking[0]),
        (bench.sim.capture_begin(bench.stream), lacking[1]),
    ] {
        let error = refused.unwrap_err();
        assert_eq!((error.code, error.call), (ErrorCode::NotSupported, symbol));
    }
    assert_eq!(Arc::strong_count(&held), 1, "the callback must be dropped");
    let status = bench.sim.capture_status(bench.stream);
    assert_eq!(status, Ok(CaptureStatus::None));
    bench.sync();
}

#[test]
fn a_program_that_never_waits_ends_and_stays_right() {
    for policy in POLICIES {
        let bench = bench(policy);
        let (host, device) = (bench.host(4), bench.device(4));
        for n in 0..40_000u32 {
            bench
                .fill(bench.stream, device, (n % 251) as u8, 4)
                .unwrap();
        }
        bench.down(host, device, 4);
        bench.sync();
        assert_eq!(read(host, 4), [(39_999 % 251) as u8; 4], "{policy}");
    }
}
