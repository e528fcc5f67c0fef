//! The built-in kernels give the same bits on a real device and as twins under every policy.

use crate::common::{Place, everywhere};
use pinfold::buffer::DeviceRead;
use pinfold::kernels::cg::{Cg, Csr, HostMatrix, StepCells, UpdateVectors};
use pinfold::kernels::chase::Chaser;
use pinfold::kernels::dot::Dot;
use pinfold::kernels::pattern::Patterns;
use pinfold::kernels::read::Reader;
use pinfold::kernels::splitmix64;
use pinfold::{DeviceBuffer, Element, Memory, Stream};
use std::cell::RefCell;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Runs a computation in every place and compares what it returns, to the bit.
fn same_everywhere(compute: impl Fn(&Place, &Memory, &Stream) -> Vec<u64>) {
    let first = RefCell::new(None);
    everywhere(1, |place| {
        let device = place.device(0);
        let memory = Memory::new(&device);
        let bits = compute(place, &memory, &device.stream().unwrap());
        assert!(bits.len() > 1);
        let mut first = first.borrow_mut();
        let first = first.get_or_insert_with(|| bits.clone());
        let differs = first.iter().zip(&bits).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{}: {} results", place.name, bits.len());
    });
}

/// A number in -1..1 with a full mantissa.
fn number(i: usize, salt: u64) -> f64 {
    splitmix64(i as u64 ^ salt << 32) as i64 as f64 * 2f64.powi(-63)
}

fn upload<T: Element>(memory: &Memory, stream: &Stream, data: &[T]) -> DeviceBuffer<T> {
    let mut host = memory.upload(data.len()).unwrap();
    host.write(0, data).unwrap();
    let mut there = memory.device(data.len()).unwrap();
    drop(stream.upload(host, &mut there).unwrap());
    there
}

fn bits_of(memory: &Memory, stream: &Stream, from: &DeviceBuffer<f64>) -> Vec<u64> {
    let host = memory.download(from.len()).unwrap();
    let host = stream.download(from, host).unwrap().wait().unwrap();
    host.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn sums_of_floats_have_the_same_bits_at_every_length() {
    same_everywhere(|_, memory, stream| {
        let mut dot = Dot::load(memory, stream).unwrap();
        let mut reader = Reader::load(memory, stream).unwrap();
        let mut cell = memory.scalar_cell().unwrap();
        let mut bits = Vec::new();
        for n in [0, 1, 3, 4, 5, 31, 33, 511, 513, 4097, 100_003] {
            let fill = |salt| {
                let mut buffer = memory.upload_in_place::<f32>(n).unwrap();
                buffer.write_each(|i| number(i, salt) as f32);
                buffer.lend()
            };
            let (a, b) = (fill(1), fill(2));
            let expected = dot.run(stream, &a, &b, &mut cell).unwrap();
            bits.extend(cell.wait(expected, LIMIT).unwrap().map(f64::to_bits));
            let expected = reader.run(stream, &a, &mut cell).unwrap();
            bits.push(cell.wait(expected, LIMIT).unwrap()[0].to_bits());
        }
        bits
    });
}

/// A matrix with rows of very different lengths, some empty.
fn ragged(rows: usize, longest: usize) -> (Vec<u32>, Vec<u32>, Vec<f64>) {
    let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in 0..rows {
        for entry in 0..splitmix64(row as u64) as usize % (longest + 1) {
            columns.push((splitmix64((row * 131 + entry) as u64) % rows as u64) as u32);
            values.push(number(row * 977 + entry, 3));
        }
        starts.push(columns.len() as u32);
    }
    (starts, columns, values)
}

#[test]
fn steps_of_conjugate_gradients_have_the_same_bits() {
    same_everywhere(|_, memory, stream| {
        let mut bits = Vec::new();
        for (rows, longest) in [(1, 1), (77, 3), (1000, 9), (513, 40), (100, 99)] {
            let (starts, columns, values) = ragged(rows, longest);
            let csr = Csr::new(&starts, &columns, &values).unwrap();
            let (flying, on_device) = HostMatrix::new(memory, &csr, false)
                .unwrap()
                .upload(memory, stream)
                .unwrap();
            step(memory, stream, rows, &on_device, &mut bits);
            drop(flying);
            let in_place = HostMatrix::new(memory, &csr, true).unwrap().lend();
            step(memory, stream, rows, &in_place, &mut bits);
        }
        bits
    });
}

fn step<I, V>(
    memory: &Memory,
    stream: &Stream,
    rows: usize,
    matrix: &pinfold::kernels::cg::Matrix<I, V>,
    bits: &mut Vec<u64>,
) where
    I: DeviceRead<Item = u32>,
    V: DeviceRead<Item = f64>,
{
    let mut cg = Cg::load(memory, stream).unwrap();
    let mut cell = memory.scalar_cell().unwrap();
    let vector = |salt| {
        let data: Vec<f64> = (0..rows).map(|i| number(i, salt)).collect();
        upload(memory, stream, &data)
    };
    let (mut p, mut x, mut r, inverse_diagonal) = (vector(4), vector(5), vector(6), vector(7));
    let mut q = memory.device(rows).unwrap();
    let expected = cg.spmv_dot(stream, matrix, &p, &mut q, &mut cell).unwrap();
    bits.push(cell.wait(expected, LIMIT).unwrap()[0].to_bits());
    let vectors = UpdateVectors {
        p: &p,
        q: &q,
        inverse_diagonal: &inverse_diagonal,
        x: &mut x,
        r: &mut r,
    };
    let expected = cg.update(stream, 0.3, vectors, &mut cell).unwrap();
    bits.extend(cell.wait(expected, LIMIT).unwrap().map(f64::to_bits));
    cg.direction(stream, -0.7, &inverse_diagonal, &r, &mut p)
        .unwrap();
    // And once more, without the host.
    let [mut before, mut curvature, mut after] = [(); 3].map(|()| memory.device(1).unwrap());
    let mut q_again = memory.device(rows).unwrap();
    cg.spmv_dot(stream, matrix, &p, &mut q_again, &mut curvature)
        .unwrap();
    for by_device in [false, true] {
        let vectors = UpdateVectors {
            p: &p,
            q: &q_again,
            inverse_diagonal: &inverse_diagonal,
            x: &mut x,
            r: &mut r,
        };
        match by_device {
            false => cg.update(stream, 0.0, vectors, &mut before),
            true => cg.update_by(stream, &before, &curvature, vectors, &mut after),
        }
        .unwrap();
    }
    let cells = StepCells {
        before: &before,
        curvature: &curvature,
        after: &after,
    };
    let expected = cg
        .direction_by(stream, cells, &inverse_diagonal, &r, &mut p, &mut cell)
        .unwrap();
    bits.extend(cell.wait(expected, LIMIT).unwrap().map(f64::to_bits));
    for buffer in [&q, &x, &r, &p] {
        bits.extend(bits_of(memory, stream, buffer));
    }
}

#[test]
fn patterns_are_filled_and_found_broken_with_the_same_bits() {
    same_everywhere(|_, memory, stream| {
        let mut patterns = Patterns::load(memory, stream).unwrap();
        let n = 70_001;
        let mut words = memory.device::<u64>(n).unwrap();
        patterns.fill(stream, &mut words, 9).unwrap();
        let mut cell = memory.scalar_cell().unwrap();
        let mut bits = Vec::new();
        // The pattern itself, another one, and one that is right but for a few words.
        for (seed, differ) in [(9, 0.0), (10, n as f64)] {
            let promise = patterns.check(stream, &words, seed, &mut cell).unwrap();
            let [count, first] = cell.wait(promise, LIMIT).unwrap();
            assert_eq!(count, differ);
            bits.extend([count, first].map(f64::to_bits));
        }
        let mut zeros = memory.upload::<u64>(3).unwrap();
        zeros.write_each(|_| 0);
        drop(stream.upload_part(zeros, 0..3, &mut words, 400).unwrap());
        let promise = patterns.check(stream, &words, 9, &mut cell).unwrap();
        assert_eq!(cell.wait(promise, LIMIT).unwrap(), [3.0, 400.0]);
        let host = memory.download(n).unwrap();
        let host = stream.download(&words, host).unwrap().wait().unwrap();
        assert_eq!(host[n - 1], splitmix64(9 + n as u64 - 1));
        bits.extend(host.iter());
        bits
    });
}

#[test]
fn strided_checks_and_dependent_loads_give_the_same_bits_in_place_and_on_the_device() {
    same_everywhere(|_, memory, stream| {
        let mut patterns = Patterns::load(memory, stream).unwrap();
        let mut chaser = Chaser::load(memory, stream).unwrap();
        let mut cell = memory.scalar_cell().unwrap();
        let mut bits = Vec::new();
        let n = 70_001;
        let mut host = memory.zero_copy::<u64>(n).unwrap();
        for (i, word) in (0u64..).zip(host.iter_mut()) {
            *word = splitmix64(i + 9);
        }
        host[5000] ^= 1 << 35; // half word 10001
        host[60_000] ^= 1; // half word 120000
        let mut there = memory.device::<u64>(n).unwrap();
        let host = stream.upload(host, &mut there).unwrap();
        for (stride, found) in [
            (4, [2.0, 10_001.0]),
            (8, [1.0, 120_000.0]),
            (12, [1.0, 120_000.0]),
            (1 << 20, [0.0, 2.0 * n as f64]),
        ] {
            let promise = patterns.check_strided(stream, &host, stride, 9, &mut cell);
            assert_eq!(cell.wait(promise.unwrap(), LIMIT).unwrap(), found);
            let promise = patterns.check_strided(stream, &there, stride, 9, &mut cell);
            assert_eq!(cell.wait(promise.unwrap(), LIMIT).unwrap(), found);
            bits.extend(found.map(f64::to_bits));
        }
        for stride in [0, 3] {
            let refused = patterns.check_strided(stream, &host, stride, 9, &mut cell);
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("multiples of 4"), "{text}");
        }
        let places = 1000;
        let mut ring = memory.zero_copy::<u32>(places).unwrap();
        for (i, place) in (0u32..).zip(ring.iter_mut()) {
            *place = (i + 37) % 1000;
        }
        ring[37 * 20] = u32::MAX; // no place: back to the first
        let ring = ring.lend();
        for (steps, end) in [(0, 0.0), (20, 740.0), (21, 0.0), (23, 74.0)] {
            let promise = chaser.run(stream, &ring, steps, &mut cell).unwrap();
            assert_eq!(cell.wait(promise, LIMIT).unwrap(), [end, 0.0], "{steps}");
            bits.push(end.to_bits());
        }
        let nowhere = memory.zero_copy::<u32>(0).unwrap().lend();
        let promise = chaser.run(stream, &nowhere, 9, &mut cell).unwrap();
        assert_eq!(cell.wait(promise, LIMIT).unwrap(), [0.0, 0.0]);
        bits
    });
}
