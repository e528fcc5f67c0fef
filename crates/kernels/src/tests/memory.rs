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

#[test]
fn a_strided_check_looks_at_every_stride_th_half_word_alone() {
    let strided = |words: &[u64], stride: u64, shape: (u32, u32)| {
        let mut out = Output::new(shape.0, 2);
        let n = words.len() as u64;
        let mut args = vec![read(words), scalar(n), scalar(stride), scalar(SEED)];
        args.extend(out.args());
        run(&image(), "check_strided_u32", shape, args).map(|()| out.values())
    };
    let mut words = filled(5000);
    words[700] ^= 1 << 40; // half word 1401
    words[4321] ^= 1; // half word 8642
    for shape in SHAPES {
        for (stride, found) in [
            (1, [2.0, 1401.0]),
            (2, [1.0, 8642.0]),
            (3, [1.0, 1401.0]),
            (58, [1.0, 8642.0]),
            (64, [0.0, 10_000.0]),
            (1 << 40, [0.0, 10_000.0]),
        ] {
            assert_eq!(
                strided(&words, stride, shape),
                Ok(found),
                "{stride} {shape:?}"
            );
        }
        assert_eq!(strided(&[], 4, shape), Ok([0.0, 0.0]));
    }
    assert!(strided(&words, 0, (1, 32)).is_err());
}

#[test]
fn a_chase_follows_its_places_and_never_leaves_them() {
    let chase = |places: &[u32], steps: u64| {
        let mut out = Output::new(1, 1);
        let mut args = vec![read(places), scalar(places.len() as u64), scalar(steps)];
        args.extend(out.args());
        run(&image(), "chase_u32", (1, 32), args).map(|()| out.values()[0])
    };
    let ring: Vec<u32> = (0..100).map(|i| (i + 7) % 100).collect();
    assert_eq!(chase(&ring, 0), Ok(0.0));
    assert_eq!(chase(&ring, 15), Ok(5.0));
    assert_eq!(chase(&[2, 0, 9], 2), Ok(0.0));
    assert_eq!(chase(&[], 0), Ok(0.0));
    assert!(chase(&[], 1).is_err());
}
