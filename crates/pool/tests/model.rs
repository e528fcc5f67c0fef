//! Two threads on one pool, in every order there is. Runs only with `--cfg loom`.

#![cfg(loom)]

use loom::sync::Arc;
use pinfold_pool::{Cache, Class, Shared};

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
