//! A fault at every driver call of what programs do: first how many calls there are, then the same
//! again for each of them failing, with several codes, under several effect policies.
//!
//! After a fault that spares the device a program may give up, and then nothing is left behind and
//! the same machine serves it from the start; or it may try the failed step again with what it got
//! back, and then it ends as if nothing had been. After a fault that loses the device it ends with
//! an error, and no memory that was in use is reused early.

mod scenarios;

use crate::common::{Machine, options};
use pinfold::kernels::dot::Dot;
use pinfold::{Error, Memory, Platform, Result};
use pinfold_decorate::{Call, Faulty, Hooked};
use pinfold_hal::{BackendOps, ErrorCode};
use pinfold_hal_sim::{Live, Policy, Sim, SimOptions};
use scenarios::{
    LEN, Run, called_and_dropped, dot_in_place, dot_on_the_device, dropped_in_flight, exchange,
    graph, ladder, pinned_on_use, registered, reserved, staged, two_devices,
};
use std::sync::Arc;

const POLICIES: [Policy; 5] = [
    Policy::Eager,
    Policy::Lazy,
    Policy::Seeded(1),
    Policy::Seeded(2),
    Policy::Seeded(3),
];

/// Codes after which the device goes on.
const PLAIN: [ErrorCode; 4] = [
    ErrorCode::OutOfMemory,
    ErrorCode::InvalidValue,
    ErrorCode::NotPermitted,
    ErrorCode::HostMemoryAlreadyRegistered,
];

/// Codes with which the device is lost.
const STICKY: [ErrorCode; 3] = [
    ErrorCode::LaunchFailed,
    ErrorCode::IllegalAddress,
    ErrorCode::ContextIsDestroyed,
];

type Scenario = fn(&Run<'_>) -> Result<()>;

/// A machine whose driver fails as planned.
struct Bench {
    platform: Platform,
    driver: Arc<Hooked<Faulty>>,
    sim: Arc<Sim>,
    pooled: bool,
    context: String,
}

impl Bench {
    fn new(options: &SimOptions, policy: Policy, pooled: bool, plan: &str) -> Self {
        let sim = Machine::new(options.clone(), policy).sim;
        let lost = sim.clone();
        let lose = move |device| lost.lose_device(device);
        let faulty = Faulty::new(plan.parse().unwrap()).losing(lose);
        let driver = Arc::new(Hooked::new(sim.clone(), faulty));
        Bench {
            platform: Platform::with_driver(driver.clone()),
            driver,
            sim,
            pooled,
            context: format!("`{plan}` under {policy}, pooled: {pooled}"),
        }
    }

    fn run(&self, scenario: Scenario, attempts: u32) -> Result<()> {
        let platform = &self.platform;
        scenario(&Run {
            platform,
            attempts,
            pooled: self.pooled,
        })
    }

    /// No rule was broken; and what is left.
    fn live(&self) -> Live {
        let hazards = self.sim.hazards();
        let calls = self.driver.hook().injected();
        assert!(
            hazards.is_empty(),
            "{}, {calls:?}: {hazards:?}",
            self.context
        );
        self.sim.live()
    }

    /// Panics with the fault and the error.
    fn fail(&self, what: &str, error: Option<Error>) -> ! {
        let (context, calls) = (&self.context, self.driver.hook().injected());
        panic!("{context}, {calls:?}: {what}: {error:?}")
    }

    fn check_nothing_left(&self) {
        if self.live() != Live::default() {
            self.fail(&format!("left behind: {:?}", self.live()), None);
        }
    }

    fn check_one_injected(&self) {
        let injected: u64 = self.driver.hook().injected().values().sum();
        assert_eq!(injected, 1, "{}", self.context);
    }
}

/// How many calls a scenario makes that a plan can refuse.
fn calls(options: &SimOptions, policy: Policy, pooled: bool, scenario: Scenario) -> u64 {
    let bench = Bench::new(options, policy, pooled, "");
    if let Err(error) = bench.run(scenario, 1) {
        bench.fail("fails without a fault", Some(error));
    }
    bench.check_nothing_left();
    bench.driver.hook().asked_any()
}

/// The whole of it for one scenario, over plain memory and over a pool.
fn a_fault_at_every_call(options: SimOptions, scenario: Scenario) {
    for policy in POLICIES {
        a_fault_at_every_call_under(&options, policy, false, scenario);
    }
    for policy in [Policy::Eager, Policy::Lazy] {
        a_fault_at_every_call_under(&options, policy, true, scenario);
    }
}

fn a_fault_at_every_call_under(
    options: &SimOptions,
    policy: Policy,
    pooled: bool,
    scenario: Scenario,
) {
    let bench =
        |n: u64, code: ErrorCode| Bench::new(options, policy, pooled, &format!("any#{n}:{code:?}"));
    for n in 1..=calls(options, policy, pooled, scenario) {
        for code in PLAIN {
            gives_up_cleanly(&bench(n, code), scenario, code);
            tries_again(&bench(n, code), scenario);
        }
        for code in STICKY {
            loses_the_device(&bench(n, code), scenario);
        }
    }
}

fn gives_up_cleanly(bench: &Bench, scenario: Scenario, code: ErrorCode) {
    let outcome = bench.run(scenario, 1);
    bench.check_one_injected();
    bench.check_nothing_left();
    if let Err(error) = outcome {
        let told = match &error {
            Error::Driver { source, .. } => source.code == code,
            Error::DeviceMemory { .. } => code == ErrorCode::OutOfMemory,
            Error::HostMemory(error) => !error.tried.is_empty(),
            Error::AlreadyRegistered { .. } => code == ErrorCode::HostMemoryAlreadyRegistered,
            _ => false,
        };
        if !told {
            bench.fail("the error is about something else", Some(error));
        }
    }
    // The same machine, from the start.
    if let Err(error) = bench.run(scenario, 1) {
        bench.fail("a later run was poisoned", Some(error));
    }
    bench.check_nothing_left();
}

fn tries_again(bench: &Bench, scenario: Scenario) {
    if let Err(error) = bench.run(scenario, 2) {
        bench.fail("another try did not help", Some(error));
    }
    bench.check_one_injected();
    bench.check_nothing_left();
}

fn loses_the_device(bench: &Bench, scenario: Scenario) {
    let outcome = bench.run(scenario, 1);
    bench.check_one_injected();
    // A lost device frees nothing, so something may be left, but no rule was broken.
    bench.live();
    if let Err(error) = outcome
        && !error.driver_error().is_some_and(|e| e.code.is_sticky())
    {
        bench.fail(
            "the error does not say that the device is lost",
            Some(error),
        );
    }
}

#[test]
fn dot_product_on_the_device() {
    a_fault_at_every_call(options(), dot_on_the_device);
}

#[test]
fn dot_product_in_place_with_a_scalar_cell() {
    a_fault_at_every_call(options(), dot_in_place);
}

#[test]
fn exchange_between_two_streams() {
    a_fault_at_every_call(options(), exchange);
}

#[test]
fn memory_of_the_programs_own() {
    a_fault_at_every_call(options(), registered);
}

#[test]
fn one_device_hands_over_to_another() {
    a_fault_at_every_call(options().devices(2), two_devices);
}

#[test]
fn buffers_dropped_in_flight() {
    a_fault_at_every_call(options(), dropped_in_flight);
}

#[test]
fn work_that_nobody_waits_for() {
    a_fault_at_every_call(options(), called_and_dropped);
}

#[test]
fn memory_that_is_reserved() {
    a_fault_at_every_call(options(), reserved);
}

#[test]
fn work_that_is_recorded_and_launched() {
    a_fault_at_every_call(options(), graph);
}

#[test]
fn memory_that_is_page_locked_on_use() {
    a_fault_at_every_call(options(), pinned_on_use);
}

#[test]
fn ordinary_memory_by_the_engines_threads() {
    a_fault_at_every_call(options(), staged);
}

#[test]
fn the_ladder() {
    a_fault_at_every_call(options().write_combined_limit(1 << 20), ladder);
}

/// What is left where one kind of release is refused: that, and nothing else.
fn left_by(call: Call, live: Live) -> (bool, Live) {
    let none = Live::default();
    match call {
        Call::HostFree => (
            live.host_bytes > 0,
            Live {
                host_bytes: 0,
                ..live
            },
        ),
        Call::HostUnregister => (
            live.registered_bytes > 0,
            Live {
                registered_bytes: 0,
                ..live
            },
        ),
        Call::DeviceFree => (
            live.device_bytes > 0,
            Live {
                device_bytes: 0,
                ..live
            },
        ),
        Call::StreamDestroy => (live.streams == 1, Live { streams: 0, ..live }),
        Call::EventDestroy => (live.events == 1, Live { events: 0, ..live }),
        Call::GraphDestroy | Call::GraphExecDestroy => {
            (live.graphs == 1, Live { graphs: 0, ..live })
        }
        Call::ModuleUnload => (live.modules == 1, Live { modules: 0, ..live }),
        _ => (live == none, live),
    }
}

#[test]
fn a_refused_release_leaks_what_it_was_for_and_nothing_else() {
    let scenarios: [(Scenario, u32); 7] = [
        (dot_on_the_device, 1),
        (dot_in_place, 1),
        (exchange, 1),
        (registered, 1),
        (two_devices, 2),
        (dropped_in_flight, 1),
        (graph, 1),
    ];
    let releases = Call::ALL.iter().filter(|call| call.is_release());
    for &call in releases {
        let mut refused = 0;
        let pools = [false, true];
        let all = scenarios
            .iter()
            .flat_map(|s| pools.map(|pooled| (s, pooled)));
        for (&(scenario, devices), pooled) in all {
            let options = options().devices(devices);
            let count = |bench: &Bench| bench.driver.hook().asked().get(&call).copied();
            let bench = Bench::new(&options, Policy::Lazy, pooled, "");
            bench.run(scenario, 1).unwrap();
            for n in 1..=count(&bench).unwrap_or(0) {
                let plan = format!("{call}#{n}:InvalidValue");
                let bench = Bench::new(&options, Policy::Lazy, pooled, &plan);
                let outcome = bench.run(scenario, 1);
                bench.check_one_injected();
                // Only whoever asked for the memory back hears of it.
                if let Err(error) = outcome
                    && call != Call::HostUnregister
                {
                    bench.fail("a release nobody asked for was reported", Some(error));
                }
                let (leaked, rest) = left_by(call, bench.live());
                assert!(
                    leaked && rest == Live::default(),
                    "{plan}: {:?}",
                    bench.live()
                );
                refused += 1;
            }
        }
        assert!(refused > 0, "{call} is never made");
    }
}

#[test]
fn memory_that_the_driver_keeps_page_locked_is_never_given_back_as_ordinary() {
    let bench = Bench::new(
        &options(),
        Policy::Lazy,
        false,
        "host-unregister~1@0:Unknown",
    );
    let memory = Memory::new(&bench.platform.device(0).unwrap());
    let owned = memory.register(vec![1u8; LEN]).unwrap();
    assert!(owned.into_inner().is_err());
    let mut slice = vec![1u8; LEN];
    assert!(memory.with_registered(&mut slice[..], |_| ()).is_err());
    assert_eq!(bench.live().registered_bytes, 2 * LEN as u64);
    // A buffer that is merely dropped is told of in the books.
    drop(memory.register(vec![1u8; LEN]).unwrap());
    assert_eq!(memory.stats().lost_bytes, LEN as u64);
}

const EVERY_WAIT_REFUSED: &str = "stream-synchronize~1@0:Unknown,event-synchronize~1@0:Unknown,\
                                  device-synchronize~1@0:Unknown";

#[test]
fn what_cannot_be_waited_for_is_leaked() {
    // Large, so that it is still in flight when everything goes away.
    const LARGE: usize = 4 << 20;
    let bench = Bench::new(&options(), Policy::Lazy, false, EVERY_WAIT_REFUSED);
    let device = bench.platform.device(0).unwrap();
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let dot = Dot::load(&memory, &stream).unwrap();
    let mut on_device = memory.device::<u32>(LARGE).unwrap();
    let up = memory.upload(LARGE).unwrap();
    drop(stream.upload(up, &mut on_device).unwrap());
    drop((dot, on_device, stream, memory, device));
    let live = bench.live();
    assert!(live.registered_bytes >= 4 * LARGE as u64);
    assert!(live.device_bytes >= 4 * LARGE as u64 && live.modules == 1);
}

#[test]
fn a_graph_whose_launches_cannot_be_waited_for_is_leaked() {
    const LARGE: usize = 4 << 20;
    let bench = Bench::new(&options(), Policy::Lazy, false, EVERY_WAIT_REFUSED);
    let device = bench.platform.device(0).unwrap();
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let mut on_device = memory.device::<u32>(LARGE).unwrap();
    let up = memory.upload(LARGE).unwrap();
    let mut graph = device
        .capture(|recorder| Ok(recorder.upload(up, &mut on_device)?))
        .unwrap();
    graph.launch(&stream).unwrap();
    let refused = graph.into_kept().unwrap_err();
    assert!(matches!(*refused.error, Error::Driver { .. }));
    drop((refused, on_device, stream, memory, device));
    let live = bench.live();
    assert!(live.registered_bytes >= 4 * LARGE as u64 && live.device_bytes >= 4 * LARGE as u64);
    assert_eq!(live.graphs, 1);
}

#[test]
fn a_capture_that_the_driver_does_not_end_costs_its_stream() {
    let bench = Bench::new(&options(), Policy::Lazy, false, "capture-end~1@0:Unknown");
    let device = bench.platform.device(0).unwrap();
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let mut on_device = memory.device::<u32>(LEN).unwrap();
    let up = memory.upload(LEN).unwrap();
    let captured = device.capture(|recorder| Ok(recorder.upload(up, &mut on_device)?));
    let up = captured.unwrap_err().buffer.unwrap().wait().unwrap();
    let up = stream.upload(up, &mut on_device).unwrap();
    drop(up.wait().unwrap());
    drop((on_device, stream, memory, device));
    assert_eq!(bench.live().streams, 1);
}

/// Runs itself in a process of its own, which has to end before the slice is free again.
#[test]
fn a_borrow_never_ends_while_the_device_may_use_the_memory() {
    const NAME: &str = "faults::a_borrow_never_ends_while_the_device_may_use_the_memory";
    const INSIDE: &str = "PINFOLD_TEST_EVERY_WAIT_REFUSED";
    if std::env::var_os(INSIDE).is_none() {
        let test = std::env::current_exe().unwrap();
        let mut process = std::process::Command::new(test);
        process.args(["--exact", NAME, "--nocapture"]);
        let output = process.env(INSIDE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{text}");
        assert!(text.contains("refuses to wait"), "{text}");
        assert!(!text.contains("went on"), "{text}");
        return;
    }
    let bench = Bench::new(&options(), Policy::Lazy, false, EVERY_WAIT_REFUSED);
    let device = bench.platform.device(0).unwrap();
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let on_device = memory.device::<u32>(LEN).unwrap();
    let mut slice = vec![0u32; LEN];
    let _ = memory.with_registered(&mut slice[..], |buffer| {
        drop(stream.download(&on_device, buffer));
    });
    panic!("the program went on");
}
