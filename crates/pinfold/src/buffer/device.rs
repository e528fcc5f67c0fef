//! Device memory, and views of what kernels can be given.

use super::raw::check_range;
use super::{InFlight, InPlace, Sealed};
use crate::device::Device;
use crate::element::Element;
use crate::error::Result;
use crate::memory::Placement;
use crate::memory::block::Block;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Memory of a device. The host never touches it; streams use it in order.
///
/// Borrowed shared it can be read by copies and kernels, borrowed exclusively it can be written. It
/// remembers the streams that use it: work on another stream is ordered after it, and dropping it
/// frees the memory once the device is done.
pub struct DeviceBuffer<T: Element> {
    block: Arc<Block>,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: Element> DeviceBuffer<T> {
    pub(crate) fn new(block: Arc<Block>, len: usize) -> Self {
        DeviceBuffer {
            block,
            len,
            _elements: PhantomData,
        }
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is, and why.
    pub fn placement(&self) -> &Placement {
        self.block.placement()
    }

    /// A part of it, to be read.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange).
    pub fn slice(&self, range: Range<usize>) -> Result<DeviceSlice<'_, T>> {
        DeviceSlice::new(&self.block, self.len, range)
    }
}

impl<T: Element> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBuffer")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// A part of a buffer that kernels can read.
#[derive(Clone)]
pub struct DeviceSlice<'a, T: Element> {
    block: &'a Arc<Block>,
    range: Range<usize>,
    _elements: PhantomData<T>,
}

impl<'a, T: Element> DeviceSlice<'a, T> {
    fn new(block: &'a Arc<Block>, len: usize, range: Range<usize>) -> Result<Self> {
        check_range(&range, len)?;
        Ok(DeviceSlice {
            block,
            range,
            _elements: PhantomData,
        })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// True for no elements.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

impl<T: Element> fmt::Debug for DeviceSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceSlice")
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// Where a kernel argument lies: a range of bytes in a block.
#[doc(hidden)]
pub struct Span<'a> {
    pub(crate) block: &'a Arc<Block>,
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: u64,
}

impl<'a> Span<'a> {
    fn of<T>(block: &'a Arc<Block>, range: Range<usize>) -> Self {
        let size = std::mem::size_of::<T>();
        Span {
            block,
            offset_bytes: (range.start * size) as u64,
            bytes: (range.len() * size) as u64,
        }
    }
}

/// What kernels can read: device memory, or host memory that was lent to devices.
pub trait DeviceRead: Sealed {
    /// What lies in it.
    type Item: Element;

    /// Number of elements.
    fn elements(&self) -> usize;

    #[doc(hidden)]
    fn span(&self) -> Span<'_>;
}

/// What kernels can write.
pub trait DeviceWrite: DeviceRead {}

impl<T: Element> Sealed for DeviceBuffer<T> {}

impl<T: Element> DeviceRead for DeviceBuffer<T> {
    type Item = T;

    fn elements(&self) -> usize {
        self.len
    }

    fn span(&self) -> Span<'_> {
        Span::of::<T>(&self.block, 0..self.len)
    }
}

impl<T: Element> DeviceWrite for DeviceBuffer<T> {}

impl<T: Element> Sealed for DeviceSlice<'_, T> {}

impl<T: Element> DeviceRead for DeviceSlice<'_, T> {
    type Item = T;

    fn elements(&self) -> usize {
        self.range.len()
    }

    fn span(&self) -> Span<'_> {
        Span::of::<T>(self.block, self.range.clone())
    }
}

impl<B: InPlace> Sealed for InFlight<B> {}

impl<B: InPlace> DeviceRead for InFlight<B> {
    type Item = B::Item;

    fn elements(&self) -> usize {
        self.len()
    }

    fn span(&self) -> Span<'_> {
        Span::of::<B::Item>(self.buffer().block().0, 0..self.len())
    }
}

impl<B: super::InPlaceWritable> DeviceWrite for InFlight<B> {}

impl<B: InPlace> InFlight<B> {
    /// A part of a lent buffer, for kernels to read.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange).
    pub fn slice(&self, range: Range<usize>) -> Result<DeviceSlice<'_, B::Item>> {
        DeviceSlice::new(self.buffer().block().0, self.len(), range)
    }

    /// Where the device sees an element of a lent buffer, which is page-locked for as long as it
    /// lives from now on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange),
    /// [`Error::WrongDevice`](crate::Error::WrongDevice).
    pub fn device_pointer(&self, device: &Device, at: usize) -> Result<DevicePointer<B::Item>> {
        DevicePointer::new(self.buffer().block().0, device, self.len(), at)
    }
}

impl<T: Element> DeviceBuffer<T> {
    /// Where the device sees an element.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange),
    /// [`Error::WrongDevice`](crate::Error::WrongDevice).
    pub fn device_pointer(&self, device: &Device, at: usize) -> Result<DevicePointer<T>> {
        DevicePointer::new(&self.block, device, self.len, at)
    }
}

/// An address that kernels of one device can use, for code outside of pinfold. It is not an
/// address of this process, even where the number is the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DevicePointer<T> {
    address: u64,
    _to: PhantomData<fn(T) -> T>,
}

impl<T: Element> DevicePointer<T> {
    fn new(block: &Block, device: &Device, len: usize, at: usize) -> Result<Self> {
        check_range(&(at..len), len)?;
        let offset = (at * std::mem::size_of::<T>()) as u64;
        block.keep_pinned()?;
        let address = block.device_addr(device)?.offset(offset).0;
        Ok(DevicePointer {
            address,
            _to: PhantomData,
        })
    }

    /// The number, as a `CUdeviceptr`.
    pub fn address(self) -> u64 {
        self.address
    }
}

impl<T> fmt::Debug for DevicePointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePointer({:#x})", self.address)
    }
}
