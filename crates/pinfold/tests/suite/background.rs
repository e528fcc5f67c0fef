//! Page-locking in the background. Names that begin with `r` and a number are kinds of reports that
//! users of other pools filed.

use crate::common::{Machine, once_and_on_real_devices, options};
use pinfold::pool::{Pool, PoolOptions, Reservation, WhenFull};
use pinfold::{Error, Memory, Platform};
use pinfold_decorate::{Call, Counted, Faulty, Hook, Hooked};
use pinfold_hal::{DeviceId, ErrorCode};
use pinfold_hal_sim::{Policy, Sim};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// A moment, in which a thread most likely gets to where it has to wait.
const MOMENT: Duration = Duration::from_millis(20);
const PIECE: u64 = 64 << 20;

/// Holds up one registration of the background thread until it is opened.
struct Gate {
    /// Which one, from 1.
    at: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    registered: u64,
    is_open: bool,
    /// Threads that registered in the background, now and before.
    threads: BTreeSet<String>,
    busy: BTreeSet<String>,
    opened: Vec<DeviceId>,
}

fn own_id() -> Option<String> {
    let thread = std::thread::current();
    let id: ThreadId = thread.id();
    (thread.name() == Some("pinfold-reserve")).then(|| format!("{id:?}"))
}

impl Hook for Gate {
    fn before(&self, call: Call, device: Option<DeviceId>) -> pinfold_hal::Result<()> {
        let mut state = self.state.lock().unwrap();
        if call == Call::Open {
            state.opened.extend(device);
        }
        let Some(id) = own_id().filter(|_| call == Call::HostRegister) else {
            return Ok(());
        };
        state.registered += 1;
        state.threads.insert(id.clone());
        state.busy.insert(id);
        assert_eq!(state.busy.len(), 1, "two threads in the background");
        self.changed.notify_all();
        if state.registered == self.at {
            drop(self.changed.wait_while(state, |s| !s.is_open).unwrap());
        }
        Ok(())
    }

    fn after(&self, call: Call, _ok: bool) {
        if let Some(id) = own_id().filter(|_| call == Call::HostRegister) {
            self.state.lock().unwrap().busy.remove(&id);
        }
    }
}

impl Gate {
    /// Returns once the registration is held up.
    fn wait_until_there(&self) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |s| s.registered < self.at)
                .unwrap(),
        );
    }

    fn open(&self) {
        self.state.lock().unwrap().is_open = true;
        self.changed.notify_all();
    }
}

/// A machine whose background thread is held up at some registration.
struct Held {
    sim: Arc<Sim>,
    driver: Arc<Hooked<Gate>>,
    platform: Platform,
}

impl Held {
    fn new(at: u64) -> Self {
        let sim = Arc::new(Sim::new(options().devices(2)));
        let gate = Gate {
            at,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        let driver = Arc::new(Hooked::new(sim.clone(), gate));
        let platform = Platform::with_driver(driver.clone());
        Held {
            sim,
            driver,
            platform,
        }
    }

    fn gate(&self) -> &Gate {
        self.driver.hook()
    }

    fn pool(&self, device: u32, options: &PoolOptions) -> Pool {
        Pool::new(&[self.platform.device(device).unwrap()], options).unwrap()
    }

    fn check_clean(self) {
        drop(self.platform);
        assert_eq!(self.sim.live(), Default::default());
    }
}

fn limited(bytes: u64, when_full: WhenFull) -> PoolOptions {
    let mut options = PoolOptions::default();
    options.budget_bytes = Some(bytes);
    options.when_full = when_full;
    options
}

fn ready_bytes(reservation: &Reservation) -> u64 {
    reservation.progress().ready_bytes
}

#[test]
fn r19_requests_are_served_while_a_reservation_is_in_progress() {
    let held = Held::new(2);
    let pool = held.pool(0, &PoolOptions::default());
    let reservation = pool.reserve_in_background(3 * PIECE).unwrap();
    held.gate().wait_until_there();
    // The first piece is there, and the driver is busy with the second one.
    assert_eq!(ready_bytes(&reservation), PIECE);
    assert!(!reservation.is_ready());
    let blocks = [100, 70_000, 1 << 20, 50 << 20].map(|bytes| pool.take(bytes).unwrap());
    let error = reservation.wait(Duration::from_millis(1)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(
        error.to_string().contains("64.0 MiB of 192.0 MiB"),
        "{error}"
    );
    held.gate().open();
    reservation.wait(LIMIT).unwrap();
    assert!(reservation.is_ready());
    assert_eq!(ready_bytes(&reservation), 3 * PIECE);
    let stats = pool.stats();
    assert_eq!((stats.pinned_bytes, stats.segments), (3 * PIECE, 3));
    assert_eq!(stats.held_bytes + stats.cached_bytes, 3 * PIECE);
    drop(blocks);
    drop(pool);
    held.check_clean();
}

#[test]
fn r19_a_request_for_more_than_is_there_waits_for_one_piece_and_not_for_all() {
    let held = Held::new(2);
    let pool = held.pool(0, &PoolOptions::default());
    let reservation = pool.reserve_in_background(6 * PIECE).unwrap();
    held.gate().wait_until_there();
    std::thread::scope(|scope| {
        let requests = [60 << 20, PIECE + 1, 2 * PIECE].map(|bytes| {
            let pool = &pool;
            scope.spawn(move || pool.take(bytes).unwrap())
        });
        std::thread::sleep(MOMENT);
        held.gate().open();
        let blocks = requests.map(|request| request.join().unwrap());
        reservation.wait(LIMIT).unwrap();
        drop(blocks);
    });
    assert!(pool.stats().pinned_bytes >= 6 * PIECE);
    drop(pool);
    held.check_clean();
}

#[test]
fn r19_what_was_reserved_is_there_without_the_driver() {
    let sim = Arc::new(Sim::new(options()));
    let driver = Arc::new(Hooked::new(sim, Counted::default()));
    let device = Platform::with_driver(driver.clone()).device(0).unwrap();
    let memory = Memory::new(&device);
    let reservation = memory.reserve_in_background(100 << 20).unwrap();
    let mut seen = reservation.progress();
    assert_eq!(seen.total_bytes, 100 << 20);
    while !reservation.is_ready() {
        let now = reservation.progress();
        assert!(now.ready_bytes >= seen.ready_bytes && now.ready_bytes <= now.total_bytes);
        seen = now;
        std::thread::yield_now();
    }
    assert_eq!(ready_bytes(&reservation), 100 << 20);
    memory.reserve(PIECE).unwrap();
    let before = driver.hook().total();
    let kept = [60 << 20, 30 << 20].map(|bytes| memory.zero_copy::<u8>(bytes).unwrap());
    // Only where the device sees it is the driver's to say, and that was asked before.
    assert_eq!(driver.hook().total(), before);
    drop(kept);
    memory.reserve(90 << 20).unwrap();
    let before = driver.hook().total();
    drop(memory.exchange::<u8>(90 << 20).unwrap());
    assert_eq!(driver.hook().total(), before);
}

#[test]
fn r19_what_was_reserved_in_the_background_is_memory_like_any_other() {
    once_and_on_real_devices(1, |place| {
        const LEN: usize = (48 << 20) / 4;
        let device = place.device(0);
        let memory = Memory::new(&device).strict();
        let reservation = memory.reserve_in_background(3 * PIECE).unwrap();
        reservation.wait(LIMIT).unwrap();
        let stream = device.stream().unwrap();
        let mut there = memory.device::<u32>(LEN).unwrap();
        for round in 0..3 {
            let mut up = memory.upload_in_place::<u32>(LEN).unwrap();
            up.write_each(|i| i as u32 ^ round);
            drop(stream.upload(up, &mut there).unwrap());
            let down = memory.download(LEN).unwrap();
            let down = stream.download(&there, down).unwrap().wait().unwrap();
            let right = |(i, v): (usize, &u32)| *v == i as u32 ^ round;
            assert!(down.iter().enumerate().all(right), "{}", place.name);
        }
        let [cached, _] = memory.pool_stats().unwrap();
        assert_eq!(cached.pinned_bytes, 3 * PIECE, "{}", place.name);
    });
}

#[test]
fn r19_a_cancelled_reservation_ends_after_the_piece_in_progress() {
    let held = Held::new(2);
    let pool = held.pool(0, &PoolOptions::default());
    let cancelled = pool.reserve_in_background(4 * PIECE).unwrap();
    let (dropped, kept) = (
        pool.reserve_in_background(4 * PIECE).unwrap(),
        pool.reserve_in_background(1).unwrap(),
    );
    held.gate().wait_until_there();
    cancelled.cancel();
    drop(dropped);
    assert!(!kept.is_ready() && ready_bytes(&kept) == 0, "in order");
    held.gate().open();
    for _ in 0..2 {
        let error = cancelled.wait(LIMIT).unwrap_err();
        let told = matches!(
            error,
            Error::ReservationEnded { ready_bytes, total_bytes, .. }
                if (ready_bytes, total_bytes) == (2 * PIECE, 4 * PIECE)
        );
        assert!(told && error.to_string().contains("cancelled"), "{error}");
    }
    assert!(!cancelled.is_ready());
    kept.wait(LIMIT).unwrap();
    assert_eq!(kept.progress().total_bytes, 2 << 20);
    assert_eq!(pool.stats().pinned_bytes, 2 * PIECE + (2 << 20));
    // The pool goes on, and so does another reservation.
    drop(pool.take(PIECE).unwrap());
    pool.reserve_in_background(1 << 20)
        .unwrap()
        .wait(LIMIT)
        .unwrap();
    drop(pool);
    held.check_clean();
}

#[test]
fn r19_a_pool_that_goes_away_midway_neither_hangs_nor_leaks() {
    let held = Held::new(2);
    let pool = held.pool(0, &PoolOptions::default());
    let copy = pool.clone();
    let reservations = [1 << 35, 1 << 35].map(|b| pool.reserve_in_background(b).unwrap());
    held.gate().wait_until_there();
    // Another handle to the same pool is the same pool.
    drop(pool);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(copy));
        std::thread::sleep(MOMENT);
        held.gate().open();
    });
    for reservation in &reservations {
        let error = reservation.wait(LIMIT).unwrap_err();
        assert!(error.to_string().contains("pool is gone"), "{error}");
    }
    held.check_clean();
}

#[test]
fn r19_memory_that_goes_away_midway_neither_hangs_nor_leaks() {
    for policy in [Policy::Eager, Policy::Lazy] {
        let machine = Machine::new(options(), policy);
        for pieces in [1, 3, 1000] {
            let memory = Memory::new(&machine.device(0));
            let reservation = memory.reserve_in_background(pieces * PIECE).unwrap();
            drop(memory.upload::<u8>(1000).unwrap());
            drop(memory);
            // It is over, one way or the other.
            let outcome = reservation.wait(Duration::ZERO);
            assert!(
                !matches!(outcome, Err(Error::Timeout { .. })),
                "{outcome:?}"
            );
        }
        machine.check_clean();
    }
}

#[test]
fn r19_reservations_are_served_in_order_by_one_thread_and_bounded() {
    let held = Held::new(1);
    let pool = held.pool(1, &PoolOptions::default());
    let first = pool.reserve_in_background(2 << 20).unwrap();
    held.gate().wait_until_there();
    let mut waiting = Vec::new();
    let error = loop {
        match pool.reserve_in_background(2 << 20) {
            Ok(reservation) => waiting.push(reservation),
            Err(error) => break error,
        }
        assert!(waiting.len() < 1000, "without a bound");
    };
    assert!(
        matches!(error, Error::ReservationEnded { ready_bytes: 0, .. }),
        "{error}"
    );
    held.gate().open();
    first.wait(LIMIT).unwrap();
    for (n, reservation) in waiting.iter().enumerate() {
        reservation.wait(LIMIT).unwrap();
        assert!(
            waiting[..n].iter().all(Reservation::is_ready),
            "out of order"
        );
    }
    assert_eq!(pool.stats().segments, 1 + waiting.len() as u64);
    {
        let state = held.gate().state.lock().unwrap();
        assert_eq!(state.threads.len(), 1);
        assert!(state.busy.is_empty());
        // No context on a device that was not named.
        assert!(state.opened.iter().all(|device| *device == DeviceId(1)));
    }
    drop(pool);
    held.check_clean();
}

#[test]
fn a_reservation_stops_at_the_budget_and_keeps_what_is_there() {
    let machine = Machine::new(options(), Policy::Eager);
    let pool = Pool::new(&[machine.device(0)], &limited(100 << 20, WhenFull::Fail)).unwrap();
    let reservation = pool.reserve_in_background(2 * PIECE).unwrap();
    for _ in 0..2 {
        let error = reservation.wait(LIMIT).unwrap_err();
        assert!(matches!(error, Error::PoolFull { .. }), "{error}");
        assert!(error.to_string().contains("budget of 100.0 MiB"), "{error}");
    }
    assert_eq!(ready_bytes(&reservation), PIECE);
    assert_eq!(pool.stats().pinned_bytes, PIECE);
    pool.set_budget(Some(200 << 20));
    pool.reserve_in_background(PIECE)
        .unwrap()
        .wait(LIMIT)
        .unwrap();
    assert_eq!(pool.stats().pinned_bytes_peak, 2 * PIECE);
    drop(pool);
    machine.check_clean();
}

#[test]
fn a_reservation_waits_for_room_where_the_pool_does() {
    let machine = Machine::new(options(), Policy::Eager);
    let device = machine.device(0);
    let options = limited(100 << 20, WhenFull::Wait(LIMIT));
    let pool = Pool::new(std::slice::from_ref(&device), &options).unwrap();
    let reservation = pool.reserve_in_background(2 * PIECE).unwrap();
    while ready_bytes(&reservation) < PIECE {
        std::thread::yield_now();
    }
    assert!(reservation.wait(Duration::from_millis(5)).is_err());
    pool.set_budget(Some(200 << 20));
    reservation.wait(LIMIT).unwrap();
    // Whoever waits for room does not keep a pool from going away.
    let stuck = pool.reserve_in_background(2 * PIECE).unwrap();
    drop(pool);
    assert!(matches!(
        stuck.wait(LIMIT),
        Err(Error::ReservationEnded { .. })
    ));
    // And no longer than it may.
    let options = limited(1 << 20, WhenFull::Wait(Duration::from_millis(5)));
    let pool = Pool::new(&[device], &options).unwrap();
    let error = pool
        .reserve_in_background(1)
        .unwrap()
        .wait(LIMIT)
        .unwrap_err();
    assert!(error.to_string().contains("in vain"), "{error}");
    drop(pool);
    machine.check_clean();
}

#[test]
fn r19_whichever_call_fails_ends_the_reservation_with_that_and_nothing_is_lost() {
    let bytes = PIECE + (2 << 20);
    let mut calls = 0;
    for n in 1.. {
        let sim = Arc::new(Sim::new(options()));
        let faulty = Faulty::new(format!("any#{n}:NotPermitted").parse().unwrap());
        let driver = Arc::new(Hooked::new(sim.clone(), faulty));
        let platform = Platform::with_driver(driver.clone());
        let Ok(device) = platform.device(0) else {
            continue;
        };
        let pool = Pool::new(&[device], &PoolOptions::default()).unwrap();
        let reservation = pool.reserve_in_background(bytes).unwrap();
        let outcome = reservation.wait(LIMIT);
        let is_refused = !driver.hook().injected().is_empty();
        assert_eq!(outcome.is_err(), is_refused, "call {n}: {outcome:?}");
        assert_eq!(pool.stats().pinned_bytes, ready_bytes(&reservation));
        assert_eq!(sim.live().registered_bytes, ready_bytes(&reservation));
        if let Err(error) = outcome {
            let code = error.driver_error().map(|e| e.code);
            assert_eq!(code, Some(ErrorCode::NotPermitted), "call {n}: {error}");
            // What follows is not poisoned.
            pool.reserve_in_background(bytes)
                .unwrap()
                .wait(LIMIT)
                .unwrap();
        }
        drop((pool, platform));
        assert_eq!(sim.live(), Default::default(), "call {n}");
        if !is_refused {
            break;
        }
        calls = n;
    }
    assert!(calls >= 6, "{calls}");
}

#[test]
fn sizes_that_make_no_sense_are_refused_and_nothing_is_always_there() {
    let machine = Machine::new(options(), Policy::Eager);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    for bytes in [u64::MAX, 1 << 60, 1 << 45] {
        let error = memory.reserve_in_background(bytes).unwrap_err();
        assert!(matches!(error, Error::Driver { .. }), "{error}");
        assert!(memory.reserve(bytes).is_err());
    }
    memory.reserve(0).unwrap();
    let nothing = memory.reserve_in_background(0).unwrap();
    assert!(nothing.is_ready());
    nothing.wait(Duration::ZERO).unwrap();
    assert_eq!(memory.pool_stats().unwrap()[0].pinned_bytes, 0);
    let plain = Memory::unpooled(std::slice::from_ref(&device)).unwrap();
    for error in [
        plain.reserve(100).unwrap_err(),
        plain.reserve_in_background(100).unwrap_err(),
    ] {
        assert!(matches!(error, Error::ReservationEnded { .. }), "{error}");
    }
    drop((device, memory, plain));
    machine.check_clean();
}
