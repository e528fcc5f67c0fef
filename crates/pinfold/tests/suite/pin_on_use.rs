//! Buffers that are ordinary memory while they idle, and page-locked while they are used.

use crate::common::{Machine, everywhere, options, under_every_policy};
use pinfold::buffer::HostBuffer;
use pinfold::kernels::dot::Dot;
use pinfold::memory::Unpinned;
use pinfold::pool::{PinOnUse, PoolOptions};
use pinfold::{Device, Error, Memory, Platform};
use pinfold_decorate::{Call, Counted, Faulty, Hooked};
use pinfold_hal_sim::Policy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LEN: usize = 40_000;
const BYTES: u64 = 4 * LEN as u64;
const LIMIT: Duration = Duration::from_secs(60);

/// Memory whose larger buffers are page-locked on use, unpinned only when asked to.
fn memory(device: &Device, budget_bytes: Option<u64>) -> Memory {
    with_idle_after(device, budget_bytes, Duration::from_secs(3600))
}

fn with_idle_after(device: &Device, budget_bytes: Option<u64>, idle_after: Duration) -> Memory {
    let mut options = PoolOptions::default();
    options.budget_bytes = budget_bytes;
    options.pin_on_use = Some(PinOnUse {
        idle_after,
        least_bytes: 64 << 10,
    });
    Memory::pooled(std::slice::from_ref(device), &options).unwrap()
}

fn held(bytes: u64) -> u64 {
    bytes.next_multiple_of(4096)
}

fn pinned_bytes(memory: &Memory) -> u64 {
    memory.pool_stats().unwrap()[0].pinned_bytes
}

fn number(salt: u32) -> impl Fn(usize) -> u32 {
    move |i| (i as u32).wrapping_mul(2_654_435_761) ^ salt
}

#[test]
fn contents_and_address_stay_and_the_budget_goes_down_and_up() {
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = memory(&device, Some(1 << 30));
        let stream = device.stream().unwrap();
        let mut on_device = memory.device(LEN).unwrap();
        let mut buffer = memory.exchange::<u32>(LEN).unwrap();
        buffer
            .iter_mut()
            .enumerate()
            .for_each(|(i, v)| *v = number(1)(i));
        let small = memory.exchange::<u32>(100).unwrap();
        let (start, all) = (buffer.as_ptr(), pinned_bytes(&memory));
        for round in 0..3 {
            let unpinned = memory.unpin_idle(Duration::ZERO);
            assert_eq!((unpinned.blocks, unpinned.bytes), (1, held(BYTES)));
            assert_eq!(memory.unpin_idle(Duration::ZERO), Unpinned::default());
            assert!(!buffer.is_pinned() && small.is_pinned());
            assert_eq!(memory.stats().unpinned_bytes, held(BYTES));
            assert_eq!(pinned_bytes(&memory), all - held(BYTES));
            assert!(
                buffer
                    .iter()
                    .enumerate()
                    .all(|(i, v)| *v == number(1 + round)(i))
            );
            // The host goes on using it.
            buffer
                .iter_mut()
                .enumerate()
                .for_each(|(i, v)| *v = number(2 + round)(i));
            buffer = stream
                .upload(buffer, &mut on_device)
                .unwrap()
                .wait()
                .unwrap();
            assert!(buffer.is_pinned());
            assert_eq!(
                (pinned_bytes(&memory), memory.stats().unpinned_bytes),
                (all, 0)
            );
            memory.unpin_idle(Duration::ZERO);
            buffer.fill(0);
            buffer = stream.download(&on_device, buffer).unwrap().wait().unwrap();
            assert_eq!(buffer.as_ptr(), start);
        }
        memory.unpin_idle(Duration::ZERO);
        drop((buffer, small));
        memory.trim(0).unwrap();
        assert_eq!(
            (pinned_bytes(&memory), memory.stats().unpinned_bytes),
            (0, 0)
        );
    });
}

#[test]
fn registered_memory_is_ordinary_while_it_idles() {
    under_every_policy(1, |machine| {
        let device = machine.device(0);
        let memory = Memory::unpooled(std::slice::from_ref(&device)).unwrap();
        let stream = device.stream().unwrap();
        let mut on_device = memory.device(LEN).unwrap();
        let buffer = memory
            .register((0..LEN).map(number(3)).collect::<Vec<_>>())
            .unwrap();
        assert_eq!(
            memory.unpin_idle(Duration::from_secs(3600)),
            Unpinned::default()
        );
        assert_eq!(memory.unpin_idle(Duration::ZERO).bytes, BYTES);
        assert_eq!(machine.sim.live().registered_bytes, 0);
        let flight = stream.upload(buffer, &mut on_device).unwrap();
        assert_eq!(machine.sim.live().registered_bytes, BYTES);
        let mut buffer = flight.wait().unwrap();
        buffer.as_mut_slice().fill(0);
        memory.unpin_idle(Duration::ZERO);
        let buffer = stream.download(&on_device, buffer).unwrap().wait().unwrap();
        memory.unpin_idle(Duration::ZERO);
        // Given back while it is ordinary memory, and dropped so.
        let data = buffer.into_inner().unwrap().unwrap();
        assert!(data.iter().copied().eq((0..LEN).map(number(3))));
        let buffer = memory.register(data).unwrap();
        memory.unpin_idle(Duration::ZERO);
        drop(buffer);
        // What two buffers share stays.
        let shared: Arc<[u32]> = vec![1; LEN].into();
        let both = [(); 2].map(|()| memory.register(shared.clone()).unwrap());
        assert_eq!(memory.unpin_idle(Duration::ZERO), Unpinned::default());
        let [one, other] = both;
        drop(one);
        assert_eq!(memory.unpin_idle(Duration::ZERO).blocks, 1);
        drop(other);
    });
}

#[test]
fn what_a_device_uses_is_not_unpinned() {
    under_every_policy(1, |machine| {
        let device = machine.device(0);
        let memory = memory(&device, None);
        let stream = device.stream().unwrap();
        let mut on_device = memory.device(LEN).unwrap();
        let mut buffer = memory.exchange::<u32>(LEN).unwrap();
        for round in 0..4 {
            buffer
                .iter_mut()
                .enumerate()
                .for_each(|(i, v)| *v = number(round)(i));
            let up = stream.upload(buffer, &mut on_device).unwrap();
            let unpinned = memory.unpin_idle(Duration::ZERO).blocks;
            assert!(unpinned == 0 || up.is_done().unwrap());
            buffer = up.wait().unwrap();
            buffer.fill(0);
            let down = stream.download(&on_device, buffer).unwrap();
            let unpinned = memory.unpin_idle(Duration::ZERO).blocks;
            assert!(unpinned == 0 || down.is_done().unwrap());
            // Dropped in flight, it is nobody's to unpin.
            let registered = memory.register(vec![0u32; LEN]).unwrap();
            drop(stream.upload(registered, &mut on_device).unwrap());
            memory.unpin_idle(Duration::ZERO);
            buffer = down.wait().unwrap();
            assert!(
                buffer
                    .iter()
                    .enumerate()
                    .all(|(i, v)| *v == number(round)(i))
            );
        }
    });
}

#[test]
fn idle_buffers_are_unpinned_when_memory_is_asked_for() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = with_idle_after(&device, None, Duration::ZERO);
    let buffer = memory.zero_copy::<u32>(LEN).unwrap();
    let other = memory.zero_copy::<u32>(LEN).unwrap();
    assert!(!buffer.is_pinned());
    memory.collect().unwrap();
    assert!(!other.is_pinned());
    assert_eq!(pinned_bytes(&memory), 0);
    drop((buffer, other, memory, device));
    machine.check_clean();
}

#[test]
fn a_use_without_room_in_the_budget_gives_the_buffer_back_as_it_was() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = memory(&device, Some(held(BYTES) + 4096));
    let stream = device.stream().unwrap();
    let mut on_device = memory.device(LEN).unwrap();
    let mut buffer = memory.exchange::<u32>(LEN).unwrap();
    buffer
        .iter_mut()
        .enumerate()
        .for_each(|(i, v)| *v = number(7)(i));
    memory.unpin_idle(Duration::ZERO);
    let in_the_way = memory.strict().exchange::<u32>(LEN).unwrap();
    let refused = stream.upload(buffer, &mut on_device).unwrap_err();
    assert!(
        matches!(*refused.error, Error::PoolFull { .. }),
        "{}",
        refused.error
    );
    let buffer = refused.buffer.wait().unwrap();
    assert!(!buffer.is_pinned());
    assert!(buffer.iter().enumerate().all(|(i, v)| *v == number(7)(i)));
    drop(in_the_way);
    let buffer = stream
        .upload(buffer, &mut on_device)
        .unwrap()
        .wait()
        .unwrap();
    assert!(buffer.is_pinned());
    drop((buffer, on_device, stream, memory, device));
    machine.check_clean();
}

#[test]
fn kernels_are_given_the_addresses_that_memory_has_now() {
    let machine = Machine::new(options().moving_addresses(), Policy::Lazy);
    let device = machine.device(0);
    let memory = memory(&device, None);
    let stream = device.stream().unwrap();
    let mut dot = Dot::load(&memory, &stream).unwrap();
    let mut cell = memory.scalar_cell().unwrap();
    let mut own = memory.zero_copy::<f32>(LEN).unwrap();
    own.fill(2.0);
    let (mut own, mut theirs) = (
        own.lend(),
        memory.register(vec![3.0f32; LEN]).unwrap().lend(),
    );
    for _ in 0..3 {
        assert_eq!(memory.unpin_idle(Duration::ZERO).blocks, 2);
        let expected = dot.run(&stream, &own, &theirs, &mut cell).unwrap();
        let [sum, _] = cell.wait(expected, LIMIT).unwrap();
        assert_eq!(sum, 6.0 * LEN as f64);
        stream.synchronize().unwrap();
    }
    // An address that somebody has stays good.
    memory.unpin_idle(Duration::ZERO);
    let pointer = own.device_pointer(&device, 5).unwrap().address();
    assert_eq!(
        own.device_pointer(&device, 0).unwrap().address() + 20,
        pointer
    );
    assert_eq!(memory.unpin_idle(Duration::ZERO), Unpinned::default());
    assert_eq!(own.device_pointer(&device, 5).unwrap().address(), pointer);
    own = own.wait().unwrap().lend();
    theirs = theirs.wait().unwrap().lend();
    drop((own, theirs, cell, dot, stream, memory, device));
    machine.check_clean();
}

#[test]
fn two_threads_that_use_a_buffer_at_once_page_lock_it_once() {
    for seed in 0..20 {
        let machine = Machine::new(options(), Policy::Seeded(seed));
        let counted = Arc::new(Hooked::new(machine.sim.clone(), Counted::new()));
        let platform = Platform::with_driver(counted.clone());
        let device = platform.device(0).unwrap();
        let memory = memory(&device, None);
        let mut buffer = memory.zero_copy::<f32>(LEN).unwrap();
        buffer.fill(1.0);
        let buffer = buffer.lend();
        let mut workers: Vec<_> = (0..2)
            .map(|_| {
                let stream = device.stream().unwrap();
                let dot = Dot::load(&memory, &stream).unwrap();
                (stream, dot, memory.scalar_cell().unwrap())
            })
            .collect();
        for _ in 0..5 {
            assert_eq!(memory.unpin_idle(Duration::ZERO).blocks, 1);
            let calls = || counted.hook().made().get(&Call::HostRegister).copied();
            let before = calls().unwrap_or(0);
            std::thread::scope(|scope| {
                for (stream, dot, cell) in &mut workers {
                    let buffer = &buffer;
                    scope.spawn(move || {
                        let expected = dot.run(stream, buffer, buffer, &mut *cell).unwrap();
                        let [sum, _] = cell.wait(expected, LIMIT).unwrap();
                        assert_eq!(sum, LEN as f64);
                        stream.synchronize().unwrap();
                    });
                }
            });
            assert_eq!(calls().unwrap_or(0), before + 1);
        }
        drop((workers, buffer, memory, device, platform, counted));
        machine.check_clean();
    }
}

#[test]
fn threads_that_use_buffers_and_one_that_unpins_them_all_do_not_meet() {
    const ROUNDS: u32 = 30;
    for policy in [
        Policy::Eager,
        Policy::Lazy,
        Policy::Seeded(1),
        Policy::Seeded(2),
    ] {
        let machine = Machine::new(options().moving_addresses(), policy);
        let device = machine.device(0);
        let memory = memory(&device, None);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sweeper = scope.spawn(|| {
                let mut unpinned = 0;
                while !is_over.load(Ordering::Relaxed) {
                    unpinned += memory.unpin_idle(Duration::ZERO).blocks;
                    std::thread::yield_now();
                }
                unpinned
            });
            let workers: Vec<_> = (0..3)
                .map(|worker| {
                    let (memory, device) = (&memory, &device);
                    scope.spawn(move || {
                        let stream = device.stream().unwrap();
                        let mut on_device = memory.device(LEN).unwrap();
                        let mut buffer = memory.exchange::<u32>(LEN).unwrap();
                        let (mut data, mut unpinned) = (vec![0u32; LEN], 0);
                        for round in 0..ROUNDS {
                            let value = number(worker << 16 | round);
                            buffer
                                .iter_mut()
                                .enumerate()
                                .for_each(|(i, v)| *v = value(i));
                            let up = stream.upload(buffer, &mut on_device).unwrap();
                            let down = memory.register(data).unwrap();
                            let down = stream.download(&on_device, down).unwrap();
                            data = down.wait().unwrap().into_inner().unwrap().unwrap();
                            assert!(data.iter().enumerate().all(|(i, v)| *v == value(i)));
                            buffer = up.wait().unwrap();
                            unpinned += memory.unpin_idle(Duration::ZERO).blocks;
                        }
                        unpinned
                    })
                })
                .collect();
            let by_workers: u64 = workers.into_iter().map(|w| w.join().unwrap()).sum();
            is_over.store(true, Ordering::Relaxed);
            assert!(by_workers + sweeper.join().unwrap() > 0);
        });
        drop((memory, device));
        machine.check_clean();
    }
}

#[test]
fn what_the_driver_does_not_let_go_of_stays_page_locked_and_serves() {
    // One registration for the caller's memory; two for a segment across a cut.
    const LARGE: usize = 66 << 20;
    for refused in 1..=3 {
        let machine = Machine::new(options(), Policy::Lazy);
        let plan = format!("host-unregister#{refused}:InvalidValue");
        let faulty = Faulty::new(plan.parse().unwrap());
        let platform = Platform::with_driver(Arc::new(Hooked::new(machine.sim.clone(), faulty)));
        let device = platform.device(0).unwrap();
        let memory = memory(&device, None);
        let stream = device.stream().unwrap();
        let mut on_device = memory.device::<u8>(LARGE).unwrap();
        let mut own = memory.exchange::<u8>(LARGE).unwrap();
        own.fill(9);
        let theirs = memory.register(vec![4u8; 100]).unwrap();
        let all = memory
            .stats()
            .kinds
            .values()
            .map(|kind| kind.blocks)
            .sum::<u64>();
        let unpinned = memory.unpin_idle(Duration::ZERO);
        let pinned = pinned_bytes(&memory);
        assert!(unpinned.blocks < all && unpinned.bytes < LARGE as u64 + 100);
        let of_own = memory.stats().unpinned_bytes - u64::from(!theirs.is_pinned()) * 100;
        assert_eq!(
            pinned + of_own,
            held(LARGE as u64),
            "what is unpinned is off the budget"
        );
        let own = stream.upload(own, &mut on_device).unwrap().wait().unwrap();
        assert!(own.is_pinned() && own.iter().all(|v| *v == 9));
        assert_eq!(pinned_bytes(&memory), held(LARGE as u64));
        assert_eq!(theirs.into_inner().unwrap().unwrap(), [4u8; 100]);
        drop((own, on_device, stream));
        memory.collect().unwrap();
        assert_eq!((pinned_bytes(&memory), memory.stats().lost_bytes), (0, 0));
        drop((memory, device, platform));
        machine.check_clean();
    }
}
