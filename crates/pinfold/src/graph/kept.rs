//! What a graph can keep: the handles that its closure returned.

use crate::buffer::{BlockRef, Expected, HostBuffer, InFlight};

mod sealed {
    /// Keeps a trait to this module: a graph relies on seeing every block.
    pub trait Sealed {}
}
use sealed::Sealed;

/// In-flight handles that a graph keeps: `()`, one handle, or tuples, arrays and vectors of them.
/// An [`Expected`] may be among them.
pub trait Kept: Sealed + Sized {
    /// What the host gets while no launch is in flight: `&mut` of each buffer.
    type Host<'a>
    where
        Self: 'a;
    /// The buffers by themselves.
    type Buffers;

    #[doc(hidden)]
    fn each_block<'a>(&'a self, visit: &mut dyn FnMut(BlockRef<'a>));

    #[doc(hidden)]
    fn host(&mut self) -> Self::Host<'_>;

    #[doc(hidden)]
    fn into_buffers(self) -> Self::Buffers;
}

impl<B: HostBuffer> Sealed for InFlight<B> {}

impl<B: HostBuffer> Kept for InFlight<B> {
    type Host<'a>
        = &'a mut B
    where
        Self: 'a;
    type Buffers = B;

    fn each_block<'a>(&'a self, visit: &mut dyn FnMut(BlockRef<'a>)) {
        visit(self.buffer().block());
    }

    fn host(&mut self) -> &mut B {
        self.buffer_mut()
    }

    fn into_buffers(self) -> B {
        self.into_buffer()
    }
}

impl Sealed for Expected {}

impl Kept for Expected {
    type Host<'a> = &'a Expected;
    type Buffers = Expected;

    fn each_block<'a>(&'a self, _visit: &mut dyn FnMut(BlockRef<'a>)) {}

    fn host(&mut self) -> &Expected {
        self
    }

    fn into_buffers(self) -> Expected {
        self
    }
}

impl<K: Kept> Sealed for Vec<K> {}

impl<K: Kept> Kept for Vec<K> {
    type Host<'a>
        = Vec<K::Host<'a>>
    where
        Self: 'a;
    type Buffers = Vec<K::Buffers>;

    fn each_block<'a>(&'a self, visit: &mut dyn FnMut(BlockRef<'a>)) {
        self.iter().for_each(|kept| kept.each_block(visit));
    }

    fn host(&mut self) -> Vec<K::Host<'_>> {
        self.iter_mut().map(K::host).collect()
    }

    fn into_buffers(self) -> Vec<K::Buffers> {
        self.into_iter().map(K::into_buffers).collect()
    }
}

impl<K: Kept, const N: usize> Sealed for [K; N] {}

impl<K: Kept, const N: usize> Kept for [K; N] {
    type Host<'a>
        = [K::Host<'a>; N]
    where
        Self: 'a;
    type Buffers = [K::Buffers; N];

    fn each_block<'a>(&'a self, visit: &mut dyn FnMut(BlockRef<'a>)) {
        self.iter().for_each(|kept| kept.each_block(visit));
    }

    fn host(&mut self) -> [K::Host<'_>; N] {
        self.each_mut().map(K::host)
    }

    fn into_buffers(self) -> [K::Buffers; N] {
        self.map(K::into_buffers)
    }
}

macro_rules! kept_tuple {
    ($($name:ident $at:tt),*) => {
        impl<$($name: Kept),*> Sealed for ($($name,)*) {}

        impl<$($name: Kept),*> Kept for ($($name,)*) {
            type Host<'a> = ($($name::Host<'a>,)*) where Self: 'a;
            type Buffers = ($($name::Buffers,)*);

            fn each_block<'a>(&'a self, _visit: &mut dyn FnMut(BlockRef<'a>)) {
                $(self.$at.each_block(_visit);)*
            }

            #[allow(clippy::unused_unit, reason = "the empty tuple")]
            fn host(&mut self) -> Self::Host<'_> {
                ($(self.$at.host(),)*)
            }

            #[allow(clippy::unused_unit, reason = "the empty tuple")]
            fn into_buffers(self) -> Self::Buffers {
                ($(self.$at.into_buffers(),)*)
            }
        }
    };
}

kept_tuple!();
kept_tuple!(A 0);
kept_tuple!(A 0, B 1);
kept_tuple!(A 0, B 1, C 2);
kept_tuple!(A 0, B 1, C 2, D 3);
kept_tuple!(A 0, B 1, C 2, D 3, E 4);
kept_tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
