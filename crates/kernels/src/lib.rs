//! CUDA kernels as committed PTX, each with its Rust twin for simulated devices.
//!
//! # A kernel exists twice
//!
//! On a real device a kernel is PTX; on a simulated one it is a [`Twin`](pinfold_hal::Twin): a Rust
//! function of the same name that takes the same arguments in the same order. Both travel in one
//! [`ModuleImage`](pinfold_hal::ModuleImage), so that a program loads `dot::image()` and need not
//! know what it runs on. The results are equal **to the bit** (NaNs aside: their payload may
//! differ), so that a test may compare a real device with a simulated one by `==`.
//!
//! # Rooms
//!
//! One file a kernel family, and the CUDA and Rust files mirror each other: read them side by side.
//!
//! | CUDA, in `kernels/cuda` | Rust, here | what |
//! |---|---|---|
//! | `reduce.cuh` | [`reduce`] | sums in a fixed order; the [`Cell`] that publishes them |
//! | `quad.cuh` | [`quad`] | floats read four at a time |
//! | `dot.cu` | [`dot`] | dot product of two float vectors |
//! | `cg.cu` | [`cg`] | conjugate gradients with a Jacobi preconditioner |
//! | `gather.cu` | [`gather`] | scattered rows and pieces, and their order by address |
//! | `memory.cu` | [`memory`] | fill, check, read in place, hold a stream |
//!
//! The PTX in `kernels/ptx` is made by `kernels/make-ptx` and committed: to use a kernel, a
//! machine needs a driver and no toolkit; to build this crate it needs neither. Target sm_75, the
//! oldest that CUDA 13 compiles for.
//!
//! # How equal bits come about
//!
//! - Floating-point addition is not associative, so **order is part of the contract**. There are
//!   no floating-point atomics; every sum is a tree whose shape depends on the launch shape alone
//!   ([`reduce`] draws it). Same data and same shape: same bits, on any device, every time.
//! - CUDA fuses `a * b + c` into one rounding unless told not to; Rust never does. The PTX is
//!   made with `-fmad=false`, and a test checks that every operation in it is rounded on its own.
//! - How many loads a thread has in flight changes the time, not the order. Twins leave it out, and
//!   walk in whatever order suits a CPU as long as each *accumulator* sees its elements in order.
//!
//! # Your own pair
//!
//! Write the kernel, include `reduce.cuh` if it sums, add the `.cu` file to `kernels/cuda` (or
//! compile it yourself with the flags in `kernels/make-ptx`), and write the twin:
//!
//! ```
//! use pinfold_hal::{ModuleImage, Scalar, Twin, TwinArg, TwinCall, TwinError};
//! use pinfold_kernels::reduce::write_prefix;
//!
//! // extern "C" __global__ void scale_f32(float* x, unsigned long long n, float by) {
//! //     for (unsigned long long i = grid_thread(); i < n; i += grid_threads()) x[i] *= by;
//! // }
//! fn scale_f32(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
//!     let [x, n, by] = call.args::<3>()?;
//!     let (n, by) = (n.scalar::<u64>()?, by.scalar::<f32>()?);
//!     // Where the real kernel would fault, the twin says why.
//!     write_prefix::<f32>("x", x, n)?.iter_mut().for_each(|x| *x *= by);
//!     Ok(())
//! }
//!
//! let ptx = ""; // include_str!("scale.ptx")
//! let image = ModuleImage {
//!     name: "scale".into(),
//!     ptx: ptx.into(),
//!     twins: vec![Twin::new("scale_f32", scale_f32)],
//! };
//!
//! // What a simulated device does with it:
//! let mut data = [1u64, 2]; // aligned for any element
//! let mut call = TwinCall {
//!     grid: [1, 1, 1],
//!     block: [32, 1, 1],
//!     args: vec![
//!         TwinArg::Write(bytemuck::cast_slice_mut(&mut data)),
//!         TwinArg::Scalar(Scalar::new(4u64).unwrap()),
//!         TwinArg::Scalar(Scalar::new(2.0f32).unwrap()),
//!     ],
//! };
//! assert!((image.twins[0].body)(&mut call).is_ok());
//! ```
//!
//! Rules that keep a pair honest: the twin checks every range before it touches it and never
//! panics; a kernel that sums ends in [`reduce::Finish`]; a launch shape comes from one function
//! that both sides use, such as [`dot::dot_shape`]; and a test runs the twin against a plain
//! loop.

#![forbid(unsafe_code)]

pub mod cg;
pub mod dot;
pub mod gather;
pub mod memory;
pub mod quad;
pub mod reduce;
#[cfg(test)]
mod tests;

pub use reduce::{Cell, CellWords};
