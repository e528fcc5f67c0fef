//! The twins of the conjugate gradient kernels: right, and in the kernels' order.

use super::*;
use crate::cg::{cg_lanes, cg_shape, image};

const LANES: [u32; 6] = [1, 2, 4, 8, 16, 32];

struct Csr {
    row_start: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Csr {
    fn from_rows(rows: Vec<Vec<(u32, f64)>>) -> Self {
        let mut row_start = vec![0];
        for row in &rows {
            row_start.push(row_start.last().unwrap() + row.len() as u32);
        }
        let (columns, values) = rows.into_iter().flatten().unzip();
        Csr {
            row_start,
            columns,
            values,
        }
    }

    /// Rows of 0 to 80 entries.
    fn random(rng: &mut fastrand::Rng, rows: u32) -> Self {
        let mut row = |_| {
            let entries = rng.usize(0..=80);
            (0..entries)
                .map(|_| (rng.u32(0..rows), rng.f64() - 0.5))
                .collect()
        };
        Csr::from_rows((0..rows).map(&mut row).collect())
    }

    /// The five-point Laplacian of a square grid, with a diagonal that varies.
    fn laplacian(side: u32) -> Self {
        let row = |i: u32| {
            let (x, y) = (i % side, i / side);
            let mut row = vec![(i, 4.0 + f64::from(i % 7))];
            let mut link = |inside: bool, j: u32| inside.then(|| row.push((j, -1.0)));
            link(x > 0, i.wrapping_sub(1));
            link(x + 1 < side, i + 1);
            link(y > 0, i.wrapping_sub(side));
            link(y + 1 < side, i + side);
            row
        };
        Csr::from_rows((0..side * side).map(row).collect())
    }

    fn rows(&self) -> u32 {
        self.row_start.len() as u32 - 1
    }

    fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> {
        let entries = self.row_start[row] as usize..self.row_start[row + 1] as usize;
        let columns = self.columns[entries.clone()].iter();
        columns
            .map(|c| *c as usize)
            .zip(self.values[entries].iter().copied())
    }
}

fn spmv_dot(a: &Csr, p: &[f64], lanes: u32, shape: (u32, u32)) -> (Vec<f64>, f64) {
    let mut q = vec![f64::NAN; p.len()];
    let mut out = Output::new(shape.0, 1);
    let mut args = vec![
        scalar(a.rows()),
        scalar(lanes),
        read(&a.row_start),
        read(&a.columns),
        read(&a.values),
        read(p),
        write(&mut q),
    ];
    args.extend(out.args());
    run(&image(), "cg_spmv_dot", shape, args).unwrap();
    let [pq, zero] = out.values();
    assert_eq!(zero.to_bits(), 0);
    (q, pq)
}

/// `cg_spmv_dot`, warp by warp.
fn literal_spmv_dot(
    a: &Csr,
    p: &[f64],
    lanes: usize,
    (blocks, block): (u32, u32),
) -> (Vec<f64>, f64) {
    let total = (blocks * block) as usize;
    let (rows, groups) = (p.len(), total / lanes);
    let mut q = vec![f64::NAN; rows];
    let mut threads = vec![0.0; total];
    for warp in (0..total).step_by(32) {
        for done in (0..)
            .step_by(groups)
            .take_while(|d| warp / lanes + d < rows)
        {
            let mut parts = [0.0; 32];
            for (l, part) in parts.iter_mut().enumerate() {
                let row = (warp + l) / lanes + done;
                if row < rows {
                    let own = a.row(row).skip(l % lanes).step_by(lanes);
                    own.for_each(|(column, value)| *part += value * p[column]);
                }
            }
            let parts = shuffle_sum(parts, lanes);
            for l in (0..32).step_by(lanes) {
                let row = (warp + l) / lanes + done;
                if row < rows {
                    q[row] = parts[l];
                    threads[warp + l] += p[row] * parts[l];
                }
            }
        }
    }
    (q, literal_finish(&threads, block as usize))
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn a_product_is_close_to_a_plain_loop() {
    let mut rng = fastrand::Rng::with_seed(3);
    for rows in [0, 1, 2, 33, 1000] {
        let a = Csr::random(&mut rng, rows);
        let p = random_f64(&mut rng, rows as usize);
        let plain: Vec<f64> = (0..p.len())
            .map(|row| a.row(row).map(|(c, v)| v * p[c]).sum())
            .collect();
        let dot: f64 = p.iter().zip(&plain).map(|(p, q)| p * q).sum();
        for lanes in LANES {
            for shape in SHAPES.into_iter().chain([cg_shape(rows, lanes)]) {
                let (q, pq) = spmv_dot(&a, &p, lanes, shape);
                let worst = q.iter().zip(&plain).map(|(a, b)| (a - b).abs());
                assert!(
                    worst.fold(0.0, f64::max) < 1e-14,
                    "{rows} {lanes} {shape:?}"
                );
                assert!((pq - dot).abs() < 1e-12, "{rows} {lanes} {shape:?}");
            }
        }
    }
}

#[test]
fn a_products_order_is_the_kernels_to_the_bit() {
    let mut rng = fastrand::Rng::with_seed(4);
    for rows in [1, 5, 63, 1000] {
        let a = Csr::random(&mut rng, rows);
        let p = random_f64(&mut rng, rows as usize);
        for lanes in LANES {
            for shape in SHAPES {
                let twin = spmv_dot(&a, &p, lanes, shape);
                let kernel = literal_spmv_dot(&a, &p, lanes as usize, shape);
                assert_eq!(bits(&twin.0), bits(&kernel.0), "{rows} {lanes} {shape:?}");
                assert_eq!(
                    twin.1.to_bits(),
                    kernel.1.to_bits(),
                    "{rows} {lanes} {shape:?}"
                );
            }
        }
    }
}

#[test]
fn an_update_is_the_kernels_to_the_bit() {
    let mut rng = fastrand::Rng::with_seed(5);
    for n in [0, 1, 31, 100, 5000] {
        let [p, q, inverse, x, r] = [(); 5].map(|()| random_f64(&mut rng, n));
        let alpha = 0.37;
        let moved: Vec<f64> = (0..n).map(|i| x[i] + alpha * p[i]).collect();
        let residual: Vec<f64> = (0..n).map(|i| r[i] - alpha * q[i]).collect();
        for shape in SHAPES {
            let (mut x, mut r) = (x.clone(), r.clone());
            let mut out = Output::new(shape.0, 2);
            let mut args = vec![scalar(n as u32), scalar(alpha), read(&p), read(&q)];
            args.extend([read(&inverse), write(&mut x), write(&mut r)]);
            args.extend(out.args());
            run(&image(), "cg_update", shape, args).unwrap();
            assert_eq!((bits(&x), bits(&r)), (bits(&moved), bits(&residual)));

            let total = (shape.0 * shape.1) as usize;
            let sum = |term: &dyn Fn(usize) -> f64| {
                let thread = |t| (t..n).step_by(total).fold(0.0, |sum, i| sum + term(i));
                let threads: Vec<f64> = (0..total).map(thread).collect();
                literal_finish(&threads, shape.1 as usize)
            };
            let expected = [
                sum(&|i| residual[i] * (inverse[i] * residual[i])),
                sum(&|i| residual[i] * residual[i]),
            ];
            assert_eq!(bits(&out.values()), bits(&expected), "{n} {shape:?}");
        }
    }
}

#[test]
fn factors_from_the_device_give_the_same_as_factors_from_the_host() {
    let mut rng = fastrand::Rng::with_seed(7);
    for n in [0, 1, 100, 3000] {
        let [p, q, inverse, x, r] = [(); 5].map(|()| random_f64(&mut rng, n));
        let cell = |values| [CellWords::from(Cell::new(values, 0))];
        let (before, curvature) = (cell([0.7, 8.0]), cell([-0.3, 9.0]));
        let update = |kernel: &str, factor: Vec<TwinArg<'_>>| {
            let (mut x, mut r) = (x.clone(), r.clone());
            let mut out = Output::new(3, 2);
            let mut args = vec![scalar(n as u32)];
            args.extend(factor);
            args.extend([read(&p), read(&q), read(&inverse), write(&mut x)]);
            args.push(write(&mut r));
            args.extend(out.args());
            run(&image(), kernel, (3, 96), args).unwrap();
            (bits(&x), bits(&r), out.values())
        };
        let wanted = update("cg_update", vec![scalar(0.7 / -0.3)]);
        let (x, r, values) = update("cg_update_by", vec![read(&before), read(&curvature)]);
        assert_eq!((x, r, bits(&values)), (wanted.0, wanted.1, bits(&wanted.2)));

        let after = cell([0.4, 0.25]);
        let (mut by_host, mut by_device) = (p.clone(), p.clone());
        let mut args = vec![scalar(n as u32), scalar(0.4 / 0.7), read(&inverse)];
        args.extend([read(&q), write(&mut by_host)]);
        run(&image(), "cg_direction", (3, 96), args).unwrap();
        let mut out = Output::new(0, 0);
        let mut args = vec![scalar(n as u32), read(&before), read(&curvature)];
        args.extend([
            read(&after),
            read(&inverse),
            read(&q),
            write(&mut by_device),
        ]);
        args.extend([write(&mut out.cell), scalar(SEQUENCE)]);
        run(&image(), "cg_direction_by", (3, 96), args).unwrap();
        assert_eq!(bits(&by_host), bits(&by_device));
        assert_eq!(out.values(), [-0.3, 0.25]);
    }
}

#[test]
fn the_kernels_together_solve_a_system() {
    let a = Csr::laplacian(40);
    let n = a.rows() as usize;
    let known = random_f64(&mut fastrand::Rng::with_seed(6), n);
    let inverse: Vec<f64> = (0..n).map(|i| 1.0 / a.row(i).next().unwrap().1).collect();
    let lanes = cg_lanes(a.rows(), a.values.len() as u32);
    let (spmv_shape, shape) = (cg_shape(a.rows(), lanes), cg_shape(a.rows(), 1));
    let (mut x, mut p) = (vec![0.0; n], vec![0.0; n]);
    let (mut r, _) = spmv_dot(&a, &known, lanes, spmv_shape);

    let update = |alpha: f64, p: &[f64], q: &[f64], x: &mut [f64], r: &mut [f64]| {
        let mut out = Output::new(shape.0, 2);
        let mut args = vec![scalar(n as u32), scalar(alpha), read(p), read(q)];
        args.extend([read(&inverse), write(x), write(r)]);
        args.extend(out.args());
        run(&image(), "cg_update", shape, args).unwrap();
        out.values()
    };
    let direction = |beta: f64, r: &[f64], p: &mut [f64]| {
        let mut args = vec![scalar(n as u32), scalar(beta), read(&inverse)];
        args.extend([read(r), write(p)]);
        run(&image(), "cg_direction", shape, args).unwrap();
    };
    let [mut rdr, start] = update(0.0, &p, &vec![0.0; n], &mut x, &mut r);
    direction(0.0, &r, &mut p);
    let (mut now, mut rounds) = (start, 0);
    while now > 1e-26 * start {
        let (q, pq) = spmv_dot(&a, &p, lanes, spmv_shape);
        let [next, rr] = update(rdr / pq, &p, &q, &mut x, &mut r);
        direction(next / rdr, &r, &mut p);
        (rdr, now, rounds) = (next, rr, rounds + 1);
        assert!(rounds < 200, "{now} after {rounds} rounds");
    }
    let error = x.iter().zip(&known).map(|(x, k)| (x - k).abs());
    assert!(error.fold(0.0, f64::max) < 1e-11);
}

#[test]
fn lanes_and_shapes_suit_the_matrix() {
    let lanes: Vec<u32> = [0, 99, 100, 300, 500, 2700, 3200, 900_000]
        .map(|nnz| cg_lanes(100, nnz))
        .into();
    assert_eq!(lanes, [1, 1, 1, 2, 4, 16, 32, 32]);
    assert_eq!(cg_lanes(0, 0), 1);
    assert_eq!(cg_shape(0, 1), (1, 256));
    assert_eq!(cg_shape(1000, 4), (16, 256));
    assert_eq!(cg_shape(u32::MAX, 32), (1056, 256));
}

#[test]
fn a_matrix_that_reaches_outside_is_refused() {
    let refused = |row_start: [u32; 3], columns: [u32; 2], lanes: u32| {
        let mut q = [0.0; 2];
        let mut out = Output::new(1, 1);
        let mut args = vec![
            scalar(2u32),
            scalar(lanes),
            read(&row_start),
            read(&columns),
        ];
        args.extend([read(&[1.0, 1.0]), read(&[1.0, 1.0]), write(&mut q)]);
        args.extend(out.args());
        let error = run(&image(), "cg_spmv_dot", (1, 32), args).unwrap_err();
        error.to_string()
    };
    assert!(refused([0, 1, 3], [0, 1], 1).contains("row 1 reaches entries 1..3"));
    assert!(refused([0, 2, 1], [0, 1], 1).contains("row 1 reaches entries 2..1"));
    assert!(refused([0, 1, 2], [0, 2], 1).contains("column 2"));
    for lanes in [0, 3, 64] {
        assert!(refused([0, 1, 2], [0, 1], lanes).contains("lanes"));
    }
}
