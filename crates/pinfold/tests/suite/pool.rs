//! What the pool promises. Names that begin with `r` and a number are kinds of reports that users
//! of other pools filed.

use crate::common::{Machine, everywhere, once_and_on_real_devices, options};
use pinfold::pool::{Pool, PoolOptions, WhenFull};
use pinfold::{Device, Error, Memory, MemoryKind, Platform};
use pinfold_decorate::{Call, Counted, Hooked};
use pinfold_hal_sim::{Policy, Sim};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn limited(bytes: u64) -> PoolOptions {
    let mut options = PoolOptions::default();
    options.budget_bytes = Some(bytes);
    options
}

fn pool_with(machine: &Machine, options: &PoolOptions) -> Pool {
    Pool::new(&[machine.device(0)], options).unwrap()
}

/// Numbers without a pattern, the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = pinfold::kernels::splitmix64(self.0);
        self.0 % end
    }
}

#[test]
fn r01_a_block_takes_what_it_was_asked_for_and_hardly_more() {
    let machine = Machine::new(options(), Policy::Eager);
    let pool = pool_with(&machine, &PoolOptions::default());
    let mut numbers = Numbers(1);
    for _ in 0..300 {
        let log2 = 1 + numbers.below(23);
        let bytes = 1 + numbers.below(1 << log2);
        let block = pool.take(bytes).unwrap();
        let stats = pool.stats();
        let waste = stats.held_bytes - stats.requested_bytes;
        assert_eq!(stats.requested_bytes, bytes);
        if bytes > 1 << 20 {
            assert!(waste < 4096, "{bytes}: {waste}");
        } else {
            assert!(8 * waste <= bytes || waste < 64, "{bytes}: {waste}");
        }
        assert_eq!(block.len() as u64, bytes);
        assert_eq!(block.addr() % 64, 0);
    }
    drop(pool);
    machine.check_clean();
}

/// Runs itself in a process of its own, where nobody else takes memory.
#[test]
fn r02_trimming_gives_memory_back_to_the_system() {
    const NAME: &str = "pool::r02_trimming_gives_memory_back_to_the_system";
    const INSIDE: &str = "PINFOLD_TEST_TRIM";
    if std::env::var_os(INSIDE).is_none() {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", NAME, "--nocapture"]);
        let output = process.env(INSIDE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        return;
    }
    let resident_bytes = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        4096 * pages
    };
    let machine = Machine::new(options(), Policy::Eager);
    let pool = pool_with(&machine, &PoolOptions::default());
    drop(pool.take(1).unwrap());
    pool.trim(0);
    let before = resident_bytes();
    let mut blocks: Vec<_> = (0..64).map(|_| pool.take(3 << 20).unwrap()).collect();
    blocks.extend((0..64).map(|_| pool.take(100_000).unwrap()));
    assert!(resident_bytes() > before + (100 << 20));
    let stats = pool.stats();
    assert!(stats.blocks == 128 && stats.cached_bytes == stats.pinned_bytes - stats.held_bytes);
    drop(blocks);
    assert!(pool.stats().cached_bytes > 100 << 20);
    pool.trim(0);
    assert_eq!(pool.stats().pinned_bytes, 0);
    assert_eq!(machine.sim.live().registered_bytes, 0);
    let after = resident_bytes();
    assert!(after < before + (8 << 20), "{before} before, {after} after");
}

#[test]
fn r02_idle_memory_goes_back_by_itself() {
    let machine = Machine::new(options(), Policy::Eager);
    let mut options = PoolOptions::default();
    options.idle_after = Duration::ZERO;
    let pool = pool_with(&machine, &options);
    let kept = pool.take(2 << 20).unwrap();
    drop(pool.take(64 << 20).unwrap());
    let until = Instant::now() + Duration::from_secs(60);
    while pool.stats().pinned_bytes > 4 << 20 {
        drop(pool.take(2 << 20).unwrap());
        assert!(Instant::now() < until, "{:?}", pool.stats());
    }
    drop(kept);
}

#[test]
fn r03_a_registration_that_fails_half_way_leaves_nothing() {
    let machine = Machine::new(options().register_limit(1 << 30, 2), Policy::Eager);
    let pool = pool_with(&machine, &PoolOptions::default());
    // Three chunks, of which the driver takes two.
    let error = pool.take(150 << 20).unwrap_err();
    assert!(matches!(error, Error::Driver { .. }), "{error}");
    assert_eq!(machine.sim.live().registered_bytes, 0);
    assert_eq!(pool.stats().pinned_bytes, 0);
    drop(pool.take(100 << 20).unwrap());
}

/// A machine whose driver calls are counted.
fn counted() -> (Arc<Hooked<Counted>>, Device) {
    let sim = Arc::new(Sim::new(options().policy(Policy::Lazy)));
    let driver = Arc::new(Hooked::new(sim, Counted::default()));
    let device = Platform::with_driver(driver.clone()).device(0).unwrap();
    (driver, device)
}

#[test]
fn r15_r16_in_the_steady_state_neither_taking_nor_freeing_calls_the_driver() {
    let (driver, device) = counted();
    let memory = Memory::pooled(&[device], &PoolOptions::default()).unwrap();
    let step = || {
        let small: Vec<_> = (1..60)
            .map(|i| memory.upload::<u8>(i * i * 99).unwrap())
            .collect();
        let large: Vec<_> = (1..4)
            .map(|i| memory.zero_copy::<u64>(i << 18).unwrap())
            .collect();
        drop((small, large));
    };
    step();
    let before = driver.hook().total();
    (0..100).for_each(|_| step());
    assert_eq!(driver.hook().total(), before);
}

#[test]
fn r16_dropping_a_buffer_in_flight_asks_the_device_only_now_and_then() {
    let (driver, device) = counted();
    let memory = Memory::pooled(std::slice::from_ref(&device), &PoolOptions::default()).unwrap();
    let stream = device.stream().unwrap();
    let mut there = memory.device::<u8>(1000).unwrap();
    let mut round = || {
        drop(
            stream
                .upload(memory.upload(1000).unwrap(), &mut there)
                .unwrap(),
        )
    };
    (0..200).for_each(|_| round());
    let asked = |call| driver.hook().made().get(&call).copied().unwrap_or(0);
    let questions = || {
        [
            Call::StreamQuery,
            Call::EventQuery,
            Call::EventRecord,
            Call::EventCreate,
        ]
        .map(asked)
        .iter()
        .sum::<u64>()
    };
    let before = questions();
    (0..320).for_each(|_| round());
    let after = questions();
    assert!(
        after - before <= 320 / 32 * 4,
        "{} for 320 drops",
        after - before
    );
}

#[test]
fn r17_a_stream_that_is_stuck_holds_only_its_own_blocks() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::pooled(std::slice::from_ref(&device), &limited(96 << 20))
        .unwrap()
        .strict();
    let (stuck, busy) = (device.stream().unwrap(), device.stream().unwrap());
    let mut target = memory.device::<u8>(64 << 20).unwrap();
    // Virtual time does not reach its end below.
    for _ in 0..4000 {
        stuck.fill(&mut target, 1).unwrap();
    }
    drop(
        stuck
            .upload(memory.upload(64 << 20).unwrap(), &mut target)
            .unwrap(),
    );
    let mut small = memory.device::<u8>(8 << 20).unwrap();
    for _ in 0..40 {
        // 320 MiB in turn through the 32 MiB that are left.
        let flight = busy
            .upload(memory.upload(8 << 20).unwrap(), &mut small)
            .unwrap();
        drop(flight);
        busy.synchronize().unwrap();
    }
    assert_eq!(memory.stats().retired_bytes / (64 << 20), 1);
    stuck.synchronize().unwrap();
    memory.collect().unwrap();
    assert_eq!(memory.stats().retired_bytes, 0);
}

#[test]
fn r18_memory_is_reused_only_after_its_last_use_on_every_stream() {
    everywhere(1, |place| {
        let device = place.device(0);
        // Room for a few buffers, so that every round reuses some.
        let memory = Memory::pooled(std::slice::from_ref(&device), &limited(6 << 20)).unwrap();
        let streams = [device.stream().unwrap(), device.stream().unwrap()];
        let mut kept = Vec::new();
        for round in 0..24u32 {
            let n = 20_000 + 1000 * (round as usize % 5);
            let mut up = memory.upload::<u32>(n).unwrap();
            up.write_each(|i| i as u32 ^ round << 20);
            let mut targets = [memory.device(n).unwrap(), memory.device(n).unwrap()];
            let [first, second] = &mut targets;
            let up = streams[round as usize % 2].upload(up, first).unwrap();
            drop(streams[1 - round as usize % 2].upload(up, second).unwrap());
            kept.push((round, n, targets));
        }
        for (round, n, targets) in kept {
            for target in &targets {
                let down = memory.download(n).unwrap();
                let down = streams[0].download(target, down).unwrap().wait().unwrap();
                let right = |(i, v): (usize, &u32)| *v == i as u32 ^ round << 20;
                assert!(
                    down.iter().enumerate().all(right),
                    "{}: {round}",
                    place.name
                );
            }
        }
    });
}

#[test]
fn r20_a_full_pool_names_host_memory_the_bytes_and_the_limit() {
    let machine = Machine::new(options(), Policy::Eager);
    let memory = Memory::pooled(&[machine.device(0)], &limited(8 << 20)).unwrap();
    let kept = memory.upload::<u8>(5 << 20).unwrap();
    let error = memory
        .strict()
        .upload::<u8>(7 << 20)
        .unwrap_err()
        .to_string();
    for word in [
        "host memory, not GPU memory",
        "7.0 MiB",
        "budget of 8.0 MiB",
        "pool.rs",
    ] {
        assert!(error.contains(word), "`{word}` is missing in: {error}");
    }
    // Without `strict` the request steps down, and says so.
    let stepped = memory.upload::<u8>(7 << 20).unwrap();
    assert_eq!(stepped.placement().kind(), MemoryKind::Pageable);
    assert!(stepped.placement().to_string().contains("budget"));
    drop(kept);
    let back = memory.upload::<u8>(7 << 20).unwrap();
    assert_eq!(back.placement().kind(), MemoryKind::PageLocked);
}

#[test]
fn r22_many_small_blocks_take_few_registrations() {
    let (driver, device) = counted();
    let pool = Pool::new(&[device], &PoolOptions::default()).unwrap();
    let blocks: Vec<_> = (0..65_000).map(|_| pool.take(2000).unwrap()).collect();
    let made = driver.hook().made();
    assert!(made[&Call::HostRegister] < 30, "{made:?}");
    assert_eq!(pool.stats().blocks, 65_000);
    drop(blocks);
    assert_eq!(pool.stats().held_bytes, 0);
}

#[test]
fn sizes_that_make_no_sense_are_refused_and_harm_nothing() {
    let machine = Machine::new(options(), Policy::Eager);
    let pool = pool_with(&machine, &PoolOptions::default());
    let mut nothing = pool.take(0).unwrap();
    assert!(nothing.is_empty() && nothing.as_mut_slice().is_empty());
    for bytes in [u64::MAX, u64::MAX / 2, 1 << 60, 1 << 45] {
        assert!(
            matches!(pool.take(bytes), Err(Error::Driver { .. })),
            "{bytes}"
        );
        assert!(pool.reserve(bytes).is_err());
    }
    assert_eq!(pool.stats().pinned_bytes, 0);
    // A budget below one segment of any size.
    let tiny = pool_with(&machine, &limited(1 << 20));
    let error = tiny.take(100).unwrap_err().to_string();
    assert!(error.contains("budget of 1.0 MiB"), "{error}");
    drop(nothing);
    drop((pool, tiny));
    machine.check_clean();
}

#[test]
fn a_full_pool_waits_for_memory_that_comes_back_and_no_longer_than_it_may() {
    let machine = Machine::new(options(), Policy::Eager);
    let mut options = limited(8 << 20);
    options.when_full = WhenFull::Wait(Duration::from_secs(60));
    let pool = pool_with(&machine, &options);
    std::thread::scope(|scope| {
        let held = pool.take(6 << 20).unwrap();
        let waiting = scope.spawn(|| pool.take(5 << 20).map(drop));
        std::thread::sleep(Duration::from_millis(5));
        drop(held);
        waiting.join().unwrap().unwrap();
    });
    options.when_full = WhenFull::Wait(Duration::from_millis(5));
    let pool = pool_with(&machine, &options);
    let _held = pool.take(6 << 20).unwrap();
    let error = pool.take(5 << 20).unwrap_err().to_string();
    assert!(error.contains("in vain"), "{error}");
}

#[test]
fn what_a_thread_keeps_for_itself_does_not_fill_a_pool() {
    let machine = Machine::new(options(), Policy::Eager);
    let pool = pool_with(&machine, &limited(8 << 20));
    let small: Vec<_> = (0..1500).map(|_| pool.take(4096).unwrap()).collect();
    drop(small);
    // Nothing is in use, so all of the budget is there.
    drop(pool.take(8 << 20).unwrap());
    assert_eq!(pool.stats().blocks, 0);
}

#[test]
fn a_full_pool_waits_for_buffers_in_flight() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let mut options = limited(8 << 20);
    options.when_full = WhenFull::Wait(Duration::from_secs(60));
    let memory = Memory::pooled(std::slice::from_ref(&device), &options)
        .unwrap()
        .strict();
    let stream = device.stream().unwrap();
    let mut target = memory.device::<u8>(6 << 20).unwrap();
    for _ in 0..10 {
        let up = memory.upload(6 << 20).unwrap();
        drop(stream.upload(up, &mut target).unwrap());
    }
    assert!(memory.pool_stats().unwrap()[0].pinned_bytes_peak <= 8 << 20);
}

#[test]
fn reserved_memory_is_there_without_the_driver() {
    let (driver, device) = counted();
    let pool = Pool::new(&[device], &PoolOptions::default()).unwrap();
    pool.reserve(100 << 20).unwrap();
    let before = driver.hook().total();
    drop(pool.take(100 << 20).unwrap());
    assert_eq!(driver.hook().total(), before);
}

#[test]
fn what_the_driver_does_not_let_go_of_is_quarantined() {
    use pinfold_decorate::Faulty;
    let sim = Arc::new(Sim::new(options()));
    let faulty = Faulty::new("host-unregister#1:Unknown".parse().unwrap());
    let driver = Arc::new(Hooked::new(sim.clone(), faulty));
    let device = Platform::with_driver(driver).device(0).unwrap();
    let pool = Pool::new(&[device], &PoolOptions::default()).unwrap();
    drop(pool.take(5 << 20).unwrap());
    pool.trim(0);
    let stats = pool.stats();
    assert_eq!((stats.quarantined_bytes, stats.cached_bytes), (6 << 20, 0));
    // Never refunded: it is still page-locked.
    assert_eq!(stats.pinned_bytes, 6 << 20);
    drop(pool.take(5 << 20).unwrap());
    pool.trim(0);
    assert_eq!(pool.stats().pinned_bytes, 6 << 20);
    assert_eq!(sim.live().registered_bytes, 6 << 20);
}

#[test]
fn threads_that_take_and_give_back_across_each_other_never_share_a_byte() {
    const THREADS: u64 = 6;
    let machine = Machine::new(options(), Policy::Eager);
    let pool = pool_with(&machine, &limited(256 << 20));
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS)
        .map(|_| std::sync::mpsc::sync_channel(64))
        .unzip();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (thread, receiver) in (0..THREADS).zip(receivers) {
            let (pool, senders) = (&pool, senders.clone());
            threads.push(scope.spawn(move || {
                let mut numbers = Numbers(thread);
                let mut mine = Vec::new();
                let check = |(mark, block): &(u8, pinfold::pool::PoolBlock<'_>)| {
                    assert!(block.as_slice().iter().all(|b| b == mark));
                };
                for round in 0..1500 {
                    let log2 = 6 + numbers.below(16);
                    let bytes = 1 + numbers.below(1 << log2);
                    let mut block = pool.take(bytes).unwrap();
                    let mark = (thread * 41 + round) as u8;
                    block.as_mut_slice().fill(mark);
                    mine.push((mark, block));
                    if mine.len() > 12 {
                        let at = numbers.below(mine.len() as u64) as usize;
                        let given = mine.swap_remove(at);
                        check(&given);
                        // To whoever has room; here where nobody has.
                        let to = numbers.below(THREADS) as usize;
                        drop(senders[to].try_send(given));
                    }
                    receiver.try_iter().take(3).for_each(|block| check(&block));
                    if round % 500 == 250 {
                        pool.trim(0);
                        pool.set_budget(Some((256 + numbers.below(64)) << 20));
                    }
                }
                mine.iter().for_each(check);
            }));
        }
        // To the end of a thread belongs that it gives its cache back, which joining waits for.
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
    drop(senders);
    let stats = pool.stats();
    assert_eq!(
        (stats.blocks, stats.requested_bytes, stats.held_bytes),
        (0, 0, 0)
    );
    pool.trim(0);
    assert_eq!(
        pool.stats().pinned_bytes,
        0,
        "ended threads gave their caches back"
    );
    drop(pool);
    machine.check_clean();
}

#[test]
fn r07_a_block_across_many_registrations_is_copied_and_used_in_place_as_a_whole() {
    once_and_on_real_devices(1, |place| {
        // Longer than two registrations, so that at least one cut lies within.
        const LEN: usize = (140 << 20) / 4;
        let device = place.device(0);
        let memory = Memory::new(&device);
        let stream = device.stream().unwrap();
        let mut up = memory.upload_in_place::<u32>(LEN).unwrap();
        up.write_each(|i| i as u32 ^ 0x5a5a);
        let mut there = memory.device(LEN).unwrap();
        let up = stream.upload(up, &mut there).unwrap();
        let down = memory.download(LEN).unwrap();
        let down = stream.download(&there, down).unwrap().wait().unwrap();
        let right = |(i, v): (usize, &u32)| *v == i as u32 ^ 0x5a5a;
        assert!(down.iter().enumerate().all(right), "{}", place.name);
        // Parts that begin and end near the cuts.
        let mut part = memory.download::<u32>(LEN).unwrap();
        for range in [0..LEN, 5..LEN - 5, (16 << 20) - 1..(32 << 20) + 1] {
            let flight = stream.download_part(&there, range.clone(), part, range.start);
            part = flight.unwrap().wait().unwrap();
            let right = |i: usize| part[i] == i as u32 ^ 0x5a5a;
            assert!(range.into_iter().all(right), "{}", place.name);
        }
        drop(up.wait().unwrap());
        let ones = memory.upload_in_place::<f32>(LEN).unwrap();
        let mut ones = ones;
        ones.write_each(|_| 1.0);
        let ones = ones.lend();
        let mut cell = memory.scalar_cell().unwrap();
        let mut dot = pinfold::kernels::dot::Dot::load(&memory, &stream).unwrap();
        let expected = dot.run(&stream, &ones, &ones, &mut cell).unwrap();
        let [sum, _] = cell.wait(expected, Duration::from_secs(60)).unwrap();
        assert_eq!(sum, LEN as f64, "{}", place.name);
    });
}
