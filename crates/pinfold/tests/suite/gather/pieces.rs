//! Pieces of mixed sizes, copied both ways.

use super::{Bench, bytes};
use crate::common::{Machine, everywhere, once_and_on_real_devices, options};
use pinfold::kernels::gather::{ITEMS_MAX, Piece, PieceList};
use pinfold::kernels::splitmix64;
use pinfold_hal_sim::Policy;

/// Pieces of the sizes given, at odd places and without overlap, in the order of their sources.
fn scattered_pieces(sizes: &[u64]) -> (Vec<Piece>, u64) {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|n| splitmix64(*n as u64));
    let mut pieces = vec![
        Piece {
            from: 0,
            to: 0,
            bytes: 0
        };
        sizes.len()
    ];
    let mut at = 0;
    for n in order {
        at += splitmix64(n as u64) % 40;
        pieces[n].to = at;
        at += sizes[n];
    }
    let mut from = 0;
    for (n, piece) in pieces.iter_mut().enumerate() {
        from += splitmix64(n as u64 ^ 0x77) % 40;
        (piece.from, piece.bytes) = (from, sizes[n]);
        from += sizes[n];
    }
    (pieces, at.max(from) + 5)
}

/// Copies pieces from the host and to the host, and compares.
fn copies(bench: &mut Bench, sizes: &[u64]) {
    let (pieces, held) = scattered_pieces(sizes);
    let (from, before) = (bytes(held as usize, 5), bytes(held as usize, 6));
    let mut want = before.clone();
    for piece in &pieces {
        let [start, to, bytes] = [piece.from, piece.to, piece.bytes].map(|n| n as usize);
        want[to..to + bytes].copy_from_slice(&from[start..start + bytes]);
    }
    let list = PieceList::new(&bench.memory, &pieces).unwrap();
    assert_eq!(list.bytes(), sizes.iter().sum::<u64>());
    let mut there = bench.on_device(&before);
    let up = bench
        .gather
        .pieces(&bench.stream, &list, &bench.lent(&from), &mut there);
    up.unwrap();
    assert!(bench.back(&there) == want, "{} pieces up", sizes.len());
    let mut here = bench.shared(&before);
    let down = bench
        .gather
        .pieces(&bench.stream, &list, &bench.on_device(&from), &mut here);
    down.unwrap();
    assert!(*here.wait().unwrap() == want, "{} pieces down", sizes.len());
}

#[test]
fn pieces_are_copied_both_ways_and_nothing_beside_them() {
    everywhere(1, |place| {
        let mut bench = Bench::new(place);
        for sizes in [
            &[][..],
            &[0],
            &[1],
            &[16, 128, 1024],
            &[5, 0, 9000, 31, 16, 2, 777],
        ] {
            copies(&mut bench, sizes);
        }
    });
    once_and_on_real_devices(1, |place| {
        let mut bench = Bench::new(place);
        let mixed: Vec<u64> = (0..3000).map(|n| splitmix64(n) % 700).collect();
        copies(&mut bench, &mixed);
        copies(
            &mut bench,
            &[3 << 20, 1, (1 << 20) + 13, 8192, 8193, 77_777],
        );
    });
}

#[test]
fn pieces_that_do_not_fit_are_refused() {
    let machine = Machine::new(options(), Policy::Eager);
    let bench = Bench::on(&machine.device(0));
    let piece = |from, to, bytes| Piece { from, to, bytes };
    let too_long = piece(0, 0, (ITEMS_MAX << 13) + 1);
    for (pieces, words) in [
        (vec![piece(0, 10, 5), piece(9, 3, 8)], "share bytes"),
        (vec![piece(0, 7, 1), piece(5, 7, 1)], "share bytes"),
        (vec![piece(u64::MAX, 0, 1)], "beyond all memory"),
        (vec![piece(0, u64::MAX, 1)], "beyond all memory"),
        (vec![too_long], "make several lists"),
    ] {
        let error = PieceList::new(&bench.memory, &pieces)
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
    }
    let apart = [piece(3, 10, 5), piece(0, 15, 1), piece(0, 12, 0)];
    let list = PieceList::new(&bench.memory, &apart).unwrap();
    let (from, mut to) = (bench.on_device(&[0u8; 8]), bench.on_device(&[0u8; 15]));
    let refused = bench.gather.pieces(&bench.stream, &list, &from, &mut to);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("byte 16 of a target of 15"), "{error}");
    let mut to = bench.on_device(&[0u8; 16]);
    let short = from.slice(0..7).unwrap();
    let refused = bench.gather.pieces(&bench.stream, &list, &short, &mut to);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("byte 8 of a source of 7"), "{error}");
    bench
        .gather
        .pieces(&bench.stream, &list, &from, &mut to)
        .unwrap();
}
