//! The twin of `dot_f32`: right, in the kernel's order, and careful with its arguments.

use super::*;
use crate::dot::{dot_shape, image};

const SIZES: [usize; 14] = [
    0, 1, 3, 4, 5, 31, 33, 127, 1023, 1024, 8192, 8195, 65_536, 100_003,
];

fn dot(a: &[f32], b: &[f32], shape: (u32, u32)) -> f64 {
    let mut out = Output::new(shape.0, 1);
    let mut args = vec![read(a), read(b), scalar(a.len() as u64)];
    args.extend(out.args());
    run(&image(), "dot_f32", shape, args).unwrap();
    let [sum, zero] = out.values();
    assert_eq!(zero.to_bits(), 0);
    sum
}

/// `dot_f32`, thread by thread, with the unrolled loop.
fn literal_dot(a: &[f32], b: &[f32], (blocks, block): (u32, u32)) -> f64 {
    let (n, quads, step) = (a.len(), a.len() / 4, (blocks * block) as usize);
    let product = |i: usize| f64::from(a[i]) * f64::from(b[i]);
    let thread = |t: usize| {
        let mut lanes = [0.0; 4];
        for first in (t..quads).step_by(4 * step) {
            for quad in (0..4).map(|u| first + u * step).filter(|q| *q < quads) {
                for (j, lane) in lanes.iter_mut().enumerate() {
                    *lane += product(4 * quad + j);
                }
            }
        }
        if 4 * quads + t < n {
            lanes[0] += product(4 * quads + t);
        }
        (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    };
    let threads: Vec<f64> = (0..step).map(thread).collect();
    literal_finish(&threads, block as usize)
}

#[test]
fn every_size_and_shape_is_close_to_a_plain_loop() {
    let mut rng = fastrand::Rng::with_seed(1);
    for n in SIZES {
        let (a, b) = (random_f32(&mut rng, n), random_f32(&mut rng, n));
        let products = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        let (sum, size) = products.fold((0.0, 0.0), |(s, m), x| (s + x, m + x.abs()));
        for shape in SHAPES.into_iter().chain([dot_shape(n as u64)]) {
            let got = dot(&a, &b, shape);
            assert!(
                (got - sum).abs() <= 1e-13 * size,
                "{n} {shape:?}: {got} {sum}"
            );
        }
    }
}

#[test]
fn no_element_is_lost_or_used_twice() {
    for n in SIZES {
        let a: Vec<f32> = (0..n).map(|i| (i % 1000) as f32).collect();
        let exact: u64 = (0..n as u64).map(|i| 3 * (i % 1000)).sum();
        for shape in SHAPES {
            assert_eq!(dot(&a, &vec![3.0; n], shape), exact as f64, "{n} {shape:?}");
        }
    }
}

#[test]
fn the_order_is_the_kernels_to_the_bit() {
    let mut rng = fastrand::Rng::with_seed(2);
    for n in SIZES {
        let (a, b) = (random_f32(&mut rng, n), random_f32(&mut rng, n));
        for shape in SHAPES {
            let (twin, kernel) = (dot(&a, &b, shape), literal_dot(&a, &b, shape));
            assert_eq!(twin.to_bits(), kernel.to_bits(), "{n} {shape:?}");
        }
    }
}

#[test]
fn the_shape_suits_the_size() {
    assert_eq!(dot_shape(0), (1, 256));
    assert_eq!(dot_shape(8192), (8, 256));
    assert_eq!(dot_shape(8193), (8, 256));
    assert_eq!(dot_shape(1 << 27), (528, 256));
    assert_eq!(dot_shape(u64::MAX), (528, 256));
}

#[test]
fn bad_arguments_are_named() {
    let a = [1.0f32; 8];
    let refused = |n: u64, blocks: u32, room: u32, ticket: u32| {
        let mut out = Output::new(room, 1);
        out.ticket = [ticket];
        let mut args = vec![read(&a), read(&a[..6]), scalar(n)];
        args.extend(out.args());
        let error = run(&image(), "dot_f32", (blocks, 32), args).unwrap_err();
        assert_eq!(out.cell[0], [u64::MAX; 4], "nothing is published");
        error.to_string()
    };
    assert!(refused(9, 1, 1, 0).contains("`a` covers 8 elements"));
    assert!(refused(7, 1, 1, 0).contains("`b` covers 6 elements"));
    assert!(refused(u64::MAX, 1, 1, 0).contains("`a`"));
    assert!(refused(6, 4, 3, 0).contains("`partial` covers 3 elements"));
    assert!(refused(6, 1, 1, 2).contains("ticket"));
}
