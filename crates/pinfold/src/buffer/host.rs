//! Host buffers that pinfold allocates: upload, download, exchange, zero-copy.

use super::raw::HostElements;
use super::{
    BlockRef, CopySource, CopyTarget, HostBuffer, InFlight, InPlace, InPlaceWritable, Sealed,
};
use crate::element::Element;
use crate::error::Result;
use crate::memory::Placement;
use crate::memory::block::Block;
use pinfold_hal::HostWork;
use std::fmt;
use std::sync::Arc;

macro_rules! host_buffer {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<T: Element> {
            elements: HostElements<T>,
        }

        impl<T: Element> $name<T> {
            pub(crate) fn new(block: Arc<Block>, len: usize) -> Self {
                $name { elements: HostElements::new(block, len) }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                self.elements.len()
            }

            /// True for no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Where it is, and why.
            pub fn placement(&self) -> &Placement {
                self.elements.block().placement()
            }
        }

        impl<T: Element> Sealed for $name<T> {}

        impl<T: Element> HostBuffer for $name<T> {
            type Item = T;

            fn len(&self) -> usize {
                self.elements.len()
            }

            fn block(&self) -> BlockRef<'_> {
                BlockRef(self.elements.block())
            }
        }

        impl<T: Element> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("len", &self.len())
                    .field("kind", &self.placement().kind())
                    .finish()
            }
        }
    };
}

macro_rules! lendable {
    ($name:ident) => {
        impl<T: Element> $name<T> {
            /// Hands the buffer to devices: the handle can be given to kernels, and gives the
            /// buffer back by [`InFlight::wait`].
            pub fn lend(self) -> InFlight<Self> {
                InFlight::new(self)
            }
        }
    };
}

macro_rules! readable {
    ($name:ident) => {
        impl<T: Element> $name<T> {
            /// The elements.
            pub fn as_slice(&self) -> &[T] {
                self.elements.as_slice()
            }
        }

        impl<T: Element> std::ops::Deref for $name<T> {
            type Target = [T];

            fn deref(&self) -> &[T] {
                self.as_slice()
            }
        }
    };
}

macro_rules! writable {
    ($name:ident) => {
        impl<T: Element> $name<T> {
            /// The elements, to be written.
            pub fn as_mut_slice(&mut self) -> &mut [T] {
                self.elements.as_mut_slice()
            }
        }

        impl<T: Element> std::ops::DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut [T] {
                self.as_mut_slice()
            }
        }
    };
}

host_buffer! {
    /// Memory that the host fills and the device takes copies of.
    ///
    /// It may be write-combined, which the host must not read, so there is no way to read it.
    /// Memory from [`Memory::upload_in_place`](crate::Memory::upload_in_place) can also be
    /// [lent](Self::lend) to kernels; for other memory a launch says that the device cannot reach
    /// it.
    UploadBuffer
}
host_buffer! {
    /// Memory that the device copies results into and the host reads.
    DownloadBuffer
}
host_buffer! {
    /// Memory that is copied both ways, or handed from one device to another.
    ExchangeBuffer
}
host_buffer! {
    /// Host memory that kernels use in place. [`lend`](Self::lend) hands it to them.
    ZeroCopyBuffer
}

impl<T: Element> CopySource for UploadBuffer<T> {}
impl<T: Element> CopyTarget for DownloadBuffer<T> {}
impl<T: Element> CopySource for ExchangeBuffer<T> {}
impl<T: Element> CopyTarget for ExchangeBuffer<T> {}
impl<T: Element> CopySource for ZeroCopyBuffer<T> {}
impl<T: Element> CopyTarget for ZeroCopyBuffer<T> {}
impl<T: Element> InPlace for UploadBuffer<T> {}
impl<T: Element> InPlace for ZeroCopyBuffer<T> {}
impl<T: Element> InPlaceWritable for ZeroCopyBuffer<T> {}

lendable!(UploadBuffer);
lendable!(ZeroCopyBuffer);
readable!(DownloadBuffer);
readable!(ExchangeBuffer);
readable!(ZeroCopyBuffer);
writable!(ExchangeBuffer);
writable!(ZeroCopyBuffer);

impl<T: Element> UploadBuffer<T> {
    /// Writes `values` from element `at` on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange); nothing is written then.
    pub fn write(&mut self, at: usize, values: &[T]) -> Result<()> {
        self.elements.write(at, values)?;
        self.declare_write(values.len());
        Ok(())
    }

    /// Writes every element once, in ascending order: the order that write-combining wants.
    pub fn write_each(&mut self, value: impl FnMut(usize) -> T) {
        self.elements.write_each(value);
        self.declare_write(self.len());
    }

    fn declare_write(&self, elements: usize) {
        let block = self.elements.block();
        if let Some(addr) = block.host() {
            let bytes = (elements * std::mem::size_of::<T>()) as u64;
            block
                .first_device()
                .declare_host_work(HostWork::Write { addr, bytes });
        }
    }
}
