//! Random rows of a table in mapped host memory, fetched or put back in the better order.

use super::Engine;
use crate::buffer::{DeviceBuffer, DeviceRead, DeviceWrite};
use crate::error::Result;
use crate::kernels::gather::{Gather, Order, RowNumber, Rows, RowsMut, Windows};
use crate::kernels::{IntoSink, Sink};
use crate::memory::Memory;
use crate::stream::Stream;
use pinfold_model::{Access, Pattern, Profile, cost};
use std::fmt;

/// Windows of 64 MiB: well below any footprint at which rows without order were seen to fall.
const WINDOW_LOG2: u32 = 26;

/// The order in which rows are walked over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowOrder {
    /// As the list has them.
    AsTheyCome,
    /// By address windows of the table.
    ByWindows {
        /// Bytes of a window.
        window_bytes: u64,
    },
}

/// Which order was chosen, and the times that the model predicts for both.
#[derive(Clone, Debug, PartialEq)]
pub struct RowReason {
    /// The order.
    pub order: RowOrder,
    /// As the list has them.
    pub as_they_come_ns: f64,
    /// By windows, with putting the list into order.
    pub by_windows_ns: f64,
    /// The name of the profile that the times come from.
    pub profile: String,
}

impl fmt::Display for RowReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.order {
            RowOrder::AsTheyCome => "as they come".to_owned(),
            RowOrder::ByWindows { window_bytes } => {
                format!("by windows of {}", crate::Bytes(window_bytes))
            }
        };
        write!(
            f,
            "rows {how}: by profile {} as they come {:.0} µs, by windows {:.0} µs",
            self.profile,
            self.as_they_come_ns / 1e3,
            self.by_windows_ns / 1e3
        )
    }
}

/// Fetches and puts back rows on one stream. The lists of row numbers may lie in device memory, or
/// be lent from host memory; a list is put into order on the device.
///
/// ```
/// use pinfold::kernels::gather::Rows;
/// use pinfold::{DeviceChoice, Memory, transfer::Engine};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), pinfold::Error> {
/// let device = "sim".parse::<DeviceChoice>()?.open()?.device;
/// let (memory, stream) = (Memory::new(&device), device.stream()?);
/// let mut carrier = Engine::new(&memory, &device)?.row_carrier(&memory, &stream)?;
/// let mut table = memory.upload_in_place::<f32>(1000 * 32)?;
/// table.write_each(|i| (i / 32) as f32);
/// let mut list = memory.upload_in_place::<u32>(2)?;
/// list.write(0, &[7, 900])?;
/// let (table, list) = (table.lend(), list.lend());
/// let mut rows = memory.device(2 * 32)?;
/// let mut cell = memory.scalar_cell()?;
/// let (reason, found) =
///     carrier.gather(&stream, &Rows::new(&table, 32)?, &list, &mut rows, &mut cell)?;
/// println!("{reason}");
/// // None was no row.
/// assert_eq!(cell.wait(found, Duration::from_secs(9))?[0], 0.0);
/// # Ok(())
/// # }
/// ```
pub struct RowCarrier {
    memory: Memory,
    kernels: Gather,
    profile: Profile,
    /// Room for the order of a list as long as the last one.
    order: Option<DeviceBuffer<u32>>,
}

impl Engine {
    /// What fetches rows on a stream of the engine's device, with the engine's profile.
    ///
    /// # Errors
    /// Where the kernels cannot be loaded or their scratch memory not be had.
    pub fn row_carrier(&self, memory: &Memory, stream: &Stream) -> Result<RowCarrier> {
        Ok(RowCarrier {
            memory: memory.clone(),
            kernels: Gather::load(memory, stream)?,
            profile: self.inner.chooser.profile().clone(),
            order: None,
        })
    }
}

impl RowCarrier {
    /// Enqueues `to[i] = table[index[i]]` for every row of `to`. Which order is taken changes the
    /// time only. Where `index[i]` is no row of the table, `to[i]` becomes zeros; the values of the
    /// sink are the number of these, and the first such `i`, or the length of the list.
    ///
    /// # Errors
    /// As [`Gather::rows`], and where memory for the order cannot be had.
    pub fn gather<D: DeviceRead, I: DeviceRead<Item: RowNumber>, S: IntoSink>(
        &mut self,
        stream: &Stream,
        table: &Rows<'_, D>,
        index: &I,
        to: &mut impl DeviceWrite<Item = D::Item>,
        sink: S,
    ) -> Result<(RowReason, <S::Sink as Sink>::Promise)> {
        let windows = table.windows(WINDOW_LOG2);
        let reason = self.choose(windows, index, Access::Read);
        let found = match reason.order {
            RowOrder::AsTheyCome => self.kernels.rows(stream, table, index, to, sink)?,
            RowOrder::ByWindows { .. } => {
                let order = self.order(stream, windows, index)?;
                let kernels = &mut self.kernels;
                let by_windows = Order::new(&order, windows);
                let found = kernels.rows_ordered(stream, table, index, &by_windows, to, sink);
                self.order = Some(order);
                found?
            }
        };
        Ok((reason, found))
    }

    /// Enqueues `table[index[i]] = from[i]` for every row of `from`; else as
    /// [`gather`](Self::gather). Where the list names a row twice, the row becomes a mixture of
    /// both.
    ///
    /// # Errors
    /// As [`Gather::scatter`], and where memory for the order cannot be had.
    pub fn scatter<W: DeviceWrite, I: DeviceRead<Item: RowNumber>, S: IntoSink>(
        &mut self,
        stream: &Stream,
        from: &impl DeviceRead<Item = W::Item>,
        index: &I,
        table: RowsMut<'_, W>,
        sink: S,
    ) -> Result<(RowReason, <S::Sink as Sink>::Promise)> {
        let windows = table.windows(WINDOW_LOG2);
        let reason = self.choose(windows, index, Access::Write);
        let found = match reason.order {
            RowOrder::AsTheyCome => self.kernels.scatter(stream, from, index, table, sink)?,
            RowOrder::ByWindows { .. } => {
                let order = self.order(stream, windows, index)?;
                let kernels = &mut self.kernels;
                let by_windows = Order::new(&order, windows);
                let found = kernels.scatter_ordered(stream, from, index, &by_windows, table, sink);
                self.order = Some(order);
                found?
            }
        };
        Ok((reason, found))
    }

    fn choose<I: DeviceRead<Item: RowNumber>>(
        &self,
        windows: Windows,
        index: &I,
        access: Access,
    ) -> RowReason {
        let count = index.elements() as u64;
        let row_bytes = u32::try_from(windows.row_bytes()).unwrap_or(u32::MAX);
        let footprint = windows.table_rows().saturating_mul(windows.row_bytes());
        let window_bytes = 1 << windows.log2();
        let profile = &self.profile;
        let rows_ns = |pattern| cost::zero_copy_ns(profile, access, pattern, footprint, footprint);
        let as_they_come_ns = rows_ns(Pattern::Random { row_bytes, count });
        let windowed = Pattern::Windowed {
            row_bytes,
            count,
            window_bytes,
        };
        let order_ns = cost::window_order_ns(profile, count, I::Item::BYTES);
        let by_windows_ns = rows_ns(windowed) + order_ns;
        // An order numbers fewer than 2^32 elements.
        let can_order = u32::try_from(count).is_ok() && windows.count() > 1;
        let order = if can_order && by_windows_ns < as_they_come_ns {
            RowOrder::ByWindows { window_bytes }
        } else {
            RowOrder::AsTheyCome
        };
        RowReason {
            order,
            as_they_come_ns,
            by_windows_ns,
            profile: profile.name.clone(),
        }
    }

    /// The list's order, in memory that is kept for lists of the same length.
    fn order<I: DeviceRead<Item: RowNumber>>(
        &mut self,
        stream: &Stream,
        windows: Windows,
        index: &I,
    ) -> Result<DeviceBuffer<u32>> {
        let kept = self.order.take().filter(|o| o.len() == index.elements());
        let new = || self.memory.device_on(stream.device(), index.elements());
        let mut order = kept.map_or_else(new, Ok)?;
        (self.kernels).order_by_window(stream, windows, index, &mut order)?;
        Ok(order)
    }
}

impl fmt::Debug for RowCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCarrier").finish_non_exhaustive()
    }
}
