//! Scattered rows and pieces: the same as plain loops, in every place and order.

mod pieces;

use crate::common::{Machine, Place, everywhere, once_and_on_real_devices, options};
use pinfold::buffer::{DeviceRead, DeviceWrite};
use pinfold::kernels::gather::{Gather, Order, RowNumber, Rows, RowsMut, Windows, taken_words};
use pinfold::kernels::splitmix64;
use pinfold::{
    DeviceBuffer, Element, Error, InFlight, Memory, ScalarCell, Stream, UploadBuffer,
    ZeroCopyBuffer,
};
use pinfold_hal_sim::Policy;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// What a test works with in one place.
struct Bench {
    memory: Memory,
    stream: Stream,
    gather: Gather,
    cell: ScalarCell,
}

impl Bench {
    fn new(place: &Place) -> Self {
        Bench::on(&place.device(0))
    }

    fn on(device: &pinfold::Device) -> Self {
        let (memory, stream) = (Memory::new(device), device.stream().unwrap());
        Bench {
            gather: Gather::load(&memory, &stream).unwrap(),
            cell: memory.scalar_cell().unwrap(),
            memory,
            stream,
        }
    }

    fn lent<T: Element>(&self, data: &[T]) -> InFlight<UploadBuffer<T>> {
        let mut buffer = self.memory.upload_in_place(data.len()).unwrap();
        buffer.write(0, data).unwrap();
        buffer.lend()
    }

    fn on_device<T: Element>(&self, data: &[T]) -> DeviceBuffer<T> {
        let mut buffer = self.memory.device(data.len()).unwrap();
        drop(self.stream.upload(self.lent(data), &mut buffer).unwrap());
        buffer
    }

    fn shared<T: Element>(&self, data: &[T]) -> InFlight<ZeroCopyBuffer<T>> {
        let mut buffer = self.memory.zero_copy(data.len()).unwrap();
        buffer.copy_from_slice(data);
        buffer.lend()
    }

    fn back<T: Element>(&self, from: &DeviceBuffer<T>) -> Vec<T> {
        let host = self.memory.download(from.len()).unwrap();
        let host = self.stream.download(from, host).unwrap();
        host.wait().unwrap().to_vec()
    }

    fn gathered<D, I>(&mut self, table: &Rows<'_, D>, index: &I) -> (Vec<u8>, [f64; 2])
    where
        D: DeviceRead<Item = u8>,
        I: DeviceRead<Item: RowNumber>,
    {
        let bytes = index.elements() * table.windows(0).row_bytes() as usize;
        let mut to = self.on_device(&vec![0xee; bytes]);
        let (stream, cell) = (&self.stream, &mut self.cell);
        let found = self
            .gather
            .rows(stream, table, index, &mut to, cell)
            .unwrap();
        let found = self.cell.wait(found, LIMIT).unwrap();
        (self.back(&to), found)
    }

    fn gathered_in_order<D, I>(
        &mut self,
        table: &Rows<'_, D>,
        index: &I,
        order: &impl DeviceRead<Item = u32>,
    ) -> (Vec<u8>, [f64; 2])
    where
        D: DeviceRead<Item = u8>,
        I: DeviceRead<Item: RowNumber>,
    {
        let bytes = index.elements() * table.windows(0).row_bytes() as usize;
        let mut to = self.on_device(&vec![0xee; bytes]);
        let (stream, cell) = (&self.stream, &mut self.cell);
        let order = Order::new(order, table.windows(26));
        let found = self
            .gather
            .rows_ordered(stream, table, index, &order, &mut to, cell);
        let found = self.cell.wait(found.unwrap(), LIMIT).unwrap();
        (self.back(&to), found)
    }

    fn order<I>(&mut self, windows: Windows, index: &I) -> DeviceBuffer<u32>
    where
        I: DeviceRead<Item: RowNumber>,
    {
        let mut order = self.memory.device(index.elements()).unwrap();
        let ordered = self
            .gather
            .order_by_window(&self.stream, windows, index, &mut order);
        ordered.unwrap();
        order
    }
}

fn bytes(n: usize, salt: u64) -> Vec<u8> {
    (0..n)
        .map(|i| splitmix64(i as u64 ^ salt << 40) as u8)
        .collect()
}

/// Row numbers with repetitions, about one in eight of them no row.
fn list<I: TryFrom<u64>>(n: usize, rows: usize) -> Vec<I> {
    let numbers = (0..n as u64).map(|i| splitmix64(i) % (rows as u64 + rows as u64 / 7 + 1));
    numbers.map(|row| I::try_from(row).ok().unwrap()).collect()
}

/// What gathering gives, by a plain loop.
fn gathered_by_hand<I: RowNumber>(
    table: &[u8],
    row_bytes: usize,
    index: &[I],
) -> (Vec<u8>, [f64; 2]) {
    let rows: Vec<&[u8]> = table.chunks_exact(row_bytes).collect();
    let (mut to, mut outside) = (Vec::new(), Vec::new());
    for (i, number) in index.iter().enumerate() {
        match rows.get(usize::try_from(number.row()).unwrap()) {
            Some(row) => to.extend_from_slice(row),
            None => {
                to.resize(to.len() + row_bytes, 0);
                outside.push(i);
            }
        }
    }
    let first = outside.first().copied().unwrap_or(index.len());
    (to, [outside.len() as f64, first as f64])
}

/// Gathers from host memory, in every order there is, and compares.
fn gathers<I>(bench: &mut Bench, rows: usize, row_bytes: usize, n: usize, offset: usize)
where
    I: RowNumber + Element + TryFrom<u64>,
{
    let content = bytes(offset + rows * row_bytes, 1);
    let index = list::<I>(n, rows);
    let want = gathered_by_hand(&content[offset..], row_bytes, &index);
    let whole = bench.lent(&content);
    let table = whole.slice(offset..content.len()).unwrap();
    let table = Rows::new(&table, row_bytes).unwrap();
    let (near, far) = (bench.on_device(&index), bench.lent(&index));
    let what = format!("{rows} rows of {row_bytes} bytes at {offset}, {n} elements");
    assert!(bench.gathered(&table, &near) == want, "{what}");
    assert!(
        bench.gathered(&table, &far) == want,
        "index in place: {what}"
    );
    let windows = table.windows(10);
    let order = bench.order(windows, &near);
    assert!(
        bench.gathered_in_order(&table, &near, &order) == want,
        "{what}"
    );
    let order = bench.lent(&windows.order(&index).unwrap());
    assert!(
        bench.gathered_in_order(&table, &near, &order) == want,
        "{what}"
    );
}

#[test]
fn gathered_rows_are_those_of_a_loop() {
    everywhere(1, |place| {
        let mut bench = Bench::new(place);
        for (rows, row_bytes, n, offset) in [(40, 128, 99, 0), (9, 33, 50, 1), (1, 6, 3, 2)] {
            gathers::<u32>(&mut bench, rows, row_bytes, n, offset);
            gathers::<u64>(&mut bench, rows, row_bytes, n, offset);
        }
    });
}

#[test]
fn rows_of_every_size_and_alignment_are_gathered() {
    once_and_on_real_devices(1, |place| {
        let mut bench = Bench::new(place);
        let sizes = (1..=70).chain([96, 100, 127, 128, 129, 272, 1000, 1024, 2050, 4096, 4097]);
        for row_bytes in sizes {
            for (rows, n) in [(0, 2), (3, 0), (1, 1), (61, 301)] {
                let offset = splitmix64((row_bytes * 64 + n) as u64) as usize % 17;
                gathers::<u32>(&mut bench, rows, row_bytes, n, offset);
                gathers::<u64>(&mut bench, rows, row_bytes, n, 16);
            }
        }
        // More than one round of the whole grid.
        gathers::<u32>(&mut bench, 5000, 16, 400_003, 0);
        gathers::<u64>(&mut bench, 100_000, 5, 300_001, 3);
    });
}

/// Scatters into host memory and into device memory, with and without order, and compares.
fn scatters(bench: &mut Bench, rows: usize, row_bytes: usize, n: usize) {
    let before = bytes(rows * row_bytes, 2);
    let from = bytes(n * row_bytes, 3);
    // Every row at most once, and one that is none.
    let mut index: Vec<u32> = (0..n.max(rows) as u32).collect();
    index.sort_by_key(|row| splitmix64((*row).into()));
    index.truncate(n);
    let (mut want, mut outside) = (before.clone(), 0.0);
    for (row, part) in index.iter().zip(from.chunks_exact(row_bytes)) {
        let start = *row as usize * row_bytes;
        match want.get_mut(start..start + row_bytes) {
            Some(place) => place.copy_from_slice(part),
            None => outside += 1.0,
        }
    }
    let (from, list) = (bench.on_device(&from), bench.on_device(&index));
    let windows = Windows::new(rows as u64, row_bytes as u64, 9);
    let order = bench.order(windows, &list);
    for ordered in [false, true] {
        let mut host = bench.shared(&before);
        let mut device = bench.on_device(&before);
        let order = ordered.then_some(&order);
        let counts = [
            scattered(bench, &from, &list, order, &mut host, row_bytes),
            scattered(bench, &from, &list, order, &mut device, row_bytes),
        ];
        assert_eq!(counts, [outside, outside]);
        assert!(*host.wait().unwrap() == want, "{rows} of {row_bytes}, {n}");
        assert!(bench.back(&device) == want, "{rows} of {row_bytes}, {n}");
    }
}

/// How many elements were no row.
fn scattered(
    bench: &mut Bench,
    from: &DeviceBuffer<u8>,
    index: &DeviceBuffer<u32>,
    order: Option<&DeviceBuffer<u32>>,
    table: &mut impl DeviceWrite<Item = u8>,
    row_bytes: usize,
) -> f64 {
    let table = RowsMut::new(table, row_bytes).unwrap();
    let (gather, stream, cell) = (&mut bench.gather, &bench.stream, &mut bench.cell);
    let found = match order {
        Some(order) => {
            let order = Order::new(order, Windows::new(1, 1, 26));
            gather.scatter_ordered(stream, from, index, &order, table, cell)
        }
        None => gather.scatter(stream, from, index, table, cell),
    };
    bench.cell.wait(found.unwrap(), LIMIT).unwrap()[0]
}

#[test]
fn scattered_rows_are_those_of_a_loop() {
    everywhere(1, |place| {
        let mut bench = Bench::new(place);
        for (rows, row_bytes, n) in [(40, 128, 30), (30, 7, 40), (0, 4, 1), (1, 4, 0)] {
            scatters(&mut bench, rows, row_bytes, n);
        }
    });
    once_and_on_real_devices(1, |place| {
        let mut bench = Bench::new(place);
        for row_bytes in (1..=33).chain([100, 128, 1024, 4096, 4097]) {
            scatters(&mut bench, 200, row_bytes, 150);
        }
        scatters(&mut bench, 400_000, 16, 399_999);
    });
}

#[test]
fn rows_of_other_types_keep_their_elements() {
    everywhere(1, |place| {
        let mut bench = Bench::new(place);
        let content: Vec<f32> = (0..90).map(|i| i as f32).collect();
        let table = bench.lent(&content);
        let table = Rows::new(&table, 3).unwrap();
        let index = bench.on_device(&[29u64, 0, 30]);
        let mut to = bench.memory.device(9).unwrap();
        let (stream, cell) = (&bench.stream, &mut bench.cell);
        let found = bench
            .gather
            .rows(stream, &table, &index, &mut to, cell)
            .unwrap();
        assert_eq!(bench.cell.wait(found, LIMIT).unwrap(), [1.0, 2.0]);
        let want = [87.0, 88.0, 89.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0];
        assert_eq!(bench.back(&to), want, "{}", place.name);
    });
}

#[test]
fn an_order_that_is_none_moves_what_it_names_and_counts_the_rest() {
    everywhere(1, |place| {
        let mut bench = Bench::new(place);
        let content = bytes(40, 4);
        let table = bench.lent(&content);
        let table = Rows::new(&table, 4).unwrap();
        let index = bench.on_device(&[3u32, 99, 7]);
        let order = bench.lent(&[2u32, u32::MAX, 2]);
        let (to, found) = bench.gathered_in_order(&table, &index, &order);
        assert_eq!(to, [&[0xee; 8], &content[28..32]].concat());
        assert_eq!(found, [1.0, 3.0], "{}", place.name);
    });
}

#[test]
fn an_order_by_windows_names_every_element_once_window_by_window() {
    let check = |bench: &mut Bench, rows: u64, row_bytes: u64, log2: u32, n: usize| {
        let windows = Windows::new(rows, row_bytes, log2);
        let index = list::<u64>(n, rows as usize);
        let there = bench.on_device(&index);
        let order = bench.order(windows, &there);
        let order = bench.back(&order);
        let of = |element: &u32| windows.of(index[*element as usize]);
        assert!(order.is_sorted_by_key(of), "{windows:?} {n}");
        let mut all = order;
        all.sort_unstable();
        assert!(all.into_iter().eq(0..n as u32), "{windows:?} {n}");
    };
    everywhere(1, |place| {
        let mut bench = Bench::new(place);
        for (rows, row_bytes, log2, n) in [(0, 8, 9, 3), (100, 100, 9, 0), (900, 64, 12, 700)] {
            check(&mut bench, rows, row_bytes, log2, n);
        }
    });
    once_and_on_real_devices(1, |place| {
        let mut bench = Bench::new(place);
        for log2 in [0, 14, 17, 22, 40] {
            check(&mut bench, 1 << 17, 128, log2, 1_000_003);
        }
    });
}

#[test]
fn what_is_no_row_and_what_is_repeated_is_counted() {
    everywhere(1, |place| {
        let mut bench = Bench::new(place);
        for (rows, n) in [(0, 0), (0, 5), (300, 0), (300, 1000)] {
            let index = list::<u32>(n, rows);
            let (_, outside) = gathered_by_hand(&vec![0; rows], 1, &index);
            let mut distinct = index.clone();
            distinct.retain(|row| (*row as usize) < rows);
            let inside = distinct.len();
            distinct.sort_unstable();
            distinct.dedup();
            let there = bench.on_device(&index);
            let words = taken_words(rows as u64) as usize;
            let mut taken = bench.memory.device(words).unwrap();
            let (gather, stream, cell) = (&mut bench.gather, &bench.stream, &mut bench.cell);
            let found = gather
                .check_indices(stream, &there, rows as u64, &mut *cell)
                .unwrap();
            assert_eq!(cell.wait(found, LIMIT).unwrap(), outside, "{}", place.name);
            let repeated = (inside - distinct.len()) as f64;
            // Twice: the second launch finds the scratch memory used.
            for _ in 0..2 {
                let rows = rows as u64;
                let found = gather.check_unique(stream, &there, rows, &mut taken, &mut *cell);
                let found = cell.wait(found.unwrap(), LIMIT).unwrap();
                assert_eq!(found, [repeated, outside[0]], "{}", place.name);
            }
        }
    });
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let machine = Machine::new(options(), Policy::Eager);
    let mut bench = Bench::on(&machine.device(0));
    let table = bench.lent(&[0u32; 12]);
    for row_elements in [0, 5, usize::MAX] {
        let error = Rows::new(&table, row_elements).unwrap_err();
        assert!(matches!(error, Error::Launch { .. }), "{error}");
    }
    let rows = Rows::new(&table, 4).unwrap();
    assert_eq!(rows.count(), 3);
    let index = bench.lent(&[0u32; 2]);
    let short = bench.lent(&[0u32; 1]);
    let (mut to, mut from) = (bench.on_device(&[0u32; 8]), bench.on_device(&[0u32; 9]));
    let mut taken = bench.on_device(&[0u32; 2]);
    let (gather, stream, cell) = (&mut bench.gather, &bench.stream, &mut bench.cell);
    let length = |error: Error, words: &str| {
        let text = error.to_string();
        assert!(
            matches!(error, Error::Length { .. }) && text.contains(words),
            "{text}"
        );
    };
    let refused = gather.rows(stream, &rows, &index, &mut from, &mut *cell);
    length(refused.unwrap_err(), "gathered rows: 9 elements where 8");
    let short = Order::new(&short, rows.windows(26));
    let refused = gather.rows_ordered(stream, &rows, &index, &short, &mut to, &mut *cell);
    length(refused.unwrap_err(), "order: 1 elements where 2");
    let mut table = bench.memory.zero_copy::<u32>(12).unwrap().lend();
    let rows = RowsMut::new(&mut table, 4).unwrap();
    let refused = gather.scatter(stream, &from, &index, rows, &mut *cell);
    length(refused.unwrap_err(), "rows to scatter: 9 elements where 8");
    let windows = Windows::new(3, 16, 4);
    let refused = gather.order_by_window(stream, windows, &index, &mut to);
    length(refused.unwrap_err(), "order: 8 elements where 2");
    let refused = gather.check_unique(stream, &index, 65, &mut taken, &mut *cell);
    length(refused.unwrap_err(), "taken rows: 2 elements where 3");
}
