//! Memory near devices: on hosts with several NUMA nodes, and on those with one.

use crate::common::{Machine, once_and_on_real_devices, options};
use pinfold::pool::numa::{Nodes, SimulatedNodes};
use pinfold::pool::{NumaBinding, NumaNode, Pool, PoolOptions};
use pinfold::{Device, Error, Memory, MemoryKind, Platform};
use pinfold_decorate::{Faulty, Hooked};
use pinfold_hal::{BackendOps, DriverError, HostAddr};
use pinfold_hal_sim::{Policy, Sim, SimOptions};
use pinfold_model::Profile;
use std::sync::Arc;

fn dual() -> SimOptions {
    SimOptions::new(Profile::shipped("dual").unwrap()).split_addresses(true)
}

/// A host with two nodes and a device on each.
struct Host {
    sim: Arc<Sim>,
    nodes: Arc<SimulatedNodes>,
    devices: Vec<Device>,
}

impl Host {
    fn new(policy: Policy) -> Self {
        let sim = Arc::new(Sim::new(dual().policy(policy)));
        let nodes = Arc::new(SimulatedNodes::new(2));
        let platform = Platform::with_nodes(sim.clone(), nodes.clone());
        Host {
            sim,
            nodes,
            devices: platform.devices().unwrap(),
        }
    }

    fn memory(&self) -> Memory {
        Memory::for_devices(&self.devices).unwrap()
    }

    fn node_of<T>(&self, memory: &[T]) -> Option<u32> {
        let start = HostAddr(memory.as_ptr().expose_provenance());
        self.nodes.nodes_of(&[start])[0]
    }

    fn check_clean(self) {
        drop(self.devices);
        assert_eq!(self.sim.live(), Default::default());
        assert_eq!(self.sim.hazards(), []);
        assert_eq!(self.nodes.ranges(), 0);
    }
}

const SIZES: [usize; 5] = [1, 3000, 70_000, 1 << 20, 9 << 20];

#[test]
fn r25_memory_near_a_device_is_never_served_from_another_nodes_cache() {
    for policy in [Policy::Eager, Policy::Lazy, Policy::Seeded(1)] {
        let host = Host::new(policy);
        let memory = host.memory();
        let near: Vec<Memory> = (host.devices.iter())
            .map(|device| memory.near(device).unwrap())
            .collect();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            // Frees what is near either device, on a thread that only asks for memory near the
            // first one.
            let first = &near[0];
            scope.spawn(move || {
                for buffer in receiver {
                    drop(buffer);
                    drop(first.zero_copy::<u8>(3000).unwrap());
                }
            });
            for round in 0..40 {
                for (node, memory) in near.iter().enumerate() {
                    let buffer = memory.zero_copy::<u8>(SIZES[round % SIZES.len()]).unwrap();
                    assert_eq!(host.node_of(&buffer), Some(node as u32), "{policy}");
                    sender.send(buffer).unwrap();
                }
            }
            drop(sender);
        });
        for (node, memory) in near.iter().enumerate() {
            for bytes in SIZES {
                let buffer = memory.exchange::<u8>(bytes).unwrap();
                assert_eq!(host.node_of(&buffer), Some(node as u32), "{policy}");
            }
            let [cached, _] = memory.pool_stats().unwrap();
            assert_eq!(cached.numa_node, Some(node as u32));
            assert_eq!(cached.blocks, 0, "{policy}");
            assert_eq!(cached.misplaced_bytes, 0);
        }
        drop((memory, near));
        host.check_clean();
    }
}

#[test]
fn r25_a_buffer_near_one_device_is_used_by_all() {
    for policy in [Policy::Eager, Policy::Lazy, Policy::Seeded(2)] {
        let host = Host::new(policy);
        let memory = host.memory().near(&host.devices[1]).unwrap();
        for device in &host.devices {
            let stream = device.stream().unwrap();
            let mut there = memory.device_on::<u32>(device, 5000).unwrap();
            let mut up = memory.upload::<u32>(5000).unwrap();
            up.write_each(|i| i as u32);
            drop(stream.upload(up, &mut there).unwrap());
            let down = memory.download(5000).unwrap();
            let down = stream.download(&there, down).unwrap().wait().unwrap();
            assert!(down.iter().enumerate().all(|(i, v)| *v == i as u32));
        }
        drop(memory);
        host.check_clean();
    }
}

#[test]
fn r25_without_near_memory_is_on_the_first_devices_node() {
    let mut host = Host::new(Policy::Eager);
    host.devices.reverse();
    let memory = host.memory();
    let buffer = memory.zero_copy::<u64>(100).unwrap();
    assert_eq!(host.node_of(&buffer), Some(1));
    drop((buffer, memory));
    host.check_clean();
}

#[test]
fn r25_the_driver_allocates_write_combined_memory_near_the_device() {
    let host = Host::new(Policy::Eager);
    let memory = host.memory().of_kind(MemoryKind::WriteCombined).strict();
    for (node, device) in host.devices.iter().enumerate() {
        let memory = memory.near(device).unwrap();
        drop(memory.upload::<u8>(5000).unwrap());
        let [cached, combined] = memory.pool_stats().unwrap();
        assert_eq!(combined.numa_node, Some(node as u32));
        assert_eq!(combined.numa_binding, NumaBinding::Bound);
        assert!(combined.pinned_bytes > 0 && combined.misplaced_bytes == 0);
        assert_eq!(cached.numa_binding, NumaBinding::Unmade);
    }
    assert_eq!(host.nodes.ranges(), 2);
    drop(memory);
    host.check_clean();
}

#[test]
fn r25_misplaced_memory_shows_in_the_books_for_as_long_as_it_is_there() {
    let host = Host::new(Policy::Eager);
    let memory = host.memory().near(&host.devices[1]).unwrap();
    host.nodes.misplace(true);
    let combined = memory.of_kind(MemoryKind::WriteCombined);
    drop((
        memory.zero_copy::<u8>(150 << 20).unwrap(),
        combined.upload::<u8>(3 << 20).unwrap(),
    ));
    for stats in memory.pool_stats().unwrap() {
        assert_eq!(stats.numa_binding, NumaBinding::Bound);
        assert_eq!(stats.misplaced_bytes, stats.pinned_bytes);
        assert!(stats.misplaced_bytes > 0);
    }
    host.nodes.misplace(false);
    // Memory of the other node is another pool's, and in its place.
    let other = memory.near(&host.devices[0]).unwrap();
    drop(other.zero_copy::<u8>(5000).unwrap());
    assert_eq!(other.pool_stats().unwrap()[0].misplaced_bytes, 0);
    memory.trim(0).unwrap();
    drop(memory.zero_copy::<u8>(5000).unwrap());
    for stats in memory.pool_stats().unwrap() {
        assert_eq!(stats.misplaced_bytes, 0);
    }
    drop((memory, combined, other));
    host.check_clean();
}

#[test]
fn trimming_counts_the_pools_of_all_nodes() {
    let host = Host::new(Policy::Eager);
    let memory = host.memory();
    let near = |n: usize| memory.near(&host.devices[n]).unwrap();
    for n in [0, 1] {
        drop(near(n).zero_copy::<u8>(30 << 20).unwrap());
    }
    let pinned_bytes = || [0, 1].map(|n| near(n).pool_stats().unwrap()[0].pinned_bytes);
    assert!(pinned_bytes().iter().all(|bytes| *bytes >= 30 << 20));
    memory.trim(40 << 20).unwrap();
    assert!(pinned_bytes().iter().sum::<u64>() <= 40 << 20);
    memory.trim(0).unwrap();
    assert_eq!(pinned_bytes(), [0, 0]);
    drop(memory);
    host.check_clean();
}

#[test]
fn a_pool_lies_where_its_options_say() {
    let host = Host::new(Policy::Eager);
    for (numa, node, binding) in [
        (NumaNode::OfDevice, Some(0), NumaBinding::Bound),
        (NumaNode::Fixed(1), Some(1), NumaBinding::Bound),
        (NumaNode::Fixed(7), Some(7), NumaBinding::NoSuchNode),
        (NumaNode::Any, None, NumaBinding::Any),
    ] {
        let mut options = PoolOptions::default();
        options.numa = numa;
        let pool = Pool::new(&host.devices, &options).unwrap();
        assert_eq!(pool.stats().numa_binding, NumaBinding::Unmade);
        let block = pool.take(5000).unwrap();
        let stats = pool.stats();
        assert_eq!((stats.numa_node, stats.numa_binding), (node, binding));
        let bound = binding == NumaBinding::Bound;
        assert_eq!(host.node_of(block.as_slice()), node.filter(|_| bound));
        // With one node for all devices, near is the same wherever one asks.
        let memory = Memory::pooled(&host.devices, &options).unwrap();
        let near = memory.near(&host.devices[1]).unwrap();
        let buffer = near.zero_copy::<u8>(5000).unwrap();
        if numa != NumaNode::OfDevice {
            assert_eq!(memory.pool_stats(), near.pool_stats());
            assert_eq!(memory.pool_stats().unwrap()[0].blocks, 1);
        }
        drop(buffer);
    }
    host.check_clean();
}

#[test]
fn a_device_that_is_none_of_the_memorys_is_an_error() {
    let host = Host::new(Policy::Eager);
    let memory = Memory::new(&host.devices[0]);
    let error = memory.near(&host.devices[1]).unwrap_err();
    assert!(
        matches!(error, Error::UnknownDevice { index: 1, .. }),
        "{error}"
    );
    // Without pools there is nothing to choose from, and that is no error.
    let plain = Memory::unpooled(&host.devices).unwrap();
    let near = plain.near(&host.devices[1]).unwrap();
    drop(near.zero_copy::<u8>(100).unwrap());
    assert_eq!(near.pool_stats(), None);
    drop((memory, plain, near));
    host.check_clean();
}

#[test]
fn a_host_with_one_node_needs_no_binding() {
    let sim = Arc::new(Sim::new(options()));
    let nodes = Arc::new(SimulatedNodes::new(1));
    let platform = Platform::with_nodes(sim, nodes.clone());
    let pool = Pool::new(&platform.devices().unwrap(), &PoolOptions::default()).unwrap();
    let block = pool.take(5000).unwrap();
    let stats = pool.stats();
    assert_eq!(stats.numa_node, Some(0));
    assert_eq!(stats.numa_binding, NumaBinding::OneNode);
    assert_eq!((stats.misplaced_bytes, nodes.ranges()), (0, 0));
    drop(block);
}

#[test]
fn a_simulated_host_has_the_nodes_that_its_devices_are_on() {
    for (options, expected) in [
        (options(), NumaBinding::OneNode),
        (dual(), NumaBinding::Bound),
    ] {
        let machine = Machine::new(options, Policy::Eager);
        let pool = Pool::new(&[machine.device(0)], &PoolOptions::default()).unwrap();
        drop(pool.take(5000).unwrap());
        assert_eq!(pool.stats().numa_binding, expected);
        drop(pool);
        machine.check_clean();
    }
}

/// The nodes of a host on which the process may not bind anything.
struct Forbidden;

impl Nodes for Forbidden {
    fn numbers(&self) -> &[u32] {
        &[0, 1]
    }

    fn bind(&self, _: HostAddr, _: u64, _: u32) -> NumaBinding {
        NumaBinding::Refused
    }

    fn allocate_near(
        &self,
        _: u32,
        _: u64,
        allocate: &mut dyn FnMut() -> Result<HostAddr, DriverError>,
    ) -> (Result<HostAddr, DriverError>, NumaBinding) {
        (allocate(), NumaBinding::Refused)
    }

    fn run_near(&self, _: u32) {}

    /// The first half of everything is on node 1.
    fn nodes_of(&self, pages: &[HostAddr]) -> Vec<Option<u32>> {
        let half = pages.len() / 2;
        (0..pages.len())
            .map(|n| Some(u32::from(n < half)))
            .collect()
    }
}

#[test]
fn where_binding_is_refused_memory_is_served_and_the_books_say_so() {
    let sim = Arc::new(Sim::new(dual()));
    let platform = Platform::with_nodes(sim, Arc::new(Forbidden));
    let memory = Memory::new(&platform.device(0).unwrap());
    let combined = memory.of_kind(MemoryKind::WriteCombined).strict();
    let kept = (
        memory.zero_copy::<u8>(7 << 20).unwrap(),
        combined.upload::<u8>(7 << 20).unwrap(),
    );
    for stats in memory.pool_stats().unwrap() {
        assert_eq!(stats.numa_binding, NumaBinding::Refused);
        assert_eq!(stats.misplaced_bytes, stats.pinned_bytes / 2);
    }
    drop(kept);
}

#[test]
fn a_driver_that_cannot_tell_its_devices_now_may_later() {
    let sim = Arc::new(Sim::new(dual()));
    // The first call is for the device below. The pool asks for the nodes, and once more after it
    // had threads give their caches back.
    let plan = "device-info#2:OutOfMemory,device-info#3:OutOfMemory";
    let faulty = Faulty::new(plan.parse().unwrap());
    let platform = Platform::with_driver(Arc::new(Hooked::new(sim.clone(), faulty)));
    let pool = Pool::new(&[platform.device(0).unwrap()], &PoolOptions::default()).unwrap();
    assert!(pool.take(4 << 20).is_err());
    assert_eq!(pool.stats().pinned_bytes, 0);
    drop(pool.take(5000).unwrap());
    assert_eq!(pool.stats().numa_binding, NumaBinding::Bound);
    drop((pool, platform));
    assert_eq!(sim.live(), Default::default());
}

#[test]
fn memory_of_a_machine_lies_where_the_books_say() {
    once_and_on_real_devices(1, |place| {
        let pool = Pool::new(&[place.device(0)], &PoolOptions::default()).unwrap();
        drop(pool.take(80 << 20).unwrap());
        let stats = pool.stats();
        assert_ne!(stats.numa_binding, NumaBinding::Unmade, "{}", place.name);
        if stats.numa_binding == NumaBinding::Bound {
            assert_eq!(stats.misplaced_bytes, 0, "{}", place.name);
        }
    });
}
