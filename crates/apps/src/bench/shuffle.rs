//! A list of rows in no order, each of them once, without a table of it.

/// Numbers below a limit, shuffled.
///
/// A few rounds of an odd factor and a shift are one to one on a power of two; what is not below
/// the limit goes another round, which keeps it one to one.
#[derive(Clone, Copy)]
pub(super) struct Shuffle {
    len: usize,
    bits: u32,
}

/// Odd numbers without a pattern, one a round.
const FACTORS: [usize; 4] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F];

impl Shuffle {
    /// Of the numbers below `len`.
    pub(super) fn new(len: usize) -> Self {
        let bits = len.max(2).next_power_of_two().ilog2();
        Shuffle { len, bits }
    }

    /// The `k`-th of them, for a `k` below their number; behind the last it starts over.
    pub(super) fn at(self, k: usize) -> usize {
        let mut at = k % self.len.max(1);
        loop {
            at = self.mix(at);
            if at < self.len.max(1) {
                return at;
            }
        }
    }

    fn mix(self, mut at: usize) -> usize {
        let mask = (1 << self.bits) - 1;
        for factor in FACTORS {
            at = at.wrapping_add(factor >> 7).wrapping_mul(factor) & mask;
            at ^= at >> self.bits.div_ceil(2);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once() {
        for len in [1, 2, 3, 7, 64, 1000, 1 << 12] {
            let shuffle = Shuffle::new(len);
            let mut all: Vec<usize> = (0..len).map(|k| shuffle.at(k)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..len), "{len}");
        }
    }

    #[test]
    fn neighbours_land_apart_and_without_a_stride() {
        let len = 1 << 20;
        let shuffle = Shuffle::new(len);
        let steps = |k| (shuffle.at(k + 1) + len - shuffle.at(k)) % len;
        let mut all: Vec<usize> = (0..4096).map(steps).collect();
        all.sort_unstable();
        let (near, far) = (len / 8, len - len / 8);
        let close = all.iter().filter(|s| !(near..far).contains(*s)).count();
        // A quarter of all steps are this short where there is no order.
        assert!((700..1350).contains(&close), "{close}");
        all.dedup();
        assert!(all.len() > 4000, "{} different steps", all.len());
    }
}
