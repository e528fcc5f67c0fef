//! Pages against a naive reference: a map of every page.

use pinfold_pool::{NotMine, PAGE_BYTES, Pages};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a user of pages may do.
#[derive(Clone, Debug)]
enum Step {
    Add(u32),
    Take(u32),
    /// Gives back one of those taken, by its turn.
    GiveBack(usize),
    /// Tries to remove the segment of that turn.
    Remove(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (1u32..300).prop_map(Step::Add),
        8 => prop_oneof![1u32..8, 1u32..200].prop_map(Step::Take),
        7 => any::<usize>().prop_map(Step::GiveBack),
        1 => any::<usize>().prop_map(Step::Remove),
    ]
}

/// The reference: for each page of each segment, who has it.
#[derive(Default)]
struct Naive {
    segments: BTreeMap<u64, Vec<Option<u64>>>,
}

impl Naive {
    fn longest_hole(&self) -> usize {
        let runs = self
            .segments
            .values()
            .flat_map(|pages| pages.chunk_by(|a, b| a.is_none() && b.is_none()));
        runs.filter(|run| run[0].is_none())
            .map(<[_]>::len)
            .max()
            .unwrap_or(0)
    }

    fn holes(&self) -> usize {
        let runs = self
            .segments
            .values()
            .flat_map(|pages| pages.chunk_by(|a, b| a.is_none() && b.is_none()));
        runs.filter(|run| run[0].is_none()).count()
    }

    fn free(&self) -> usize {
        self.segments
            .values()
            .flatten()
            .filter(|p| p.is_none())
            .count()
    }

    fn pages_at(&mut self, addr: u64) -> (&mut Vec<Option<u64>>, usize) {
        let (base, pages) = self.segments.range_mut(..=addr).next_back().unwrap();
        (pages, ((addr - base) / PAGE_BYTES) as usize)
    }
}

fn check(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (mut pages, mut naive) = (Pages::default(), Naive::default());
    let mut taken: Vec<(u64, u32)> = Vec::new();
    let mut end = 1 << 30;
    for step in steps {
        match step {
            Step::Add(count) => {
                // Every other one touches its predecessor: segments are not joined.
                let base = end + (u64::from(count) % 2) * PAGE_BYTES;
                end = base + u64::from(count) * PAGE_BYTES;
                pages.add_segment(base, count);
                naive.segments.insert(base, vec![None; count as usize]);
            }
            Step::Take(count) => match pages.take(count) {
                Some(addr) => {
                    let (all, at) = naive.pages_at(addr);
                    let run = &mut all[at..at + count as usize];
                    prop_assert!(run.iter().all(Option::is_none), "given out twice");
                    run.fill(Some(addr));
                    taken.push((addr, count));
                }
                // Only a hole of the very bin that was asked for may be overlooked.
                None => {
                    prop_assert!(naive.longest_hole() < count as usize + count as usize / 32 + 1)
                }
            },
            Step::GiveBack(turn) if !taken.is_empty() => {
                let (addr, count) = taken.swap_remove(turn % taken.len());
                prop_assert_eq!(
                    pages.give_back(addr + PAGE_BYTES / 2),
                    Err(NotMine::Outside)
                );
                prop_assert_eq!(pages.give_back(addr), Ok(count));
                prop_assert!(pages.give_back(addr).is_err());
                let (all, at) = naive.pages_at(addr);
                all[at..at + count as usize].fill(None);
            }
            Step::Remove(turn) if !naive.segments.is_empty() => {
                let bases: Vec<u64> = naive.segments.keys().copied().collect();
                let base = bases[turn % bases.len()];
                let idle = naive.segments[&base].iter().all(Option::is_none);
                let count = naive.segments[&base].len() as u32;
                prop_assert_eq!(pages.remove_segment(base), idle.then_some(count));
                if idle {
                    naive.segments.remove(&base);
                }
            }
            _ => {}
        }
        prop_assert_eq!(pages.free_pages(), naive.free() as u64);
        prop_assert_eq!(pages.holes(), naive.holes());
        let idle = naive
            .segments
            .values()
            .filter(|s| s.iter().all(Option::is_none));
        prop_assert_eq!(pages.idle_segments().count(), idle.count());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn pages_agree_with_a_naive_reference(steps in prop::collection::vec(step(), 1..200)) {
        check(steps)?;
    }
}

#[test]
fn what_is_not_mine_is_refused() {
    let mut pages = Pages::default();
    assert_eq!(pages.take(1), None);
    assert_eq!(pages.give_back(0), Err(NotMine::Outside));
    pages.add_segment(1 << 20, 10);
    assert_eq!(pages.give_back(1 << 20), Err(NotMine::NotGivenOut));
    assert_eq!(pages.take(0), None);
    assert_eq!(pages.take(11), None);
    assert_eq!(pages.take(u32::MAX), None);
    let all = pages.take(10).unwrap();
    assert_eq!(pages.give_back(all + PAGE_BYTES), Err(NotMine::NotGivenOut));
    assert_eq!(pages.remove_segment(1 << 20), None);
    assert_eq!(pages.remove_segment(7), None);
    assert_eq!(pages.give_back(all), Ok(10));
    assert_eq!(pages.remove_segment(1 << 20), Some(10));
}
