//! The twins of the gather kernels, against plain loops.

use super::*;
use crate::gather::{
    ITEM_BYTES, Piece, PieceWords, RowNumber, WINDOWS_MAX, Windows, image, list_shape,
    pieces_shape, rows_shape, taken_words,
};
use crate::memory::splitmix64;

const NO_ORDER: u64 = 0;

fn bytes(n: usize, salt: u64) -> Vec<u8> {
    (0..n)
        .map(|i| splitmix64(i as u64 ^ salt << 40) as u8)
        .collect()
}

/// A list with repetitions, and with numbers that are no row.
fn list<I: TryFrom<u64>>(n: usize, rows: u64, outside_every: usize) -> Vec<I> {
    let number = |i: usize| match (i + 1).is_multiple_of(outside_every) || rows == 0 {
        true => rows + splitmix64(i as u64) % 1000,
        false => splitmix64(i as u64 ^ 0x55) % rows,
    };
    (0..n)
        .map(|i| I::try_from(number(i)).ok().unwrap())
        .collect()
}

/// The number of elements that are no row, and the first of them.
fn outside<I: RowNumber>(index: &[I], rows: u64) -> [f64; 2] {
    let is_outside = |number: &&I| number.row() >= rows;
    let first = index.iter().position(|number| number.row() >= rows);
    let count = index.iter().filter(is_outside).count();
    [count as f64, first.unwrap_or(index.len()) as f64]
}

struct Table {
    rows: usize,
    row_bytes: usize,
    content: Vec<u8>,
}

impl Table {
    fn new(rows: usize, row_bytes: usize) -> Self {
        Table {
            rows,
            row_bytes,
            content: bytes(rows * row_bytes, 1),
        }
    }

    fn gather<I: RowNumber>(&self, index: &[I], order: Option<&[u32]>) -> (Vec<u8>, [f64; 2]) {
        let n = index.len();
        let shape = rows_shape(n as u64, self.row_bytes as u64);
        let (mut to, mut out) = (vec![0xee; n * self.row_bytes], Output::new(shape.0, 2));
        let mut args = vec![
            read(&self.content),
            scalar(self.rows as u64),
            scalar(self.row_bytes as u64),
            read(index),
            scalar(I::BYTES),
            order.map_or(scalar(NO_ORDER), read),
            scalar(n as u64),
            write(&mut to),
        ];
        args.extend(out.args());
        run(&image(), "gather_rows", shape, args).unwrap();
        (to, out.values())
    }

    fn scatter<I: RowNumber>(
        &mut self,
        index: &[I],
        order: Option<&[u32]>,
        from: &[u8],
    ) -> [f64; 2] {
        let n = index.len();
        let shape = rows_shape(n as u64, self.row_bytes as u64);
        let mut out = Output::new(shape.0, 2);
        let mut args = vec![
            write(&mut self.content),
            scalar(self.rows as u64),
            scalar(self.row_bytes as u64),
            read(index),
            scalar(I::BYTES),
            order.map_or(scalar(NO_ORDER), read),
            scalar(n as u64),
            read(from),
        ];
        args.extend(out.args());
        run(&image(), "scatter_rows", shape, args).unwrap();
        out.values()
    }

    fn row(&self, row: u64) -> Option<&[u8]> {
        self.content.chunks_exact(self.row_bytes).nth(row as usize)
    }
}

/// Reversed: no order that a loop would have by accident.
fn backwards(n: usize) -> Vec<u32> {
    (0..n as u32).rev().collect()
}

fn gathers<I: RowNumber + TryFrom<u64>>() {
    for row_bytes in [1, 2, 3, 7, 8, 16, 48, 100, 128, 1024, 4097] {
        for (rows, n) in [(0, 0), (0, 3), (1, 1), (1, 5), (37, 0), (37, 101)] {
            let table = Table::new(rows, row_bytes);
            let index = list::<I>(n, rows as u64, 10);
            let want: Vec<u8> = index
                .iter()
                .flat_map(|number| match table.row(number.row()) {
                    Some(row) => row.to_vec(),
                    None => vec![0; row_bytes],
                })
                .collect();
            let got = table.gather(&index, None);
            assert!(got == (want, outside(&index, rows as u64)), "{rows} {n}");
            assert!(table.gather(&index, Some(&backwards(n))) == got);
        }
    }
}

#[test]
fn gathered_rows_are_those_of_a_loop() {
    gathers::<u32>();
    gathers::<u64>();
}

#[test]
fn an_order_that_is_none_moves_what_it_names_and_counts_the_rest() {
    let table = Table::new(10, 4);
    let index = [3u32, 99, 7];
    // Element 0 not at all, element 2 twice, and one that is not there.
    let (to, found) = table.gather(&index, Some(&[2, 4, 2]));
    assert_eq!(to[..8], [0xee; 8]);
    assert_eq!(Some(&to[8..]), table.row(7));
    assert_eq!(found, [1.0, 3.0], "no row, and no place");
    let (_, found) = table.gather(&index, Some(&[7, 1, u32::MAX]));
    assert_eq!(found, [3.0, 1.0]);
}

#[test]
fn scattered_rows_are_those_of_a_loop_and_gathered_back() {
    for row_bytes in [1, 3, 16, 100, 4097] {
        for (rows, n) in [(0, 0), (0, 3), (1, 1), (64, 33)] {
            // Every row at most once: 37 and 64 have no common divisor.
            let mut index: Vec<u64> = (0..n).map(|i| i * 37 % 64).collect();
            if n > 20 {
                index[20] = rows;
            }
            let from = bytes(n as usize * row_bytes, 2);
            let mut want = Table::new(rows as usize, row_bytes);
            for (number, row) in index.iter().zip(from.chunks_exact(row_bytes)) {
                let start = *number as usize * row_bytes;
                if *number < rows {
                    want.content[start..start + row_bytes].copy_from_slice(row);
                }
            }
            for order in [None, Some(backwards(n as usize))] {
                let mut table = Table::new(rows as usize, row_bytes);
                let found = table.scatter(&index, order.as_deref(), &from);
                assert_eq!(found, outside(&index, rows));
                assert!(table.content == want.content, "{row_bytes} {rows} {n}");
                assert_eq!(table.gather(&index, None).1, found);
            }
        }
    }
}

#[test]
fn launches_that_would_leave_their_memory_are_refused() {
    let (memory, list) = ([0u8; 64], [0u32; 4]);
    let gather = |rows: u64, row_bytes: u64, number_bytes: u32, n: u64, order: TwinArg<'_>| {
        let (mut to, mut out) = (vec![0u8; 64], Output::new(1, 2));
        let mut args = vec![
            read(&memory),
            scalar(rows),
            scalar(row_bytes),
            read(&list),
            scalar(number_bytes),
            order,
            scalar(n),
            write(&mut to),
        ];
        args.extend(out.args());
        run(&image(), "gather_rows", (1, 32), args)
    };
    let none = || scalar(NO_ORDER);
    assert_eq!(gather(4, 16, 4, 4, none()), Ok(()));
    for (refused, word) in [
        (gather(5, 16, 4, 4, none()), "`table` covers 64"),
        (gather(4, 16, 4, 5, none()), "`to` covers 64"),
        (gather(64, 1, 4, 5, none()), "`index` covers 4"),
        (gather(64, 1, 8, 3, none()), "`index` covers 2"),
        (gather(4, 16, 4, 4, read(&list[1..])), "`order` covers 3"),
        (gather(4, 16, 2, 4, none()), "4 or 8"),
        (gather(4, 0, 4, 4, none()), "of 0 bytes"),
        (gather(u64::MAX, 16, 4, 4, none()), "no memory is like that"),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn items_cover_their_piece_once() {
    for size in [0, 1, 17, ITEM_BYTES, ITEM_BYTES + 1, 5 * ITEM_BYTES - 1] {
        let piece = Piece {
            from: 1001,
            to: 3,
            bytes: size,
        };
        let (mut rest, mut done) = (piece, 0);
        for _ in 0..piece.item_count() {
            let [from, to, bytes] = rest.cut_item();
            assert_eq!([from, to], [piece.from + done, piece.to + done]);
            assert!(0 < bytes && bytes <= ITEM_BYTES);
            done += bytes;
        }
        assert_eq!(rest.bytes, 0);
        assert_eq!(done, size);
    }
}

#[test]
fn pieces_are_copied_and_nothing_beside_them() {
    let from = bytes(40_000, 3);
    let mut items: Vec<PieceWords> = Vec::new();
    let mut want = vec![0xee; 40_000];
    let mut to = want.clone();
    let mut at = 5;
    for bytes in [1, 2, 15, 16, 17, 333, 4096, 9001, 20_011] {
        let piece = Piece {
            from: splitmix64(bytes) % (40_000 - bytes),
            to: at,
            bytes,
        };
        let mut rest = piece;
        items.extend((0..piece.item_count()).map(|_| rest.cut_item()));
        let (start, end) = (piece.from as usize, piece.from_end().unwrap() as usize);
        want[at as usize..(at + bytes) as usize].copy_from_slice(&from[start..end]);
        at += bytes + 3;
    }
    let copy = |to: &mut [u8], items: &[PieceWords]| {
        let n = items.len() as u64;
        let args = vec![read(&from), write(to), read(items), scalar(n)];
        run(&image(), "copy_pieces", pieces_shape(n), args)
    };
    assert_eq!(copy(&mut to, &items), Ok(()));
    assert!(to == want);
    assert_eq!(copy(&mut to, &[]), Ok(()));
    for item in [
        [39_999, 0, 2],
        [0, 39_999, 2],
        [u64::MAX, 0, 1],
        [0, 0, u64::MAX],
    ] {
        let error = copy(&mut to, &[item]).unwrap_err().to_string();
        assert!(error.contains("item 0"), "{error}");
    }
}

fn checked(name: &str, index: &[u32], rows: u64, taken: Option<&mut [u32]>) -> [f64; 2] {
    let shape = list_shape(index.len() as u64);
    let mut out = Output::new(shape.0, 2);
    let n = index.len() as u64;
    let mut args = vec![read(index), scalar(4u32), scalar(n), scalar(rows)];
    args.extend(taken.map(write));
    args.extend(out.args());
    run(&image(), name, shape, args).unwrap();
    out.values()
}

#[test]
fn what_is_no_row_and_what_is_repeated_is_counted() {
    for (n, rows, every) in [
        (0, 0, 9),
        (0, 9, 9),
        (500, 0, 9),
        (1000, 333, 77),
        (9, 64, 99),
    ] {
        let index = list::<u32>(n, rows, every);
        let [count, first] = outside(&index, rows);
        let found = checked("check_indices", &index, rows, None);
        assert_eq!(found, [count, first]);
        let mut distinct: Vec<u32> = index.clone();
        distinct.retain(|row| u64::from(*row) < rows);
        let inside = distinct.len();
        distinct.sort_unstable();
        distinct.dedup();
        let mut taken = vec![0; taken_words(rows) as usize];
        let found = checked("check_unique", &index, rows, Some(&mut taken));
        assert_eq!(found, [(inside - distinct.len()) as f64, count]);
        let bits: u32 = taken.iter().map(|word| word.count_ones()).sum();
        assert_eq!(bits as usize, distinct.len());
    }
}

#[test]
fn windows_have_the_size_asked_for_or_the_smallest_possible() {
    let windows = |rows, row_bytes, log2| Windows::new(rows, row_bytes, log2);
    let shape = |w: Windows| (w.log2(), w.count());
    assert_eq!(shape(windows(1 << 26, 128, 26)), (26, 128));
    assert_eq!(shape(windows((1 << 26) + 1, 128, 26)), (26, 129));
    assert_eq!(shape(windows(1 << 26, 128, 3)), (21, WINDOWS_MAX));
    assert_eq!(shape(windows((1 << 26) + 1, 128, 3)), (22, 2049));
    assert_eq!(shape(windows(0, 128, 20)), (20, 1));
    assert_eq!(shape(windows(u64::MAX, 1, 0)), (52, WINDOWS_MAX));
    assert_eq!(shape(windows(100, 1, u32::MAX)), (63, 1));
    assert_eq!(shape(windows(u64::MAX, 2, 20)), (52, WINDOWS_MAX));
    assert_eq!(windows(u64::MAX, 2, 20).of(u64::MAX - 1), WINDOWS_MAX - 1);
    // A row belongs to the window in which it begins.
    let three = windows(10, 100, 9);
    assert_eq!([0, 5, 6, 9].map(|row| three.of(row)), [0, 0, 1, 1]);
    assert_eq!(three.of(10), 1);
}

fn device_order<I: RowNumber>(windows: Windows, index: &[I]) -> Result<Vec<u32>, TwinError> {
    let n = index.len() as u64;
    let mut starts = vec![0u32; windows.count() as usize];
    let (mut ticket, mut order) = ([0u32], vec![u32::MAX; index.len()]);
    let list = || vec![read(index), scalar(I::BYTES), scalar(n)];
    let sizes = || {
        [
            scalar(windows.table_rows()),
            scalar(windows.row_bytes()),
            scalar(windows.log2()),
            scalar(windows.count()),
        ]
    };
    let mut args = list();
    args.extend(sizes());
    args.extend([write(&mut starts), write(&mut ticket)]);
    run(&image(), "window_count", list_shape(n), args)?;
    let mut args = list();
    args.extend(sizes());
    args.extend([write(&mut starts), write(&mut order)]);
    run(&image(), "window_place", list_shape(n), args)?;
    Ok(order)
}

#[test]
fn an_order_is_the_list_sorted_by_window() {
    for (rows, row_bytes, log2) in [(0, 8, 10), (1, 1, 0), (1000, 100, 12), (5000, 128, 7)] {
        for n in [0, 1, 31, 4000] {
            let windows = Windows::new(rows, row_bytes, log2);
            let index = list::<u64>(n, rows, 100);
            let mut want: Vec<u32> = (0..n as u32).collect();
            want.sort_by_key(|element| windows.of(index[*element as usize]));
            assert_eq!(windows.order(&index), Some(want.clone()));
            assert_eq!(device_order(windows, &index), Ok(want));
        }
    }
}

#[test]
fn shapes_keep_as_many_bytes_in_flight_for_every_size_of_row() {
    // 256 KiB, four loads a thread.
    for (row_bytes, unit_bytes) in [(1, 1), (6, 2), (100, 4), (1000, 8), (48, 16), (4096, 16)] {
        let (blocks, threads) = rows_shape(u64::MAX, row_bytes);
        assert_eq!(u64::from(blocks * threads) * 4 * unit_bytes, 256 << 10);
    }
    assert_eq!(rows_shape(0, 128), (1, 256));
    assert_eq!(rows_shape(33, 128), (2, 256));
    assert_eq!(list_shape(u64::MAX), (264, 256));
    assert_eq!(pieces_shape(9), (2, 256));
}
