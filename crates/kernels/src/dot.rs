//! The dot product of two float vectors, accumulated in double: the twin of `dot.cu`.
//!
//! ```text
//! dot_f32(a: f32[n] read, b: f32[n] read, n: u64, partial: f64[blocks] write,
//!         ticket: u32[1] read-write, cell: CellWords[1] read-write, sequence: u64)
//!     publishes a . b and 0
//! ```
//!
//! Both vectors are read once, in order, and may lie in mapped host memory. The ticket is 0
//! before the first launch, and the kernel leaves it at 0.

use crate::quad::{quad_shape, sum_by_quads};
use crate::reduce::{Finish, Grid, read_prefix};
use pinfold_hal::{ModuleImage, Twin, TwinCall, TwinError};

/// The family's PTX and twins.
pub fn image() -> ModuleImage {
    ModuleImage {
        name: "dot".into(),
        ptx: include_str!("../../../kernels/ptx/dot.ptx").into(),
        twins: vec![Twin::new("dot_f32", dot_f32)],
    }
}

/// The launch shape `(blocks, threads)` for vectors of `n` floats; `blocks` is also the number of
/// scratch elements.
pub fn dot_shape(n: u64) -> (u32, u32) {
    quad_shape(n)
}

fn dot_f32(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [a, b, n, partial, ticket, cell, sequence] = call.args::<7>()?;
    let n = n.scalar::<u64>()?;
    let (a, b) = (
        read_prefix::<f32>("a", a, n)?,
        read_prefix::<f32>("b", b, n)?,
    );
    let mut finish = Finish::<f64>::new(grid, 1, [partial, ticket, cell, sequence])?;
    sum_by_quads(grid, a.len(), finish.partial(), |sums, part| {
        for ((sum, a), b) in sums.iter_mut().zip(&a[part.clone()]).zip(&b[part]) {
            *sum += f64::from(*a) * f64::from(*b);
        }
    });
    finish.sums();
    Ok(())
}
