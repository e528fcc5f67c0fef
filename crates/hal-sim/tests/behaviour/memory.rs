//! Memory: what is allocated and registered, what is refused, and why.

use crate::common::*;
use pinfold_hal::{
    BackendOps, DeviceId, ErrorCode, HostAddr, HostAllocFlags, MemoryOps, RegisterFlags, Result,
    StreamOps,
};
use pinfold_hal_sim::{Live, Policy, SimOptions};
use pinfold_model::Profile;

const PAGE: u64 = 4096;

fn code<T: std::fmt::Debug>(result: Result<T>) -> ErrorCode {
    result.unwrap_err().code
}

fn h200() -> SimOptions {
    SimOptions::new(Profile::h200())
}

/// Ordinary memory that starts on a page.
fn pages(count: u64) -> (Vec<u8>, HostAddr) {
    let mut memory = vec![0; ((count + 1) * PAGE) as usize];
    let start = address_of(&mut memory).0.next_multiple_of(PAGE as usize);
    (memory, HostAddr(start))
}

#[test]
fn page_locked_memory_is_on_a_page_and_holds_what_nobody_may_rely_on() {
    for (policy, holds) in [(Policy::Eager, 0), (Policy::Lazy, 0xA5)] {
        let bench = bench(policy);
        let addr = bench.fresh_host(5000);
        assert_eq!(addr.0 % PAGE as usize, 0);
        assert_eq!(read(addr, 5000), vec![holds; 5000]);
    }
}

#[test]
fn device_addresses_equal_host_addresses_unless_they_are_split() {
    let together = bench_with(h200());
    let addr = together.host(PAGE);
    assert_eq!(together.mapped(addr).0, addr.0 as u64);
    assert!(
        together
            .sim
            .device_info(DEVICE)
            .unwrap()
            .capabilities
            .host_pointer_for_registered
    );

    let split = bench_with(h200().split_addresses(true));
    let addr = split.host(PAGE);
    assert_ne!(split.mapped(addr).0, addr.0 as u64);
    assert_eq!(split.mapped(addr.offset(12)), split.mapped(addr).offset(12));
    assert!(
        !split
            .sim
            .device_info(DEVICE)
            .unwrap()
            .capabilities
            .host_pointer_for_registered
    );
}

#[test]
fn ordinary_memory_has_no_device_address() {
    let bench = bench_with(h200());
    let (_memory, addr) = pages(1);
    assert_eq!(
        code(bench.sim.device_address(DEVICE, addr)),
        ErrorCode::InvalidValue
    );
    bench.register(addr, PAGE).unwrap();
    assert!(bench.sim.device_address(DEVICE, addr).is_ok());
    assert!(bench.sim.device_address(DEVICE, addr.offset(PAGE)).is_err());
}

#[test]
fn a_byte_is_registered_once_and_a_page_may_be_shared() {
    let bench = bench_with(h200());
    let (_memory, addr) = pages(3);
    bench.register(addr, 100).unwrap();
    let again = bench.register(addr.offset(99), 100).unwrap_err();
    assert_eq!(again.code, ErrorCode::HostMemoryAlreadyRegistered);
    assert!(again.detail.contains(&format!("{:#x}", addr.0)), "{again}");
    bench.register(addr.offset(100), PAGE).unwrap();
    let allocated = bench.host(100);
    assert_eq!(code(bench.register(allocated, 10)), ErrorCode::InvalidValue);
    bench.unregister(addr).unwrap();
    bench.register(addr.offset(50), 50).unwrap();
}

#[test]
fn unregistering_takes_the_start_of_a_registration() {
    let bench = bench_with(h200());
    let (_memory, addr) = pages(1);
    assert_eq!(
        code(bench.unregister(addr)),
        ErrorCode::HostMemoryNotRegistered
    );
    bench.register(addr, PAGE).unwrap();
    assert_eq!(
        code(bench.unregister(addr.offset(8))),
        ErrorCode::InvalidValue
    );
    bench.unregister(addr).unwrap();
    assert_eq!(
        code(bench.unregister(addr)),
        ErrorCode::HostMemoryNotRegistered
    );
    let allocated = bench.host(PAGE);
    assert_eq!(
        code(bench.unregister(allocated)),
        ErrorCode::HostMemoryNotRegistered
    );
}

#[test]
fn a_copy_stays_in_the_page_locked_range_that_it_starts_in_whatever_follows() {
    let bench = bench_with(h200());
    let (_memory, addr) = pages(3);
    let device = bench.device(3 * PAGE);
    let refused = |bytes| {
        let (up, down) = (
            bench.try_up(bench.stream, device, addr, bytes),
            bench.try_down(bench.stream, addr, device, bytes),
        );
        for leaves in [up.unwrap_err(), down.unwrap_err()] {
            assert_eq!(leaves.code, ErrorCode::InvalidValue);
            let edge = format!("{:#x}", addr.0 + 4096);
            assert!(leaves.detail.contains(&edge), "{leaves}");
        }
    };
    bench.register(addr, PAGE).unwrap();
    refused(2 * PAGE);
    // What touches may be registered too: a copy must not go on into it all the same.
    bench.register(addr.offset(PAGE), PAGE).unwrap();
    refused(PAGE + 1);
    refused(2 * PAGE);
    for offset in [0, PAGE] {
        bench.up(device.offset(offset), addr.offset(offset), PAGE);
    }
    bench.sync();
    bench.unregister(addr).unwrap();
    bench.unregister(addr.offset(PAGE)).unwrap();
    assert_eq!(bench.sim.hazards(), []);
}

#[test]
fn zero_bytes_and_absurd_sizes_are_refused_before_they_hurt() {
    let bench = bench_with(h200());
    let flags = HostAllocFlags::default();
    assert_eq!(
        code(bench.sim.host_alloc(DEVICE, 0, flags)),
        ErrorCode::InvalidValue
    );
    assert_eq!(
        code(bench.sim.device_alloc(DEVICE, 0)),
        ErrorCode::InvalidValue
    );
    assert_eq!(
        code(bench.register(HostAddr(4096), 0)),
        ErrorCode::InvalidValue
    );
    for bytes in [1 << 60, u64::MAX] {
        assert_eq!(
            code(bench.sim.host_alloc(DEVICE, bytes, flags)),
            ErrorCode::OutOfMemory
        );
        assert_eq!(
            code(bench.sim.device_alloc(DEVICE, bytes)),
            ErrorCode::OutOfMemory
        );
        assert!(bench.register(HostAddr(4096), bytes).is_err());
    }
    assert_eq!(bench.sim.live().host_bytes, 0);
}

#[test]
fn limits_say_what_they_are() {
    let flags = HostAllocFlags {
        write_combined: true,
        ..Default::default()
    };
    let limited = h200().pin_limit(Some(2 * PAGE)).write_combined_limit(100);
    let bench = bench_with(limited.register_limit(PAGE, 1));
    let (_memory, addr) = pages(3);
    let combined = bench.sim.host_alloc(DEVICE, 101, flags).unwrap_err();
    assert!(combined.code == ErrorCode::OutOfMemory && combined.detail.contains("100"));
    assert_eq!(code(bench.register(addr, PAGE + 1)), ErrorCode::OutOfMemory);
    bench.register(addr, PAGE).unwrap();
    assert_eq!(
        code(bench.register(addr.offset(PAGE), PAGE)),
        ErrorCode::OutOfMemory
    );
    bench.host(PAGE);
    let over = bench
        .sim
        .host_alloc(DEVICE, 1, HostAllocFlags::default())
        .unwrap_err();
    assert!(
        over.code == ErrorCode::OutOfMemory && over.detail.contains("8192"),
        "{over}"
    );
}

#[test]
fn device_memory_is_counted_and_given_back() {
    let bench = bench_with(h200());
    let (free, total) = bench.sim.device_memory(DEVICE).unwrap();
    assert_eq!(free, total);
    let addr = bench.device(1000);
    assert_eq!(addr.0 % 512, 0);
    assert_eq!(bench.sim.device_memory(DEVICE).unwrap().0, total - 1000);
    bench.free_device(addr).unwrap();
    assert_eq!(bench.sim.device_memory(DEVICE).unwrap().0, total);
    assert_eq!(code(bench.free_device(addr)), ErrorCode::InvalidValue);
}

#[test]
fn live_counts_everything_that_was_not_given_back() {
    let bench = bench_with(h200());
    let (_memory, registered) = pages(1);
    bench.register(registered, 10).unwrap();
    let (host, device, event) = (bench.host(100), bench.device(200), bench.event());
    let live = bench.sim.live();
    let expected = Live {
        host_bytes: 100,
        registered_bytes: 10,
        device_bytes: 200,
        streams: 1,
        events: 1,
        ..Live::default()
    };
    assert_eq!(live, expected);
    bench.unregister(registered).unwrap();
    bench.free_host(host).unwrap();
    bench.free_device(device).unwrap();
    bench.destroy_event(event).unwrap();
    bench.destroy_stream(bench.stream).unwrap();
    assert_eq!(bench.sim.live(), Live::default());
    assert_eq!(bench.sim.hazards(), []);
}

#[test]
fn a_device_has_to_be_opened() {
    let sim = pinfold_hal_sim::Sim::new(h200().devices(2));
    assert_eq!(sim.device_count().unwrap(), 2);
    assert_eq!(code(sim.device_alloc(DEVICE, 1)), ErrorCode::InvalidContext);
    assert_eq!(
        code(sim.device_alloc(DeviceId(2), 1)),
        ErrorCode::InvalidDevice
    );
    assert_eq!(code(close(&sim, DEVICE)), ErrorCode::InvalidContext);
    sim.open(DEVICE).unwrap();
    sim.open(DEVICE).unwrap();
    close(&sim, DEVICE).unwrap();
    sim.device_alloc(DEVICE, 1).unwrap();
    assert_eq!(
        code(sim.device_alloc(DeviceId(1), 1)),
        ErrorCode::InvalidContext
    );
    close(&sim, DEVICE).unwrap();
    assert_eq!(code(sim.device_alloc(DEVICE, 1)), ErrorCode::InvalidContext);
}

#[test]
fn devices_are_labelled_as_simulated() {
    let bench = bench_with(h200());
    let info = bench.sim.device_info(DEVICE).unwrap();
    assert_eq!(info.name, "simulated h200");
    assert!(info.simulated && bench.sim.info().simulated);
}

#[test]
fn peers_copy_between_each_other() {
    let bench = bench_with(h200().devices(2).policy(Policy::Lazy));
    bench.sim.open(DeviceId(1)).unwrap();
    let (here, there) = (
        bench.device(64),
        bench.sim.device_alloc(DeviceId(1), 64).unwrap(),
    );
    let host = bench.host(64);
    bench.fill(bench.stream, here, 9, 64).unwrap();
    bench.across(bench.stream, there, here, 64).unwrap();
    bench.down(host, there, 64);
    bench.sync();
    assert_eq!(read(host, 64), [9; 64]);
}

#[test]
fn a_device_without_unified_addresses_needs_mapped_memory() {
    let mut profile = Profile::h200();
    profile.devices[0].capabilities.unified_addressing = false;
    let bench = bench_with(SimOptions::new(profile));
    let plain = bench.host(64);
    assert_eq!(
        code(bench.sim.device_address(DEVICE, plain)),
        ErrorCode::InvalidValue
    );
    let flags = HostAllocFlags {
        mapped: true,
        ..Default::default()
    };
    let mapped = bench.sim.host_alloc(DEVICE, 64, flags).unwrap();
    assert!(bench.sim.device_address(DEVICE, mapped).is_ok());
}

#[test]
fn read_only_registration_is_a_capability() {
    let mut profile = Profile::h200();
    profile.devices[0].capabilities.host_register_read_only = false;
    let bench = bench_with(SimOptions::new(profile));
    let (_memory, addr) = pages(1);
    let flags = RegisterFlags {
        read_only: true,
        ..Default::default()
    };
    // SAFETY: the memory outlives the registration, which fails.
    let refused = unsafe { bench.sim.host_register(DEVICE, addr, PAGE, flags) };
    assert_eq!(code(refused), ErrorCode::NotSupported);
}

#[test]
fn the_device_does_not_write_what_is_registered_for_reading() {
    let bench = bench_with(h200());
    let (_memory, addr) = pages(1);
    let (device, next) = (bench.device(PAGE), bench.function("next"));
    let flags = RegisterFlags {
        read_only: true,
        ..Default::default()
    };
    // SAFETY: the memory outlives the simulation.
    unsafe { bench.sim.host_register(DEVICE, addr, PAGE, flags).unwrap() };
    bench.up(device, addr, PAGE);
    let refused = bench.try_down(bench.stream, addr, device, PAGE);
    assert_eq!(code(refused), ErrorCode::InvalidValue);
    bench.next(next, bench.mapped(addr), device, PAGE);
    bench.sync();
    bench.next(next, device, bench.mapped(addr), PAGE);
    assert_eq!(
        code(bench.sim.stream_synchronize(bench.stream)),
        ErrorCode::IllegalAddress
    );
}

#[test]
fn copies_to_memory_that_is_not_allocated_are_refused() {
    let bench = bench_with(h200());
    let (host, device) = (bench.host(PAGE), bench.device(100));
    for (to, bytes) in [
        (device, 101),
        (device.offset(50), 51),
        (device.offset(200), 1),
    ] {
        let refused = bench.try_up(bench.stream, to, host, bytes);
        assert_eq!(code(refused), ErrorCode::InvalidValue);
    }
    assert!(bench.sim.stream_query(bench.stream).unwrap());
    bench.try_up(bench.stream, device, host, 0).unwrap();
}
