//! What the registry promises, with drivers that only count.

use super::*;
use parking_lot::Mutex as Cell;
use std::sync::mpsc;

/// A driver's page-locked ranges, and what it is told to refuse.
#[derive(Default)]
struct Fake {
    locked: Cell<Vec<Range<usize>>>,
    calls: Cell<u32>,
    /// Page-locked by others.
    foreign: Option<Range<usize>>,
    keeps_all: bool,
    /// Holds up calls until something is sent.
    gate: Cell<Option<mpsc::Receiver<()>>>,
}

impl PageLocker for Fake {
    fn lock(&self, range: &Range<usize>, _read_only: bool) -> Result<(), DriverError> {
        *self.calls.lock() += 1;
        let gate = self.gate.lock().take();
        if let Some(gate) = gate {
            gate.recv().unwrap();
        }
        if self
            .foreign
            .as_ref()
            .is_some_and(|f| f.start < range.end && range.start < f.end)
        {
            let code = ErrorCode::HostMemoryAlreadyRegistered;
            return Err(DriverError::new(code, "lock"));
        }
        self.locked.lock().push(range.clone());
        Ok(())
    }

    fn unlock(&self, start: usize) -> Result<(), DriverError> {
        *self.calls.lock() += 1;
        if self.keeps_all {
            return Err(DriverError::new(ErrorCode::InvalidValue, "unlock"));
        }
        self.locked.lock().retain(|range| range.start != start);
        Ok(())
    }

    fn reaches(&self, range: &Range<usize>) -> bool {
        let foreign = self.foreign.as_ref();
        foreign.is_some_and(|f| f.contains(&range.start) && range.end <= f.end)
    }
}

fn locker(fake: Fake) -> (Arc<Fake>, Arc<dyn PageLocker>) {
    let fake = Arc::new(fake);
    (fake.clone(), fake)
}

fn wanted(range: Range<usize>) -> Wanted {
    Wanted {
        range,
        read_only: false,
        writable: true,
        site: Location::caller(),
    }
}

fn text(outcome: Result<Claim>) -> String {
    outcome.unwrap_err().to_string()
}

#[test]
fn a_range_inside_shares_the_registration_and_the_last_one_ends_it() {
    let (fake, locker) = locker(Fake::default());
    let registry = Registry::default();
    let outer = registry.enter(&wanted(100..200), &locker).unwrap();
    let same = registry.enter(&wanted(100..200), &locker).unwrap();
    let inner = registry.enter(&wanted(150..151), &locker).unwrap();
    assert_eq!(
        (outer.found, same.found, inner.found),
        (Found::New, Found::Shared, Found::Shared)
    );
    assert_eq!(*fake.calls.lock(), 1);
    registry.leave(outer, true).unwrap();
    registry.leave(same, true).unwrap();
    assert_eq!(
        *fake.locked.lock(),
        [Range {
            start: 100,
            end: 200
        }]
    );
    registry.leave(inner, true).unwrap();
    assert!(fake.locked.lock().is_empty());
    assert_eq!(*fake.calls.lock(), 2);
    assert!(registry.ranges.lock().is_empty());
}

#[test]
fn overlaps_are_found_to_the_byte_and_told_with_owner_and_free_parts() {
    let (_, locker) = locker(Fake::default());
    let registry = Registry::default();
    let claims: Vec<Claim> = [0x1000..0x1100, 0x1200..0x1300]
        .into_iter()
        .map(|range| registry.enter(&wanted(range), &locker).unwrap())
        .collect();
    let told = text(registry.enter(&wanted(0x0f00..0x1400), &locker));
    assert!(
        told.contains("tests.rs") && told.contains("0x1000..0x1100"),
        "{told}"
    );
    let free = "free of it: 0xf00..0x1000, 0x1100..0x1200, 0x1300..0x1400";
    assert!(told.contains(free), "{told}");
    assert!(registry.enter(&wanted(0x10ff..0x1101), &locker).is_err());
    let between = registry.enter(&wanted(0x1100..0x1200), &locker).unwrap();
    assert_eq!(between.found, Found::New);
    for claim in claims.into_iter().chain([between]) {
        registry.leave(claim, true).unwrap();
    }
}

#[test]
fn what_devices_may_only_read_is_not_shared_for_writing() {
    let (_, locker) = locker(Fake::default());
    let registry = Registry::default();
    let reading = Wanted {
        read_only: true,
        writable: false,
        ..wanted(0..100)
    };
    let first = registry.enter(&reading, &locker).unwrap();
    let told = text(registry.enter(&wanted(10..20), &locker));
    assert!(told.contains("read only"), "{told}");
    let second = registry.enter(&reading, &locker).unwrap();
    registry.leave(first, true).unwrap();
    registry.leave(second, true).unwrap();
    assert!(registry.ranges.lock().is_empty());
}

#[test]
fn memory_of_other_code_is_borrowed_whole_or_not_at_all() {
    let (fake, locker) = locker(Fake {
        foreign: Some(0..1000),
        ..Fake::default()
    });
    let registry = Registry::default();
    let claim = registry.enter(&wanted(100..1000), &locker).unwrap();
    assert_eq!(claim.found, Found::Borrowed);
    let inner = registry.enter(&wanted(200..300), &locker).unwrap();
    assert_eq!(inner.found, Found::Borrowed);
    assert!(!registry.unlock(claim));
    registry.leave(claim, true).unwrap();
    registry.leave(inner, true).unwrap();
    assert_eq!(*fake.calls.lock(), 1, "it is never unlocked");
    let told = text(registry.enter(&wanted(900..1001), &locker));
    assert!(told.contains("other code"), "{told}");
    assert!(registry.ranges.lock().is_empty());
}

#[test]
fn what_the_driver_does_not_let_go_of_is_never_shared_again() {
    let (fake, locker) = locker(Fake {
        keeps_all: true,
        ..Fake::default()
    });
    let registry = Registry::default();
    let claim = registry.enter(&wanted(0..100), &locker).unwrap();
    assert!(!registry.unlock(claim), "an idle range stays as it was");
    assert!(registry.leave(claim, true).is_err());
    assert!(!registry.is_locked(&(0..50)));
    for range in [0..50, 50..150] {
        let told = text(registry.enter(&wanted(range), &locker));
        assert!(told.contains("did not let go"), "{told}");
    }
    assert_eq!(*fake.calls.lock(), 3);
}

#[test]
fn a_range_is_not_unregistered_while_a_part_of_it_is_copied() {
    let (fake, locker) = locker(Fake::default());
    let registry = Registry::default();
    let claim = registry.enter(&wanted(0..100), &locker).unwrap();
    let copy = registry.slices.copying(&(50..60)).unwrap();
    assert!(!registry.unlock(claim), "an idle range stays as it was");
    std::thread::scope(|scope| {
        let leaving = scope.spawn(|| registry.leave(claim, true));
        while registry.is_locked(&(0..100)) {
            std::thread::yield_now();
        }
        assert_eq!(fake.locked.lock().len(), 1);
        drop(copy);
        leaving.join().unwrap().unwrap();
    });
    assert!(fake.locked.lock().is_empty() && registry.ranges.lock().is_empty());
}

#[test]
fn an_idle_range_is_locked_again_by_whoever_needs_it_first() {
    let (fake, locker) = locker(Fake::default());
    let registry = Registry::default();
    let outer = registry.enter(&wanted(0..100), &locker).unwrap();
    assert!(registry.unlock(outer));
    assert!(fake.locked.lock().is_empty());
    assert!(
        registry.enter(&wanted(50..150), &locker).is_err(),
        "it is still claimed"
    );
    let inner = registry.enter(&wanted(10..20), &locker).unwrap();
    assert_eq!(*fake.locked.lock(), [Range { start: 0, end: 100 }]);
    registry.lock_again(outer, &locker).unwrap();
    assert!(!registry.unlock(outer), "another one needs it");
    registry.leave(inner, true).unwrap();
    assert_eq!(fake.locked.lock().len(), 1);
    assert!(registry.unlock(outer));
    registry.leave(outer, false).unwrap();
    assert!(fake.locked.lock().is_empty() && registry.ranges.lock().is_empty());
}

#[test]
fn a_range_that_is_being_registered_is_waited_for() {
    let (send, receive) = mpsc::channel();
    let (fake, locker) = locker(Fake {
        gate: Cell::new(Some(receive)),
        ..Fake::default()
    });
    let registry = Registry::default();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| registry.enter(&wanted(0..100), &locker).unwrap());
        while *fake.calls.lock() == 0 {
            std::thread::yield_now();
        }
        let inside = scope.spawn(|| registry.enter(&wanted(0..10), &locker).unwrap());
        let across = scope.spawn(|| registry.enter(&wanted(99..200), &locker).is_err());
        // Other memory is not held up.
        let elsewhere = registry.enter(&wanted(200..300), &locker).unwrap();
        registry.leave(elsewhere, true).unwrap();
        send.send(()).unwrap();
        assert!(across.join().unwrap());
        for claim in [first.join().unwrap(), inside.join().unwrap()] {
            registry.leave(claim, true).unwrap();
        }
    });
    assert!(fake.locked.lock().is_empty() && registry.ranges.lock().is_empty());
}

#[test]
fn edges_are_where_registrations_begin_and_end_inside_of_a_range() {
    let (_, locker) = locker(Fake::default());
    let registry = Registry::default();
    for range in [10..20, 20..30, 50..60] {
        registry.enter(&wanted(range), &locker).unwrap();
    }
    assert_eq!(registry.edges(&(0..55)).to_vec(), [10, 20, 30, 50]);
    assert_eq!(registry.edges(&(10..20)).to_vec(), [0usize; 0]);
    assert_eq!(registry.edges(&(12..25)).to_vec(), [20]);
}
