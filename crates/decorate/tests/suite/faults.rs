//! Each kind of fault rule refuses the calls it names, no others, and the same ones every time.

use pinfold_decorate::{Call, Faulty, Hooked};
use pinfold_hal::{BackendOps, DeviceId, DriverError, ErrorCode, HostAllocFlags, MemoryOps};
use pinfold_hal_sim::{Sim, SimOptions};
use pinfold_model::Profile;
use std::sync::Arc;

const DEVICE: DeviceId = DeviceId(0);

fn faulty(plan: &str) -> (Arc<Sim>, Hooked<Faulty>) {
    let sim = Arc::new(Sim::new(SimOptions::new(Profile::h200())));
    let losing = sim.clone();
    let hook = Faulty::new(plan.parse().unwrap()).losing(move |device| losing.lose_device(device));
    let driver = Hooked::new(sim.clone(), hook);
    (sim, driver)
}

/// Opens the device, and allocates and frees host memory so often; says which allocations worked.
fn allocate(driver: &Hooked<Faulty>, times: usize) -> Vec<bool> {
    let once = |_| {
        let memory = driver.host_alloc(DEVICE, 4096, HostAllocFlags::default());
        if let Ok(addr) = memory {
            // SAFETY: just allocated, used by nobody.
            unsafe { driver.host_free(DEVICE, addr) }.unwrap();
        }
        memory.is_ok()
    };
    (0..times).map(once).collect()
}

#[test]
fn the_nth_call_of_all_counts_every_call_but_releases() {
    // 1: open, 2: the first allocation, 3: the second; frees do not count.
    let (sim, driver) = faulty("any#3:OutOfMemory");
    driver.open(DEVICE).unwrap();
    assert_eq!(allocate(&driver, 3), [true, false, true]);
    assert_eq!(driver.hook().asked_any(), 4);
    assert_eq!(driver.hook().asked()[&Call::HostFree], 2);
    assert!(
        driver
            .hook()
            .injected()
            .into_iter()
            .eq([(Call::HostAlloc, 1)])
    );
    assert_eq!(sim.live().host_bytes, 0);
}

#[test]
fn the_nth_call_of_a_name_counts_that_name_only() {
    let (_, driver) = faulty("device-memory#1:Unknown,host-alloc#2:OutOfMemory");
    driver.open(DEVICE).unwrap();
    let error = driver.device_memory(DEVICE).unwrap_err();
    assert_eq!(
        (error.code, error.call),
        (ErrorCode::Unknown, "cuMemGetInfo")
    );
    assert!(
        error.detail.contains("`device-memory#1:Unknown`"),
        "{error}"
    );
    assert_eq!(allocate(&driver, 3), [true, false, true]);
    driver.device_memory(DEVICE).unwrap();
}

#[test]
fn a_release_fails_only_by_name_and_then_leaves_things_as_they_were() {
    let (sim, driver) = faulty("any~1@0:Unknown");
    sim.open(DEVICE).unwrap();
    // SAFETY: nothing was made under the opening.
    unsafe { driver.close(DEVICE) }.unwrap();

    let (sim, driver) = faulty("host-free#1:InvalidValue");
    driver.open(DEVICE).unwrap();
    let addr = driver
        .host_alloc(DEVICE, 4096, HostAllocFlags::default())
        .unwrap();
    // SAFETY: used by nobody; the first call is refused, so it frees nothing.
    unsafe {
        driver.host_free(DEVICE, addr).unwrap_err();
        assert_eq!(sim.live().host_bytes, 4096);
        driver.host_free(DEVICE, addr).unwrap();
    }
    assert_eq!(sim.live().host_bytes, 0);
    assert!(sim.hazards().is_empty());
}

#[test]
fn a_rate_is_decided_by_the_seed() {
    let pattern = |plan: &str| {
        let (_, driver) = faulty(plan);
        driver.open(DEVICE).unwrap();
        allocate(&driver, 1000)
    };
    let first = pattern("host-alloc~0.1@7:OutOfMemory");
    assert_eq!(first, pattern("host-alloc~0.1@7:OutOfMemory"));
    assert_ne!(first, pattern("host-alloc~0.1@8:OutOfMemory"));
    // One in ten of a thousand, give or take more than six standard deviations.
    let refused = first.iter().filter(|ok| !**ok).count();
    assert!((40..160).contains(&refused), "{refused}");
    assert!(pattern("host-alloc~0@7:OutOfMemory").iter().all(|ok| *ok));
    assert!(pattern("host-alloc~1@7:OutOfMemory").iter().all(|ok| !ok));
}

#[test]
fn a_rate_for_any_call_does_not_depend_on_other_calls_in_between() {
    let outcomes = |queries_between: usize| -> Vec<Option<DriverError>> {
        let (sim, driver) = faulty("any~0.3@11:OutOfMemory");
        sim.open(DEVICE).unwrap();
        let once = |_| {
            for _ in 0..queries_between {
                let _ = driver.device_memory(DEVICE);
            }
            driver.device_info(DEVICE).err()
        };
        (0..100).map(once).collect()
    };
    assert_eq!(outcomes(0), outcomes(3));
    assert!(outcomes(0).iter().any(Option::is_some));
}

#[test]
fn a_sticky_code_loses_the_device_and_a_plain_one_does_not() {
    for (code, lost) in [("LaunchFailed", true), ("InvalidValue", false)] {
        let (_, driver) = faulty(&format!("device-memory#1:{code}"));
        driver.open(DEVICE).unwrap();
        let error = driver.device_memory(DEVICE).unwrap_err();
        assert_eq!(format!("{:?}", error.code), code);
        let next = driver.device_memory(DEVICE);
        assert_eq!(next.is_err_and(|e| e.code.is_sticky()), lost, "{code}");
    }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let (_, driver) = faulty("open#1:InvalidDevice,any#1:OutOfMemory");
    assert_eq!(
        driver.open(DEVICE).unwrap_err().code,
        ErrorCode::InvalidDevice
    );
    driver.open(DEVICE).unwrap();
}
