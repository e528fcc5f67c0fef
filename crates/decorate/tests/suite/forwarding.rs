//! A hooked simulator is a simulator: the whole conformance suite ends the same way, and the hook
//! hears of its calls.

use pinfold_conformance::{Report, Verdict, run_all};
use pinfold_decorate::{Call, Counted, Faulty, Hooked};
use pinfold_hal::{BackendOps, DeviceId, Driver, EventFlags, EventOps, StreamOps};
use pinfold_hal_sim::{Live, Policy, Sim, SimOptions};
use pinfold_model::Profile;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn simulator(policy: Policy) -> Arc<Sim> {
    let options = SimOptions::new(Profile::h200())
        .policy(policy)
        .split_addresses(true)
        .devices(2);
    Arc::new(Sim::new(options))
}

/// What a report says, without its times.
fn outcomes(report: &Report) -> Vec<(&'static str, Verdict, &str)> {
    let tests = report.tests.iter();
    tests
        .map(|test| (test.name, test.outcome, test.reason.as_str()))
        .collect()
}

fn run(driver: Arc<dyn Driver>) -> Report {
    run_all(&driver, DeviceId(1), None).unwrap()
}

#[test]
fn the_conformance_suite_ends_as_on_the_bare_simulator() {
    for policy in [Policy::Eager, Policy::Lazy, Policy::Seeded(3)] {
        let bare = run(simulator(policy));
        let sim = simulator(policy);
        let counted = Arc::new(Hooked::new(sim.clone(), Counted::new()));
        let report = run(counted.clone());
        assert!(bare.passed() && report.passed(), "{policy}");
        assert_eq!(outcomes(&report), outcomes(&bare), "{policy}");
        assert_eq!(sim.live(), Live::default(), "{policy}");

        // The suite makes every call but one, so each was forwarded by its own name.
        let made = counted.hook().made();
        let unmade: Vec<_> = Call::ALL
            .iter()
            .filter(|call| !made.contains_key(call))
            .collect();
        assert_eq!(unmade, [&Call::EventImport], "{policy}");
        assert_eq!(counted.hook().total(), made.values().sum());
        // The suite also checks what is refused; all else that it opened it closed.
        let failed = counted.hook().failed();
        let worked = |call| made[&call] - failed.get(&call).copied().unwrap_or(0);
        assert_eq!(worked(Call::Open), worked(Call::Close), "{policy}");
        assert!(failed[&Call::HostAlloc] > 0 && worked(Call::HostAlloc) > 0);
    }
}

#[test]
fn an_event_of_another_process_is_imported_by_the_inner_driver() {
    let sim = simulator(Policy::Eager);
    let counted = Hooked::new(sim.clone(), Counted::new());
    counted.open(DeviceId(0)).unwrap();
    let flags = EventFlags {
        disable_timing: true,
        interprocess: true,
        blocking_sync: false,
    };
    let event = counted.event_create(DeviceId(0), flags).unwrap();
    let handle = counted.event_export(event).unwrap();
    let imported = counted.event_import(DeviceId(0), handle).unwrap();
    assert_eq!(counted.hook().made()[&Call::EventImport], 1);
    assert_eq!(sim.live().events, 2);
    for event in [event, imported] {
        // SAFETY: made above, and not used again.
        unsafe { counted.event_destroy(event) }.unwrap();
    }
    // SAFETY: both handles of the event are destroyed, and there was nothing else.
    unsafe { counted.close(DeviceId(0)) }.unwrap();
    assert_eq!(sim.live(), Live::default());
}

#[test]
fn a_hook_that_refuses_nothing_changes_nothing() {
    let report = run(Arc::new(Hooked::new(
        simulator(Policy::Lazy),
        Faulty::new(Default::default()),
    )));
    assert_eq!(outcomes(&report), outcomes(&run(simulator(Policy::Lazy))));
}

#[test]
fn what_cannot_fail_is_forwarded_past_the_hook() {
    let sim = simulator(Policy::Eager);
    let hooked = Hooked::new(sim.clone(), Faulty::new("any~1@0:Unknown".parse().unwrap()));
    assert_eq!(hooked.info().name, sim.info().name);
    assert_eq!(
        hooked.default_stream(DeviceId(1)),
        sim.default_stream(DeviceId(1))
    );
    let before = hooked.now_ns();
    hooked.host_work(pinfold_hal::HostWork::Compute { nanoseconds: 5000 });
    hooked.pause();
    assert!(hooked.now_ns() >= before + 5000);
    assert_eq!(hooked.now_ns(), sim.now_ns());
    assert!(hooked.hazards().is_empty());
    assert!(hooked.hook().asked().is_empty());
}

#[test]
fn a_refused_callback_is_dropped_and_never_runs() {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let sim = simulator(Policy::Eager);
    let plan = "host-callback#1:Unknown".parse().unwrap();
    let hooked = Hooked::new(sim, Faulty::new(plan));
    hooked.open(DeviceId(0)).unwrap();
    let stream = hooked.default_stream(DeviceId(0));
    let (dropped, ran) = (
        Arc::new(AtomicBool::default()),
        Arc::new(AtomicBool::default()),
    );
    let (flag, did) = (Flag(dropped.clone()), ran.clone());
    let callback = Box::new(move || {
        did.store(true, Ordering::Relaxed);
        drop(flag);
    });
    hooked.host_callback(stream, callback).unwrap_err();
    assert!(dropped.load(Ordering::Relaxed));
    hooked.device_synchronize(DeviceId(0)).unwrap();
    assert!(!ran.load(Ordering::Relaxed));
    // SAFETY: nothing was made under the opening but a callback that was refused.
    unsafe { hooked.close(DeviceId(0)) }.unwrap();
}
