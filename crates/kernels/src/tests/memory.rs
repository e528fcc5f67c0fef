//! The twins of the memory kernels.

use super::*;
use crate::memory::{fill_shape, image, read_shape, splitmix64};

const SEED: u64 = u64::MAX - 10; // the index wraps past the end of the numbers

fn filled(n: usize) -> Vec<u64> {
    let mut dst = vec![0; n];
    let args = vec![write(&mut dst), scalar(n as u64), scalar(SEED)];
    run(&image(), "fill_u64", fill_shape(n as u64), args).unwrap();
    dst
}

fn check(src: &[u64], shape: (u32, u32)) -> [f64; 2] {
    let mut out = Output::new(shape.0, 2);
    let mut args = vec![read(src), scalar(src.len() as u64), scalar(SEED)];
    args.extend(out.args());
    run(&image(), "check_u64", shape, args).unwrap();
    out.values()
}

#[test]
fn splitmix_gives_the_published_numbers() {
    // The first outputs of the reference generator seeded with 1234567.
    let states = (0..3u64).map(|i| {
        0x9e37_79b9_7f4a_7c15u64
            .wrapping_mul(i)
            .wrapping_add(1_234_567)
    });
    let outputs: Vec<u64> = states.map(splitmix64).collect();
    assert_eq!(
        outputs,
        [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423
        ]
    );
}

#[test]
fn a_fill_passes_its_check_and_every_damage_is_counted() {
    for n in [0, 1, 255, 256, 10_000] {
        let mut words = filled(n);
        for shape in SHAPES {
            assert_eq!(check(&words, shape), [0.0, n as f64]);
        }
        if n == 10_000 {
            for i in [9_999, 4_321, 4_322, 700] {
                words[i] ^= 1;
            }
            for shape in SHAPES {
                assert_eq!(check(&words, shape), [4.0, 700.0]);
            }
        }
    }
}

#[test]
fn a_read_sums_every_element_once() {
    for n in [0usize, 1, 3, 4, 5, 31, 33, 1023, 8192, 100_003] {
        let src: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let exact = (n * n.saturating_sub(1) / 2) as f64;
        for shape in SHAPES.into_iter().chain([read_shape(n as u64)]) {
            let mut out = Output::new(shape.0, 1);
            let mut args = vec![read(&src), scalar(n as u64)];
            args.extend(out.args());
            run(&image(), "read_f32", shape, args).unwrap();
            assert_eq!(out.values(), [exact, 0.0], "{n} {shape:?}");
        }
    }
}

#[test]
fn spin_takes_cycles_and_nothing_else() {
    assert!(run(&image(), "spin", (1, 32), vec![scalar(1000u64)]).is_ok());
    assert!(run(&image(), "spin", (1, 32), vec![scalar(1000u32)]).is_err());
    assert!(run(&image(), "spin", (1, 32), vec![]).is_err());
}

#[test]
fn the_shape_suits_the_size() {
    assert_eq!(fill_shape(0), (1, 256));
    assert_eq!(fill_shape(257), (2, 256));
    assert_eq!(fill_shape(u64::MAX), (1056, 256));
}
