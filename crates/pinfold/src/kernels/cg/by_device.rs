//! The steps with factors that the device works out itself, from what the kernels before published
//! into its memory. The host has no part in them, so that a whole iteration can be one graph.

use super::{Cg, UpdateVectors, check_len, vector_len};
use crate::buffer::DeviceBuffer;
use crate::error::Result;
use crate::kernels::CellBuffer;
use crate::kernels::reduce::{IntoSink, Sink};
use crate::launch::{Args, Shape};
use crate::stream::Stream;
use pinfold_kernels::cg::cg_shape;

/// What the kernels of one iteration published on the device.
#[derive(Clone, Copy, Debug)]
pub struct StepCells<'a> {
    /// `r . z` before the iteration: what [`Cg::update`] or [`Cg::update_by`] published last.
    pub before: &'a CellBuffer,
    /// `p . q`, from [`Cg::spmv_dot`].
    pub curvature: &'a CellBuffer,
    /// `r . z` and `r . r` after [`Cg::update_by`].
    pub after: &'a CellBuffer,
}

impl Cg {
    /// Enqueues [`update`](Self::update) with `alpha` = `r . z` over `p . q`, the first values of
    /// `before` and of `curvature`.
    ///
    /// # Errors
    /// As there.
    pub fn update_by<S: IntoSink>(
        &mut self,
        stream: &Stream,
        before: &CellBuffer,
        curvature: &CellBuffer,
        vectors: UpdateVectors<'_>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        let (count, (blocks, threads)) = vectors.check()?;
        let (before, curvature) = (before.slice(0..1)?, curvature.slice(0..1)?);
        let mut sink = sink.into_sink();
        let args = Args::new().scalar(count).reads(&before).reads(&curvature);
        let args = vectors.add_to(args);
        let args = self.scratch.finish(args, 2 * blocks as usize, &mut sink)?;
        // SAFETY: these are the kernel's arguments; every vector has `count` elements.
        unsafe { stream.launch(&self.update_by, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }

    /// Enqueues [`direction`](Self::direction) with `beta` = `r . z` after over `r . z` before. The
    /// values of the sink are `p . q` and `r . r`, and are there before the vector is.
    ///
    /// # Errors
    /// As there.
    pub fn direction_by<S: IntoSink>(
        &mut self,
        stream: &Stream,
        cells: StepCells<'_>,
        inverse_diagonal: &DeviceBuffer<f64>,
        r: &DeviceBuffer<f64>,
        p: &mut DeviceBuffer<f64>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        let n = p.len();
        check_len("the inverse diagonal", inverse_diagonal, n)?;
        check_len("r", r, n)?;
        let count = vector_len(n)?;
        let (blocks, threads) = cg_shape(count, 1);
        let before = cells.before.slice(0..1)?;
        let curvature = cells.curvature.slice(0..1)?;
        let after = cells.after.slice(0..1)?;
        let mut sink = sink.into_sink();
        let args = Args::new()
            .scalar(count)
            .reads(&before)
            .reads(&curvature)
            .reads(&after)
            .reads(inverse_diagonal)
            .reads(r)
            .updates(p);
        let args = sink.add_to(args)?;
        // SAFETY: these are the kernel's arguments; every vector has `count` elements.
        unsafe { stream.launch(&self.direction_by, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }
}
