//! Typed buffers, one type for each use.
//!
//! | type | the host may | devices may |
//! |---|---|---|
//! | [`UploadBuffer`] | write | be given copies; read it in place where it is mapped |
//! | [`DownloadBuffer`] | read | copy into it |
//! | [`ExchangeBuffer`] | read and write | copy both ways |
//! | [`ZeroCopyBuffer`] | read and write | copy both ways, and use it in place |
//! | [`RegisteredBuffer`] | read and write (its own memory) | copy both ways, use it in place |
//! | [`DeviceBuffer`] | nothing | everything |
//! | [`ScalarCell`] | poll | publish a few scalars |
//!
//! A host buffer is either *with the host*, and then no device touches it, or it has been moved
//! into an [`InFlight`] handle, and then the host cannot. [`InFlight::wait`] gives it back. So no
//! program in safe Rust can race with the device on it. Dropping a handle early is fine: the
//! memory is freed when the device is done. Leaking one leaks the memory.

mod cell;
mod device;
mod flight;
mod host;
pub(crate) mod raw;
mod registered;
mod streaming;

pub(crate) use cell::CellState;
pub use cell::{Expected, ScalarCell};
pub use device::{DeviceBuffer, DevicePointer, DeviceRead, DeviceSlice, DeviceWrite};
pub use flight::InFlight;
pub use host::{DownloadBuffer, ExchangeBuffer, UploadBuffer, ZeroCopyBuffer};
pub use registered::{HostRange, RegisteredBuffer, ScopedSlice, WritableRange};

use crate::element::Element;
use crate::memory::block::Block;
use std::sync::Arc;

mod sealed {
    /// Keeps the set of buffer types closed: their guarantees are this crate's to give.
    pub trait Sealed {}
}
pub(crate) use sealed::Sealed;

/// A buffer in host memory, of one of the types of this module.
pub trait HostBuffer: Sealed + Sized {
    /// What lies in it.
    type Item: Element;

    /// Number of elements.
    fn len(&self) -> usize;

    /// True for no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True where it is page-locked at this moment. A buffer that may be page-locked
    /// [only while it is used](crate::pool::PinOnUse) is not, once it was idle for long.
    fn is_pinned(&self) -> bool {
        self.block().0.is_pinned()
    }

    #[doc(hidden)]
    fn block(&self) -> BlockRef<'_>;
}

/// A host buffer that a device may be given copies of.
pub trait CopySource: HostBuffer {}

/// A host buffer that a device may copy into.
pub trait CopyTarget: HostBuffer {}

/// A host buffer that kernels may read in place once it was lent to them.
pub trait InPlace: HostBuffer {}

/// A host buffer that kernels may also write in place.
pub trait InPlaceWritable: InPlace {}

/// A host buffer, or the handle of one that a device has already: what a copy can take over.
pub trait HandOver {
    /// The buffer's type.
    type Buffer: HostBuffer;

    /// Hands the buffer over.
    fn hand_over(self) -> InFlight<Self::Buffer>;
}

impl<B: HostBuffer> HandOver for B {
    type Buffer = B;

    fn hand_over(self) -> InFlight<B> {
        InFlight::new(self)
    }
}

impl<B: HostBuffer> HandOver for InFlight<B> {
    type Buffer = B;

    fn hand_over(self) -> InFlight<B> {
        self
    }
}

/// A block, without saying so to the outside.
#[doc(hidden)]
pub struct BlockRef<'a>(pub(crate) &'a Arc<Block>);
