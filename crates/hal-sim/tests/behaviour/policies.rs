//! When operations take effect: a program that waits where it has to cannot tell policies apart,
//! and one that does not gets hurt under some of them.

use crate::common::*;
use pinfold_hal::{
    Access, BackendOps, DeviceAddr, EventId, EventOps, FunctionId, HostAddr, StreamId, StreamKind,
    StreamOps,
};
use pinfold_hal_sim::{Policy, SimOptions};
use pinfold_model::Profile;
use proptest::prelude::*;

const BYTES: usize = 700;
const BUFFERS: usize = 3;
const STREAMS: usize = 3;

/// One step of a program on buffers 0 to 2 of the host and 3 to 5 of the device.
#[derive(Clone, Copy, Debug)]
enum Step {
    Up {
        stream: usize,
        to: usize,
        from: usize,
    },
    Down {
        stream: usize,
        to: usize,
        from: usize,
    },
    Across {
        stream: usize,
        to: usize,
        from: usize,
    },
    Fill {
        stream: usize,
        to: usize,
        byte: u8,
    },
    /// A kernel, on any buffers, of the host in place.
    Next {
        stream: usize,
        to: usize,
        from: usize,
    },
    Write {
        to: usize,
        byte: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (s, host, device) = (0..STREAMS, 0..BUFFERS, BUFFERS..2 * BUFFERS);
    let all = 0..2 * BUFFERS;
    prop_oneof![
        (s.clone(), device.clone(), host.clone()).prop_map(|(stream, to, from)| Step::Up {
            stream,
            to,
            from
        }),
        (s.clone(), host.clone(), device.clone()).prop_map(|(stream, to, from)| Step::Down {
            stream,
            to,
            from
        }),
        (s.clone(), device.clone(), device.clone())
            .prop_filter("no overlap", |(_, to, from)| to != from)
            .prop_map(|(stream, to, from)| Step::Across { stream, to, from }),
        (s.clone(), device, any::<u8>()).prop_map(|(stream, to, byte)| Step::Fill {
            stream,
            to,
            byte
        }),
        (s, all.clone(), all)
            .prop_filter("no overlap", |(_, to, from)| to != from)
            .prop_map(|(stream, to, from)| Step::Next { stream, to, from }),
        (host, any::<u8>()).prop_map(|(to, byte)| Step::Write { to, byte }),
    ]
}

impl Step {
    fn stream(self) -> Option<usize> {
        match self {
            Step::Up { stream, .. }
            | Step::Down { stream, .. }
            | Step::Across { stream, .. }
            | Step::Fill { stream, .. }
            | Step::Next { stream, .. } => Some(stream),
            Step::Write { .. } => None,
        }
    }

    /// The buffers that it touches.
    fn buffers(self) -> Vec<usize> {
        match self {
            Step::Up { to, from, .. }
            | Step::Down { to, from, .. }
            | Step::Across { to, from, .. }
            | Step::Next { to, from, .. } => vec![to, from],
            Step::Fill { to, .. } | Step::Write { to, .. } => vec![to],
        }
    }
}

fn start_contents() -> Vec<Vec<u8>> {
    (0..2 * BUFFERS).map(|n| vec![n as u8; BYTES]).collect()
}

/// What the program has to leave behind: its steps one after the other.
fn expected(program: &[Step]) -> Vec<Vec<u8>> {
    let mut buffers = start_contents();
    for step in program {
        match *step {
            Step::Up { to, from, .. }
            | Step::Down { to, from, .. }
            | Step::Across { to, from, .. } => {
                buffers[to] = buffers[from].clone();
            }
            Step::Fill { to, byte, .. } | Step::Write { to, byte } => buffers[to].fill(byte),
            Step::Next { to, from, .. } => {
                buffers[to] = buffers[from].iter().map(|b| b.wrapping_add(1)).collect();
            }
        }
    }
    buffers
}

/// A machine with the buffers, and for each buffer the event after each use and the stream of the
/// use.
struct Machine {
    bench: Bench,
    next: FunctionId,
    streams: [StreamId; STREAMS],
    host: Vec<HostAddr>,
    device: Vec<DeviceAddr>,
    users: Vec<Vec<(usize, EventId)>>,
}

impl Machine {
    fn new(options: SimOptions) -> Self {
        let bench = bench_with(options);
        let bytes = BYTES as u64;
        let machine = Machine {
            next: bench.function("next"),
            streams: [
                bench.stream,
                bench.new_stream(StreamKind::Blocking),
                bench.sim.default_stream(DEVICE),
            ],
            host: (0..BUFFERS).map(|_| bench.host(bytes)).collect(),
            device: (0..BUFFERS).map(|_| bench.device(bytes)).collect(),
            users: vec![Vec::new(); 2 * BUFFERS],
            bench,
        };
        for (n, contents) in start_contents().iter().enumerate() {
            if n < BUFFERS {
                write(machine.host[n], contents);
            } else {
                let (stream, to) = (machine.bench.stream, machine.device[n - BUFFERS]);
                machine.bench.fill(stream, to, n as u8, bytes).unwrap();
            }
        }
        machine.bench.sync();
        machine
    }

    /// The address of any buffer for a kernel.
    fn place(&self, n: usize) -> DeviceAddr {
        match n.checked_sub(BUFFERS) {
            None => self.bench.mapped(self.host[n]),
            Some(n) => self.device[n],
        }
    }

    /// Waits for every use of the step's buffers on other streams.
    fn wait(&self, step: Step) {
        for buffer in step.buffers() {
            for &(user, event) in &self.users[buffer] {
                match step.stream() {
                    Some(s) if s == user => {}
                    Some(s) => {
                        let stream = self.streams[s];
                        self.bench.sim.stream_wait_event(stream, event).unwrap();
                    }
                    None => self.bench.sim.event_synchronize(event).unwrap(),
                }
            }
        }
    }

    fn enqueue(&self, step: Step) {
        let bytes = BYTES as u64;
        let stream = step.stream().map_or(self.bench.stream, |s| self.streams[s]);
        let (host, bench) = (&self.host, &self.bench);
        let result = match step {
            Step::Write { to, byte } => {
                write(host[to], &[byte; BYTES]);
                Ok(())
            }
            Step::Up { to, from, .. } => bench.try_up(stream, self.place(to), host[from], bytes),
            Step::Down { to, from, .. } => {
                bench.try_down(stream, host[to], self.place(from), bytes)
            }
            Step::Across { to, from, .. } => {
                bench.across(stream, self.place(to), self.place(from), bytes)
            }
            Step::Fill { to, byte, .. } => bench.fill(stream, self.place(to), byte, bytes),
            Step::Next { to, from, .. } => {
                let args = [
                    memory(self.place(from), bytes, Access::Read),
                    memory(self.place(to), bytes, Access::Write),
                ];
                bench.launch(stream, self.next, &args)
            }
        };
        result.unwrap();
    }

    /// Records that the step used its buffers.
    fn mark(&mut self, step: Step) {
        let Some(s) = step.stream() else { return };
        let event = self.bench.event();
        let sim = &self.bench.sim;
        sim.event_record(event, self.streams[s]).unwrap();
        for buffer in step.buffers() {
            self.users[buffer].push((s, event));
        }
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        let mut contents: Vec<_> = self.host.iter().map(|&addr| read(addr, BYTES)).collect();
        for &addr in &self.device {
            let target = self.bench.host(BYTES as u64);
            self.bench.down(target, addr, BYTES as u64);
            self.bench.sync();
            contents.push(read(target, BYTES));
        }
        contents
    }
}

/// Runs the program with all the waits that it needs; what it leaves behind, and the clock.
fn run(program: &[Step], options: SimOptions) -> (Vec<Vec<u8>>, u64) {
    let mut machine = Machine::new(options);
    for &step in program {
        machine.wait(step);
        machine.enqueue(step);
        machine.mark(step);
    }
    machine.bench.sim.device_synchronize(DEVICE).unwrap();
    let contents = machine.contents();
    assert_eq!(machine.bench.sim.hazards(), []);
    (contents, machine.bench.sim.now_ns())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_program_that_waits_cannot_tell_policies_apart(
        program in prop::collection::vec(step(), 1..40),
        split in any::<bool>(),
    ) {
        let expected = expected(&program);
        let options = |policy| {
            SimOptions::new(Profile::h200()).policy(policy).split_addresses(split)
        };
        let (bytes, clock) = run(&program, options(Policy::Eager));
        prop_assert_eq!(&bytes, &expected);
        for policy in [Policy::Lazy].into_iter().chain((0..50).map(Policy::Seeded)) {
            let (bytes, clock_here) = run(&program, options(policy));
            prop_assert_eq!(&bytes, &expected, "{}", policy);
            prop_assert_eq!(clock_here, clock, "{}", policy);
        }
    }
}

#[test]
fn lazy_shows_poison_to_who_reads_before_the_wait() {
    let bench = bench(Policy::Lazy);
    let (host, device) = (bench.host(64), bench.device(64));
    bench.fill(bench.stream, device, 7, 64).unwrap();
    bench.down(host, device, 64);
    assert_eq!(read(host, 64), [0xA5; 64]);
    bench.sync();
    assert_eq!(read(host, 64), [7; 64]);
}

#[test]
fn lazy_corrupts_the_copy_of_a_source_that_is_reused_too_early() {
    let uploaded = |policy| {
        let bench = bench(policy);
        let (source, target, device) = (bench.host(64), bench.host(64), bench.device(64));
        write(source, &[1; 64]);
        bench.up(device, source, 64);
        bench.sim.device_count().unwrap();
        write(source, &[2; 64]);
        bench.down(target, device, 64);
        bench.sync();
        read(target, 64)[0]
    };
    assert_eq!(uploaded(Policy::Lazy), 2);
    assert_eq!(uploaded(Policy::Eager), 1);
    let seeds: Vec<u8> = (0..50).map(|seed| uploaded(Policy::Seeded(seed))).collect();
    assert!(seeds.contains(&1) && seeds.contains(&2), "{seeds:?}");
}

#[test]
fn a_seed_tears_large_copies() {
    let torn = (0..200).any(|seed| {
        let bench = bench(Policy::Seeded(seed));
        let (host, device) = (bench.host(4096), bench.device(4096));
        bench.fill(bench.stream, device, 7, 4096).unwrap();
        bench.down(host, device, 4096);
        (0..10).any(|_| {
            bench.sim.device_count().unwrap();
            let seen = read(host, 4096);
            seen.contains(&7) && seen.contains(&0xA5)
        })
    });
    assert!(torn);
}

#[test]
fn the_same_seed_does_the_same() {
    let trace = |seed| {
        let bench = bench(Policy::Seeded(seed));
        let (host, device) = (bench.host(4096), bench.device(4096));
        bench.fill(bench.stream, device, 7, 4096).unwrap();
        bench.down(host, device, 4096);
        let mut seen = Vec::new();
        for _ in 0..6 {
            bench.sim.device_count().unwrap();
            seen.push(read(host, 4096));
        }
        seen
    };
    assert_eq!(trace(3), trace(3));
    assert!((0..20).any(|seed| trace(seed) != trace(3)));
}

#[test]
fn polling_mapped_memory_ends_under_every_policy() {
    for policy in POLICIES {
        let bench = bench(policy);
        let next = bench.function("next");
        let (flag, zero) = (bench.host(4), bench.device(4));
        bench.fill(bench.stream, zero, 0, 4).unwrap();
        bench.next(next, zero, bench.mapped(flag), 4);
        let polled = (0..100).any(|_| {
            bench.sim.pause();
            read(flag, 4) == [1; 4]
        });
        assert!(polled, "{policy}");
    }
}

#[test]
fn fresh_device_memory_is_poisoned_only_where_asked() {
    for (policy, poison, byte) in [
        (Policy::Lazy, None, 0xA5),
        (Policy::Eager, None, 0),
        (Policy::Eager, Some(true), 0xA5),
        (Policy::Lazy, Some(false), 0),
    ] {
        let options = SimOptions::new(Profile::h200()).policy(policy);
        let bench = bench_with(match poison {
            Some(poison) => options.poison(poison),
            None => options,
        });
        let (host, device) = (bench.host(16), bench.device(16));
        bench.down(host, device, 16);
        bench.sync();
        assert_eq!(read(host, 16), [byte; 16], "{policy} {poison:?}");
    }
}
