//! Two threads on one pool, in every order there is. Runs only with `--cfg loom`.

#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use pinfold_pool::{Cache, Class, PinState, Shared};

/// A thread that takes some slots, sees that nobody else has them, and gives them back.
fn use_slots(shared: &Shared, class: Class, count: usize) -> Vec<u64> {
    let mut cache = Cache::default();
    let mut mine = Vec::new();
    for _ in 0..count {
        mine.extend(cache.pop(class).or_else(|| cache.refill(class, shared)));
    }
    let given_back = mine.clone();
    for slot in mine {
        cache.push(class, slot, shared);
    }
    cache.flush(shared);
    given_back
}

#[test]
fn no_slot_has_two_owners_and_everything_comes_back() {
    loom::model(|| {
        let class = Class::of(1 << 20).unwrap();
        let shared = Arc::new(Shared::default());
        shared.add_segment(1 << 30, 512);
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || use_slots(&shared, class, 1))
        };
        let here = use_slots(&shared, class, 1);
        let there = other.join().unwrap();
        assert_eq!((here.len(), there.len()), (1, 1));
        assert_eq!(shared.free_pages(), 512);
        assert_eq!(shared.remove_segment(1 << 30), Some(512));
    });
}

#[test]
fn slots_held_at_once_differ() {
    loom::model(|| {
        let class = Class::of(1 << 20).unwrap();
        let shared = Arc::new(Shared::default());
        shared.add_segment(1 << 30, 512);
        let take = move |shared: &Shared| {
            let mut out = Vec::new();
            shared.take_slots(class, 1, &mut out);
            out
        };
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || take(&shared))
        };
        let here = take(&shared);
        let there = other.join().unwrap();
        assert_ne!(here, there);
        assert_eq!(
            shared.give_back_slots(class, here.into_iter().chain(there)),
            0
        );
        assert_eq!(shared.free_pages(), 512);
    });
}

#[test]
fn pages_and_slots_share_a_segment() {
    loom::model(|| {
        let class = Class::of(100_000).unwrap();
        let shared = Arc::new(Shared::default());
        shared.add_segment(1 << 30, 256);
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                let pages = shared.take_pages(10);
                pages.map(|addr| shared.give_back_pages(addr))
            })
        };
        let here = use_slots(&shared, class, 2);
        assert_eq!(other.join().unwrap(), Some(Ok(10)));
        assert_eq!(here.len(), 2);
        assert_eq!(shared.free_pages(), 256);
        assert_eq!(shared.holes(), 1);
    });
}

/// What a driver, a device and the books know of one block.
#[derive(Default)]
struct Block {
    state: PinState,
    is_page_locked: AtomicBool,
    /// Uses that a device has not finished with.
    in_flight: AtomicU32,
    times_pinned: AtomicU32,
}

impl Block {
    fn new() -> Arc<Self> {
        let block = Block::default();
        block.is_page_locked.store(true, Ordering::Relaxed);
        Arc::new(block)
    }

    /// A use as the library makes it.
    fn enqueue(&self) {
        while !self.state.begin_use() {
            if self.state.begin_pin() {
                self.times_pinned.fetch_add(1, Ordering::Relaxed);
                self.is_page_locked.store(true, Ordering::Relaxed);
                self.state.end_pin(true);
                break;
            }
            loom::thread::yield_now();
        }
        assert!(self.is_page_locked.load(Ordering::Relaxed));
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.state.end_use();
    }

    /// A look by whoever unpins idle blocks.
    fn sweep(&self) {
        let Some(seen) = self.state.look() else {
            return;
        };
        if self.in_flight.load(Ordering::Relaxed) == 0 && self.state.begin_unpin(seen) {
            assert_eq!(self.in_flight.load(Ordering::Relaxed), 0);
            self.is_page_locked.store(false, Ordering::Relaxed);
            self.state.end_unpin(true);
        }
    }
}

#[test]
fn a_block_is_never_unpinned_in_flight_nor_used_unpinned() {
    loom::model(|| {
        let block = Block::new();
        let user = {
            let block = block.clone();
            loom::thread::spawn(move || block.enqueue())
        };
        block.sweep();
        block.sweep();
        user.join().unwrap();
        assert!(block.state.is_pinned());
        assert!(block.is_page_locked.load(Ordering::Relaxed));
    });
}

#[test]
fn two_uses_at_once_page_lock_a_block_once() {
    loom::model(|| {
        let block = Block::new();
        block.sweep();
        assert!(!block.state.is_pinned());
        let user = {
            let block = block.clone();
            loom::thread::spawn(move || block.enqueue())
        };
        block.enqueue();
        user.join().unwrap();
        assert_eq!(block.times_pinned.load(Ordering::Relaxed), 1);
        assert!(block.state.look().is_some(), "both uses have ended");
    });
}
