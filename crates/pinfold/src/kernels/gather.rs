//! Scattered rows and pieces, copied by kernels between device memory and mapped host memory in
//! one launch, and the order in which a large table is best walked over.
//!
//! A kernel that reads host memory in place asks for thousands of rows at a time; a copy for each
//! row would cost a driver call. Nothing here needs any alignment, and no list has to be trusted:
//! what names no row of the table is not followed but counted. Which way pays is for the caller to
//! decide.
//!
//! Over more than some hundreds of mebibytes of host memory, random rows come several times faster
//! in the order of [`Windows`] of its addresses: [`Gather::order_by_window`] for a list on the
//! device, [`Windows::order`] for one on the host.
//!
//! ```
//! use pinfold::kernels::gather::{Gather, Rows};
//! use pinfold::{Memory, Platform};
//! use pinfold_model::Profile;
//! use std::time::Duration;
//!
//! let device = Platform::simulated(Profile::h200()).device(0)?;
//! let (memory, stream) = (Memory::new(&device), device.stream()?);
//! let mut gather = Gather::load(&memory, &stream)?;
//! // A table of 100 rows of four floats in host memory, and three of its rows by number.
//! let mut table = memory.upload_in_place::<f32>(400)?;
//! table.write_each(|i| (i / 4) as f32);
//! let mut index = memory.upload_in_place::<u32>(3)?;
//! index.write(0, &[7, 99, 100])?;
//! let (table, index) = (table.lend(), index.lend());
//! let mut rows = memory.device::<f32>(3 * 4)?;
//! let mut cell = memory.scalar_cell()?;
//! let table = Rows::new(&table, 4)?;
//! let found = gather.rows(&stream, &table, &index, &mut rows, &mut cell)?;
//! // One of them is no row: the third.
//! assert_eq!(cell.wait(found, Duration::from_secs(9))?, [1.0, 2.0]);
//! let rows = stream.download(&rows, memory.download(12)?)?.wait()?;
//! assert_eq!(rows[2..10], [7.0, 7.0, 99.0, 99.0, 99.0, 99.0, 0.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod pieces;
mod rows;

pub use pieces::{ITEMS_MAX, PieceList};
pub use pinfold_kernels::gather::{Piece, RowNumber, Windows, taken_words};
pub use rows::{Order, Rows, RowsMut};

use super::reduce::{IntoSink, Scratch, Sink};
use crate::buffer::{DeviceBuffer, DeviceRead, DeviceWrite};
use crate::error::{Error, Result};
use crate::launch::{Args, Kernel, Module, Shape};
use crate::memory::Memory;
use crate::stream::Stream;
use pieces::Pieces;
use pinfold_hal::Pattern;
use pinfold_kernels::gather::{WINDOWS_MAX, image, list_shape, rows_shape};
use rows::Sizes;

fn refused<T>(problem: String) -> Result<T> {
    Err(Error::Launch {
        kernel: "gather".to_owned(),
        problem,
    })
}

/// The kernels with their scratch memory.
pub struct Gather {
    gather: Kernel,
    scatter: Kernel,
    pieces: Pieces,
    check_indices: Kernel,
    check_unique: Kernel,
    window_count: Kernel,
    window_place: Kernel,
    scratch: Scratch,
    /// Where each window's part of an order begins.
    starts: DeviceBuffer<u32>,
}

/// No order: the elements are handled as they come.
const IN_ORDER: Option<&Order<'_, DeviceBuffer<u32>>> = None;

impl Gather {
    /// Loads the kernels for the stream's device.
    ///
    /// # Errors
    /// Where a kernel cannot be loaded or the scratch memory not be had.
    pub fn load(memory: &Memory, stream: &Stream) -> Result<Self> {
        let module = Module::load(stream.device(), &image())?;
        let blocks_max = list_shape(u64::MAX).0.max(rows_shape(u64::MAX, 1).0) as usize;
        Ok(Gather {
            gather: module.kernel("gather_rows")?,
            scatter: module.kernel("scatter_rows")?,
            pieces: Pieces::load(&module)?,
            check_indices: module.kernel("check_indices")?,
            check_unique: module.kernel("check_unique")?,
            window_count: module.kernel("window_count")?,
            window_place: module.kernel("window_place")?,
            scratch: Scratch::new(memory, stream, 2 * blocks_max)?,
            starts: memory.device_on(stream.device(), WINDOWS_MAX as usize)?,
        })
    }

    /// Enqueues `to[i] = table[index[i]]` for every row of `to`. Where `index[i]` is no row of the
    /// table, `to[i]` becomes zeros. The values of the sink are the number of these, and the first
    /// such `i`, or the length of the list.
    ///
    /// # Errors
    /// [`Error::Length`] where `to` has not as many rows as the list has elements, and all of a
    /// launch.
    pub fn rows<D: DeviceRead, S: IntoSink>(
        &mut self,
        stream: &Stream,
        table: &Rows<'_, D>,
        index: &impl DeviceRead<Item: RowNumber>,
        to: &mut impl DeviceWrite<Item = D::Item>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        self.launch_rows(stream, table, index, IN_ORDER, to, sink)
    }

    /// As [`rows`](Self::rows), in the order of a list that names every element once: the element
    /// handled k-th is `order[k]`, and all rows land where they do without an order.
    ///
    /// Elements that the list does not name are left as they are. What it names beyond the last
    /// element is counted as no row too, with the length of the index list for its place.
    ///
    /// # Errors
    /// As [`rows`](Self::rows), and [`Error::Length`] for an order of another length.
    pub fn rows_ordered<D: DeviceRead, S: IntoSink>(
        &mut self,
        stream: &Stream,
        table: &Rows<'_, D>,
        index: &impl DeviceRead<Item: RowNumber>,
        order: &Order<'_, impl DeviceRead<Item = u32>>,
        to: &mut impl DeviceWrite<Item = D::Item>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        self.launch_rows(stream, table, index, Some(order), to, sink)
    }

    fn launch_rows<D: DeviceRead, I: DeviceRead<Item: RowNumber>, S: IntoSink>(
        &mut self,
        stream: &Stream,
        table: &Rows<'_, D>,
        index: &I,
        order: Option<&Order<'_, impl DeviceRead<Item = u32>>>,
        to: &mut impl DeviceWrite<Item = D::Item>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        let (sizes, n) = (table.sizes, index.elements());
        sizes.check_packed("gathered rows", to.elements(), n)?;
        check_order(order.map(|order| order.list), n)?;
        let (blocks, threads) = rows_shape(n as u64, sizes.row_bytes.into());
        let mut sink = sink.into_sink();
        let args = Args::new().reads_as(table.memory, sizes.walk(n, order));
        let args = list_args(args, sizes, index, order);
        let args = match order {
            Some(_) => args.updates_as(to, sizes.at_random(n)),
            None => args.writes(to),
        };
        let args = self.scratch.finish(args, 2 * blocks as usize, &mut sink)?;
        // SAFETY: these are the arguments of `gather_rows`. It reads rows below the table's number
        // of rows only, elements of the list and of the order below `n`, which both have, and
        // writes rows below `n`, which `to` has: all of them where there is no order.
        unsafe { stream.launch(&self.gather, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }

    /// Enqueues `table[index[i]] = from[i]` for every row of `from`. Where `index[i]` is no row of
    /// the table, `from[i]` goes nowhere. The values of the sink are the number of these, and the
    /// first such `i`, or the length of the list.
    ///
    /// Where the list names a row more than once, the row becomes a mixture of what is written to
    /// it; [`check_unique`](Self::check_unique) tells.
    ///
    /// # Errors
    /// [`Error::Length`] where `from` has not as many rows as the list has elements, and all of a
    /// launch.
    pub fn scatter<W: DeviceWrite, S: IntoSink>(
        &mut self,
        stream: &Stream,
        from: &impl DeviceRead<Item = W::Item>,
        index: &impl DeviceRead<Item: RowNumber>,
        table: RowsMut<'_, W>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        self.launch_scatter(stream, from, index, IN_ORDER, table, sink)
    }

    /// As [`scatter`](Self::scatter), in the order of a list that names every element once: the
    /// element handled k-th is `order[k]`.
    ///
    /// Elements that the list does not name go nowhere. What it names beyond the last element is
    /// counted as no row too, with the length of the index list for its place.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter), and [`Error::Length`] for an order of another length.
    pub fn scatter_ordered<W: DeviceWrite, S: IntoSink>(
        &mut self,
        stream: &Stream,
        from: &impl DeviceRead<Item = W::Item>,
        index: &impl DeviceRead<Item: RowNumber>,
        order: &Order<'_, impl DeviceRead<Item = u32>>,
        table: RowsMut<'_, W>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        self.launch_scatter(stream, from, index, Some(order), table, sink)
    }

    fn launch_scatter<W: DeviceWrite, I: DeviceRead<Item: RowNumber>, S: IntoSink>(
        &mut self,
        stream: &Stream,
        from: &impl DeviceRead<Item = W::Item>,
        index: &I,
        order: Option<&Order<'_, impl DeviceRead<Item = u32>>>,
        table: RowsMut<'_, W>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        let (sizes, n) = (table.sizes, index.elements());
        sizes.check_packed("rows to scatter", from.elements(), n)?;
        check_order(order.map(|order| order.list), n)?;
        let (blocks, threads) = rows_shape(n as u64, sizes.row_bytes.into());
        let mut sink = sink.into_sink();
        let args = Args::new().updates_as(table.memory, sizes.walk(n, order));
        let args = list_args(args, sizes, index, order);
        let args = match order {
            Some(_) => args.reads_as(from, sizes.at_random(n)),
            None => args.reads(from),
        };
        let args = self.scratch.finish(args, 2 * blocks as usize, &mut sink)?;
        // SAFETY: these are the arguments of `scatter_rows`. It writes rows below the table's
        // number of rows only, and reads elements of the list, of the order and of `from` below
        // `n`, which all have.
        unsafe { stream.launch(&self.scatter, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }

    /// Enqueues copying all pieces of a list.
    ///
    /// # Errors
    /// [`Error::Launch`] where the list reaches beyond the end of the source or of the target, and
    /// all of a launch.
    pub fn pieces(
        &self,
        stream: &Stream,
        list: &PieceList,
        from: &impl DeviceRead,
        to: &mut impl DeviceWrite,
    ) -> Result<()> {
        self.pieces.copy(stream, list, from, to)
    }

    /// Enqueues putting a list of row numbers into the order of windows of its table: `order`
    /// becomes all elements of the first window, then all of the second, and so on. What is no row
    /// of the table comes last.
    ///
    /// Which elements of one window come first depends on timing; what is gathered by the order
    /// does not.
    ///
    /// # Errors
    /// [`Error::Length`] where `order` is not as long as the list, [`Error::Launch`] for a list of
    /// 2^32 elements or more, and all of a launch.
    pub fn order_by_window<I: DeviceRead<Item: RowNumber>>(
        &mut self,
        stream: &Stream,
        windows: Windows,
        index: &I,
        order: &mut impl DeviceWrite<Item = u32>,
    ) -> Result<()> {
        let n = index.elements();
        check_order(Some(&*order), n)?;
        if u32::try_from(n).is_err() {
            return refused(format!(
                "{n} elements are more than an order can number; order parts of the list"
            ));
        }
        let (blocks, threads) = list_shape(n as u64);
        let shape = Shape::linear(blocks, threads);
        let count = windows.count() as usize;
        stream.fill(&mut self.starts, 0)?;
        let args = window_args(windows, index).updates_prefix(&mut self.starts, count)?;
        let args = self.scratch.ticket(args);
        // SAFETY: these are the arguments of `window_count`. It reads `n` elements of the list and
        // adds to one of `count` starts for each, of which there are that many.
        unsafe { stream.launch(&self.window_count, shape, args)? };
        let args = window_args(windows, index).updates_prefix(&mut self.starts, count)?;
        let args = args.writes(order);
        // SAFETY: these are the arguments of `window_place`. The list is borrowed since it was
        // counted, so that the windows' parts have room for all its elements: together `n`, which
        // `order` has.
        unsafe { stream.launch(&self.window_place, shape, args) }
    }

    /// Enqueues a look for what is no row of a table with so many rows. The values of the sink are
    /// the number of such elements, and the first of them, or the length of the list.
    ///
    /// # Errors
    /// All of a launch.
    pub fn check_indices<I: DeviceRead<Item: RowNumber>, S: IntoSink>(
        &mut self,
        stream: &Stream,
        index: &I,
        table_rows: u64,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        let n = index.elements() as u64;
        let (blocks, threads) = list_shape(n);
        let mut sink = sink.into_sink();
        let args = Args::new().reads(index).scalar(I::Item::BYTES);
        let args = args.scalar(n).scalar(table_rows);
        let args = self.scratch.finish(args, 2 * blocks as usize, &mut sink)?;
        // SAFETY: these are the arguments of `check_indices`. It reads `n` elements of the list.
        unsafe { stream.launch(&self.check_indices, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }

    /// Enqueues a look for rows that a list names more than once. The values of the sink are how
    /// often it names a row again, and the number of elements that are no row of the table.
    ///
    /// `taken` is scratch memory of [`taken_words`] of `table_rows` elements; afterwards it has a
    /// bit for every row, set where the list names it.
    ///
    /// # Errors
    /// [`Error::Length`] where `taken` has another length, and all of a launch.
    pub fn check_unique<I: DeviceRead<Item: RowNumber>, S: IntoSink>(
        &mut self,
        stream: &Stream,
        index: &I,
        table_rows: u64,
        taken: &mut DeviceBuffer<u32>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        let want = usize::try_from(taken_words(table_rows)).unwrap_or(usize::MAX);
        if taken.len() != want {
            return Err(Error::Length {
                what: "bits of taken rows",
                got: taken.len(),
                want,
            });
        }
        stream.fill(taken, 0)?;
        let n = index.elements() as u64;
        let (blocks, threads) = list_shape(n);
        let mut sink = sink.into_sink();
        let args = Args::new().reads(index).scalar(I::Item::BYTES);
        let args = args.scalar(n).scalar(table_rows);
        let args = args.updates_as(
            taken,
            Pattern::Random {
                row_bytes: 4,
                count: n,
            },
        );
        let args = self.scratch.finish(args, 2 * blocks as usize, &mut sink)?;
        // SAFETY: these are the arguments of `check_unique`. It reads `n` elements of the list, and
        // sets bits of rows below `table_rows`, for which `taken` has room.
        unsafe { stream.launch(&self.check_unique, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }
}

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gather").finish_non_exhaustive()
    }
}

/// What follows a table among the arguments: its sizes, and which rows to move when.
fn list_args<'a, I: DeviceRead<Item: RowNumber>>(
    args: Args<'a>,
    sizes: Sizes,
    index: &'a I,
    order: Option<&Order<'a, impl DeviceRead<Item = u32>>>,
) -> Args<'a> {
    let n = index.elements() as u64;
    let number_bytes = I::Item::BYTES;
    let args = args.scalar(sizes.rows).scalar(u64::from(sizes.row_bytes));
    let args = match order {
        Some(order) => {
            let scattered = Pattern::Random {
                row_bytes: number_bytes,
                count: n,
            };
            let args = args.reads_as(index, scattered).scalar(number_bytes);
            args.reads(order.list)
        }
        None => args.reads(index).scalar(number_bytes).scalar(0u64),
    };
    args.scalar(n)
}

/// The first arguments of the kernels that order a list by windows.
fn window_args<I: DeviceRead<Item: RowNumber>>(windows: Windows, index: &I) -> Args<'_> {
    Args::new()
        .reads(index)
        .scalar(I::Item::BYTES)
        .scalar(index.elements() as u64)
        .scalar(windows.table_rows())
        .scalar(windows.row_bytes())
        .scalar(windows.log2())
        .scalar(windows.count())
}

fn check_order(order: Option<&impl DeviceRead<Item = u32>>, n: usize) -> Result<()> {
    match order.map(|order| order.elements()) {
        Some(got) if got != n => Err(Error::Length {
            what: "order",
            got,
            want: n,
        }),
        _ => Ok(()),
    }
}
