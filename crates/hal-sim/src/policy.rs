//! When an operation takes effect, as data: three policies, and the numbers that a seed gives.

use std::fmt;
use std::str::FromStr;

/// When enqueued operations take effect. All of them are legal; a program that waits where it has
/// to cannot tell them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Inside the call that enqueues it, but for what a kernel writes to host memory, which shows
    /// when the kernel ends: the fastest to run, and the kindest to broken programs.
    #[default]
    Eager,
    /// At the last legal moment: somebody waits for it. A host read without a wait sees old bytes
    /// or poison, and a source that was reused too early corrupts the copy.
    Lazy,
    /// At moments that the seed chooses, in pieces, and in an order that the seed chooses among
    /// those that streams and events allow.
    Seeded(u64),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Eager => f.write_str("eager"),
            Policy::Lazy => f.write_str("lazy"),
            Policy::Seeded(seed) => write!(f, "seed={seed}"),
        }
    }
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePolicyError(String);

impl fmt::Display for ParsePolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no policy: say eager, lazy or seed=NUMBER",
            self.0
        )
    }
}

impl std::error::Error for ParsePolicyError {}

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, ParsePolicyError> {
        match text {
            "eager" => Ok(Policy::Eager),
            "lazy" => Ok(Policy::Lazy),
            _ => text
                .strip_prefix("seed=")
                .and_then(|seed| seed.parse().ok())
                .map(Policy::Seeded)
                .ok_or_else(|| ParsePolicyError(text.into())),
        }
    }
}

/// A stream of numbers from a seed: SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    state: u64,
}

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Numbers { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Puts the items in an order of the seed's.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_survives_text() {
        for policy in [Policy::Eager, Policy::Lazy, Policy::Seeded(42)] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let error = "seed=x".parse::<Policy>().unwrap_err().to_string();
        assert!(
            error.contains("seed=x") && error.contains("lazy"),
            "{error}"
        );
    }

    #[test]
    fn a_seed_gives_the_published_numbers() {
        // First outputs of SplitMix64 for seed 0.
        let mut numbers = Numbers::new(0);
        assert_eq!(numbers.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(numbers.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..20).collect();
        Numbers::new(7).shuffle(&mut items);
        assert_ne!(items, (0..20).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..20).collect::<Vec<_>>());
    }
}
