//! Kernels: what loads, what launches, what faults, and where the results go.

use crate::common::*;
use pinfold_hal::{
    Access, BackendOps, DeviceAddr, DeviceId, ErrorCode, HostAddr, MemoryOps, ModuleImage,
    ModuleOps, RegisterFlags, StreamOps,
};
use pinfold_hal_sim::{Policy, SimOptions};
use pinfold_model::Profile;

#[test]
fn a_kernel_works_on_device_memory_and_on_mapped_host_memory() {
    for policy in POLICIES {
        for split in [false, true] {
            let options = SimOptions::new(Profile::h200()).policy(policy);
            let bench = bench_with(options.split_addresses(split));
            let next = bench.function("next");
            let (from, to, device) = (bench.host(1000), bench.host(1000), bench.device(1000));
            write(from, &[5; 1000]);
            bench.next(next, bench.mapped(from), device, 1000);
            bench.next(next, device, bench.mapped(to), 1000);
            bench.sync();
            assert_eq!(read(to, 1000), [7; 1000], "{policy} {split}");
        }
    }
}

#[test]
fn a_kernel_goes_over_registrations_that_touch() {
    for policy in POLICIES {
        let bench = bench(policy);
        let next = bench.function("next");
        let (mut from, mut to) = (vec![5; 1000], vec![0; 1000]);
        let (from, to) = (address_of(&mut from), address_of(&mut to));
        for (start, bytes) in [(from, 300), (from.offset(300), 700), (to, 999)] {
            bench.register(start, bytes).unwrap();
        }
        bench.register(to.offset(999), 1).unwrap();
        bench.next(next, bench.mapped(from), bench.mapped(to), 1000);
        bench.sync();
        assert_eq!(read(to, 1000), [6; 1000], "{policy}");
    }
}

#[test]
fn a_kernel_stops_at_a_registration_that_it_does_not_reach() {
    let mut profile = Profile::h200();
    profile.devices[0].capabilities.unified_addressing = false;
    for (second_is_mapped, reached) in [(true, true), (false, false)] {
        let bench = bench_with(SimOptions::new(profile.clone()));
        let next = bench.function("next");
        let (mut from, device) = (vec![5; 100], bench.device(100));
        let from = address_of(&mut from);
        for (start, mapped) in [(from, true), (from.offset(50), second_is_mapped)] {
            let flags = RegisterFlags {
                mapped,
                ..RegisterFlags::default()
            };
            // SAFETY: nothing uses the memory after the wait below.
            unsafe { bench.sim.host_register(DEVICE, start, 50, flags) }.unwrap();
        }
        bench.next(next, bench.mapped(from), device, 100);
        let ended = bench.sim.stream_synchronize(bench.stream);
        assert_eq!(ended.is_ok(), reached, "{ended:?}");
    }
}

#[test]
fn mapped_results_are_not_seen_before_they_are_flushed() {
    let bench = bench(Policy::Lazy);
    let next = bench.function("next");
    let (from, to) = (bench.host(256), bench.host(256));
    bench.next(next, bench.mapped(from), bench.mapped(to), 256);
    assert_eq!(read(to, 256), [0; 256]);
    bench.sync();
    assert_eq!(read(to, 256), [1; 256]);
}

#[test]
fn a_host_address_is_no_device_address_where_they_are_split() {
    let options = SimOptions::new(Profile::h200()).split_addresses(true);
    let bench = bench_with(options);
    let next = bench.function("next");
    let (host, device) = (bench.host(64), bench.device(64));
    bench.next(next, DeviceAddr(host.0 as u64), device, 64);
    let fault = bench.sim.stream_synchronize(bench.stream).unwrap_err();
    assert_eq!(fault.code, ErrorCode::IllegalAddress);
}

#[test]
fn a_kernel_that_leaves_its_memory_loses_the_device() {
    for policy in POLICIES {
        let options = SimOptions::new(Profile::h200()).policy(policy).devices(2);
        let bench = bench_with(options);
        bench.sim.open(DeviceId(1)).unwrap();
        let next = bench.function("next");
        let (host, device) = (bench.host(64), bench.device(64));
        bench.next(next, device, bench.mapped(host), 65);
        let first = bench.sim.stream_synchronize(bench.stream).unwrap_err();
        assert_eq!(first.code, ErrorCode::IllegalAddress, "{policy}");
        assert!(first.detail.contains("next"), "{first}");
        let later = bench.sim.device_alloc(DEVICE, 1).unwrap_err();
        assert_eq!(later.code, ErrorCode::IllegalAddress, "{policy}");
        bench.sim.device_alloc(DeviceId(1), 1).unwrap();
        assert_eq!(read(host, 64), [0; 64], "{policy}");
    }
}

#[test]
fn twins_that_fail_or_panic_are_faults() {
    for name in ["panics", "wrong"] {
        let bench = bench(Policy::Lazy);
        let function = bench.function(name);
        bench.launch(bench.stream, function, &[]).unwrap();
        let fault = bench.sim.stream_synchronize(bench.stream).unwrap_err();
        assert_eq!(fault.code, ErrorCode::IllegalAddress);
        assert!(fault.detail.contains(name), "{fault}");
    }
}

#[test]
fn written_arguments_that_overlap_are_refused() {
    let bench = bench(Policy::Lazy);
    let next = bench.function("next");
    let device = bench.device(100);
    let args = [
        memory(device, 60, Access::Read),
        memory(device.offset(50), 50, Access::Write),
    ];
    let refused = bench.launch(bench.stream, next, &args).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidValue);
    bench.next(next, device, device.offset(50), 50);
    bench.sync();
}

#[test]
fn grids_and_blocks_have_limits() {
    let bench = bench(Policy::Eager);
    let next = bench.function("next");
    let code = |grid, block| {
        let result = bench.launch_shaped(bench.stream, next, grid, block, &[]);
        result.map_err(|e| e.code)
    };
    let refused = Err(ErrorCode::InvalidValue);
    assert_eq!(code([0, 1, 1], [1, 1, 1]), refused);
    assert_eq!(code([1, 1, 1], [1, 0, 1]), refused);
    assert_eq!(code([1, 1, 1], [1025, 1, 1]), refused);
    assert_eq!(code([1, 1, 1], [64, 32, 1]), refused);
    assert_eq!(code([1, 65536, 1], [1, 1, 1]), refused);
    assert_eq!(code([1 << 31, 1, 1], [1, 1, 1]), refused);
    assert!(bench.sim.stream_query(bench.stream).unwrap());
}

#[test]
fn only_ptx_loads_and_only_kernels_with_twins_are_found() {
    let bench = bench(Policy::Eager);
    for ptx in ["", "int main() {}"] {
        let image = ModuleImage {
            ptx: ptx.into(),
            ..kernels()
        };
        let refused = bench.sim.module_load(DEVICE, &image).unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidPtx);
    }
    let module = bench.sim.module_load(DEVICE, &kernels()).unwrap();
    for name in ["absent", "twinless"] {
        let refused = bench.sim.function(module, name).unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotFound);
        assert!(refused.detail.contains(name), "{refused}");
    }
}

#[test]
fn unloading_a_module_in_flight_is_a_hazard() {
    let bench = bench(Policy::Lazy);
    let module = bench.sim.module_load(DEVICE, &kernels()).unwrap();
    let next = bench.sim.function(module, "next").unwrap();
    let (from, to) = (bench.device(64), bench.device(64));
    bench.next(next, from, to, 64);
    // SAFETY: the broken rule is what is tested; the simulation waits.
    unsafe { bench.sim.module_unload(module).unwrap() };
    assert_eq!(bench.sim.hazards().len(), 1);
    let gone = bench.launch(bench.stream, next, &[]).unwrap_err();
    assert_eq!(gone.code, ErrorCode::InvalidHandle);
}

#[test]
fn a_flag_is_never_seen_before_the_data_by_another_thread() {
    for policy in POLICIES {
        let bench = bench(policy);
        let module = ModuleImage {
            name: "publish".into(),
            ptx: ".version 7.0 .target sm_75 .entry publish()".into(),
            twins: vec![pinfold_hal::Twin::new("publish", |call| {
                let [flag, data] = call.args()?;
                flag.write::<u32>()?[0] = 1;
                data.write::<u8>()?.fill(9);
                Ok(())
            })],
        };
        let module = bench.sim.module_load(DEVICE, &module).unwrap();
        let publish = bench.sim.function(module, "publish").unwrap();
        let (flag, data) = (bench.host(4), bench.host(4096));
        std::thread::scope(|scope| {
            let watcher = scope.spawn(move || watch(flag, data));
            let args = [
                memory(bench.mapped(flag), 4, Access::Write),
                memory(bench.mapped(data), 4096, Access::Write),
            ];
            bench.launch(bench.stream, publish, &args).unwrap();
            bench.sync();
            assert_eq!(watcher.join().unwrap(), vec![9; 4096], "{policy}");
        });
    }
}

/// Polls a flag as a program does, and reads the data once it is set.
fn watch(flag: HostAddr, data: HostAddr) -> Vec<u8> {
    let word = std::ptr::with_exposed_provenance_mut(flag.0);
    // SAFETY: the allocation outlives the thread, is aligned, and the simulation stores it
    // atomically.
    let word = unsafe { std::sync::atomic::AtomicU32::from_ptr(word) };
    while word.load(std::sync::atomic::Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    read(data, 4096)
}
