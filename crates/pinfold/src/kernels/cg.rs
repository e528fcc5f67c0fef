//! The steps of preconditioned conjugate gradients on a sparse matrix, in double.
//!
//! A [`Csr`] is checked once, on the host. Every [`Matrix`] is made from one and cannot be changed
//! afterwards, so that kernels can follow its indices without looking.

mod by_device;

pub use by_device::StepCells;

use super::reduce::{IntoSink, Scratch, Sink};
use crate::buffer::{DeviceBuffer, DeviceRead, InFlight, UploadBuffer};
use crate::error::{Error, Result};
use crate::launch::{Args, Kernel, Module, Shape};
use crate::memory::Memory;
use crate::stream::Stream;
use pinfold_hal::Pattern;
use pinfold_kernels::cg::{cg_lanes, cg_shape, image};

/// A square sparse matrix in compressed rows, on the host, checked.
#[derive(Clone, Copy, Debug)]
pub struct Csr<'a> {
    row_start: &'a [u32],
    columns: &'a [u32],
    values: &'a [f64],
}

impl<'a> Csr<'a> {
    /// Checks the parts of a matrix: `row_start` ascends from 0 to the number of entries, and
    /// every column is below the number of rows.
    ///
    /// # Errors
    /// [`Error::Matrix`] saying what is wrong.
    pub fn new(row_start: &'a [u32], columns: &'a [u32], values: &'a [f64]) -> Result<Self> {
        let problem = |text: String| Err(Error::Matrix { problem: text });
        let rows = row_start.len().saturating_sub(1);
        if row_start.first() != Some(&0) || rows > u32::MAX as usize {
            return problem("the list of row starts must begin with 0".to_owned());
        }
        if let Some(row) = row_start.windows(2).position(|pair| pair[0] > pair[1]) {
            return problem(format!("row {row} ends before it starts"));
        }
        if columns.len() != values.len() || row_start[rows] as usize != values.len() {
            return problem(format!(
                "{} row-start entries, {} columns and {} values do not belong together",
                row_start[rows],
                columns.len(),
                values.len()
            ));
        }
        match columns.iter().position(|column| *column as usize >= rows) {
            Some(at) => problem(format!(
                "entry {at} lies in column {} of {rows}",
                columns[at]
            )),
            None => Ok(Csr {
                row_start,
                columns,
                values,
            }),
        }
    }

    /// Number of rows, and of columns.
    pub fn rows(&self) -> usize {
        self.row_start.len() - 1
    }
}

/// A checked matrix somewhere: three arrays of the same place.
#[derive(Debug)]
pub struct Matrix<I, V> {
    rows: u32,
    entries: u32,
    row_start: I,
    columns: I,
    values: V,
}

/// A matrix in host memory, with the host.
pub type HostMatrix = Matrix<UploadBuffer<u32>, UploadBuffer<f64>>;
/// A matrix in host memory that a device uses, in place or as the source of copies.
pub type FlyingMatrix = Matrix<InFlight<UploadBuffer<u32>>, InFlight<UploadBuffer<f64>>>;
/// A matrix in device memory.
pub type DeviceMatrix = Matrix<DeviceBuffer<u32>, DeviceBuffer<f64>>;

impl<I, V> Matrix<I, V> {
    /// Number of rows, and of columns.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Bytes of the three arrays.
    pub fn bytes(&self) -> u64 {
        4 * (u64::from(self.rows) + 1) + 12 * u64::from(self.entries)
    }
}

impl HostMatrix {
    /// Puts a matrix into host memory: for copies, or for kernels to read in place.
    ///
    /// # Errors
    /// Where the memory cannot be had.
    pub fn new(memory: &Memory, csr: &Csr<'_>, in_place: bool) -> Result<Self> {
        fn fill<T: crate::Element>(
            memory: &Memory,
            from: &[T],
            in_place: bool,
        ) -> Result<UploadBuffer<T>> {
            let mut to = if in_place {
                memory.upload_in_place(from.len())?
            } else {
                memory.upload(from.len())?
            };
            to.write(0, from)?;
            Ok(to)
        }
        Ok(Matrix {
            rows: csr.rows() as u32,
            entries: csr.values.len() as u32,
            row_start: fill(memory, csr.row_start, in_place)?,
            columns: fill(memory, csr.columns, in_place)?,
            values: fill(memory, csr.values, in_place)?,
        })
    }

    /// Where it is, and why.
    pub fn placement(&self) -> &crate::Placement {
        self.values.placement()
    }

    /// Hands the matrix to devices for use in place.
    pub fn lend(self) -> FlyingMatrix {
        Matrix {
            rows: self.rows,
            entries: self.entries,
            row_start: self.row_start.lend(),
            columns: self.columns.lend(),
            values: self.values.lend(),
        }
    }

    /// Enqueues a copy to new device memory.
    ///
    /// # Errors
    /// Where the memory cannot be had, or a copy not be enqueued.
    pub fn upload(self, memory: &Memory, stream: &Stream) -> Result<(FlyingMatrix, DeviceMatrix)> {
        let (rows, entries) = (self.rows, self.entries);
        let device = stream.device();
        let mut row_start = memory.device_on(device, rows as usize + 1)?;
        let mut columns = memory.device_on(device, entries as usize)?;
        let mut values = memory.device_on(device, entries as usize)?;
        let flying = Matrix {
            rows,
            entries,
            row_start: stream.upload(self.row_start, &mut row_start)?,
            columns: stream.upload(self.columns, &mut columns)?,
            values: stream.upload(self.values, &mut values)?,
        };
        Ok((
            flying,
            Matrix {
                rows,
                entries,
                row_start,
                columns,
                values,
            },
        ))
    }

    /// Enqueues a copy over a matrix of the same size that is on the device already.
    ///
    /// # Errors
    /// [`Error::Length`] for another size; where a copy cannot be enqueued.
    pub fn upload_again(self, stream: &Stream, to: &mut DeviceMatrix) -> Result<FlyingMatrix> {
        // A mixture of two matrices of one size would still be a matrix: every row lies within the
        // entries, and every column within the rows.
        if (self.rows, self.entries) != (to.rows, to.entries) {
            let (got, want) = (to.entries as usize, self.entries as usize);
            return Err(Error::Length {
                what: "matrix on the device",
                got,
                want,
            });
        }
        Ok(Matrix {
            rows: self.rows,
            entries: self.entries,
            row_start: stream.upload(self.row_start, &mut to.row_start)?,
            columns: stream.upload(self.columns, &mut to.columns)?,
            values: stream.upload(self.values, &mut to.values)?,
        })
    }
}

impl FlyingMatrix {
    /// Waits until no device uses it, and gives it back to the host.
    ///
    /// # Errors
    /// What the device's work failed with.
    pub fn wait(self) -> Result<HostMatrix> {
        Ok(Matrix {
            rows: self.rows,
            entries: self.entries,
            row_start: self.row_start.wait()?,
            columns: self.columns.wait()?,
            values: self.values.wait()?,
        })
    }
}

/// The kernels with their scratch memory.
pub struct Cg {
    spmv_dot: Kernel,
    update: Kernel,
    direction: Kernel,
    update_by: Kernel,
    direction_by: Kernel,
    scratch: Scratch,
}

/// The vectors that [`Cg::update`] works on, all of one length.
#[derive(Debug)]
pub struct UpdateVectors<'a> {
    /// The search direction.
    pub p: &'a DeviceBuffer<f64>,
    /// The matrix times the search direction.
    pub q: &'a DeviceBuffer<f64>,
    /// One over the matrix's diagonal.
    pub inverse_diagonal: &'a DeviceBuffer<f64>,
    /// The solution so far.
    pub x: &'a mut DeviceBuffer<f64>,
    /// The residual.
    pub r: &'a mut DeviceBuffer<f64>,
}

impl<'a> UpdateVectors<'a> {
    /// Their length, and the launch shape for it.
    fn check(&self) -> Result<(u32, (u32, u32))> {
        let n = self.p.len();
        check_len("q", self.q, n)?;
        check_len("the inverse diagonal", self.inverse_diagonal, n)?;
        check_len("x", self.x, n)?;
        check_len("r", self.r, n)?;
        let count = vector_len(n)?;
        Ok((count, cg_shape(count, 1)))
    }

    fn add_to(self, args: Args<'a>) -> Args<'a> {
        args.reads(self.p)
            .reads(self.q)
            .reads(self.inverse_diagonal)
            .updates(self.x)
            .updates(self.r)
    }
}

impl Cg {
    /// Loads the kernels for the stream's device.
    ///
    /// # Errors
    /// Where a kernel cannot be loaded or the scratch memory not be had.
    pub fn load(memory: &Memory, stream: &Stream) -> Result<Self> {
        let module = Module::load(stream.device(), &image())?;
        let blocks_max = cg_shape(u32::MAX, 32).0 as usize;
        Ok(Cg {
            spmv_dot: module.kernel("cg_spmv_dot")?,
            update: module.kernel("cg_update")?,
            direction: module.kernel("cg_direction")?,
            update_by: module.kernel("cg_update_by")?,
            direction_by: module.kernel("cg_direction_by")?,
            scratch: Scratch::new(memory, stream, 2 * blocks_max)?,
        })
    }

    /// Enqueues `q = A p`. The first value of the sink is `p . q`.
    ///
    /// # Errors
    /// [`Error::Length`], and all of a launch.
    pub fn spmv_dot<S, I, V>(
        &mut self,
        stream: &Stream,
        matrix: &Matrix<I, V>,
        p: &DeviceBuffer<f64>,
        q: &mut DeviceBuffer<f64>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise>
    where
        S: IntoSink,
        I: DeviceRead<Item = u32>,
        V: DeviceRead<Item = f64>,
    {
        check_len("p", p, matrix.rows())?;
        check_len("q", q, matrix.rows())?;
        let lanes = cg_lanes(matrix.rows, matrix.entries);
        let (blocks, threads) = cg_shape(matrix.rows, lanes);
        let gathered = Pattern::Random {
            row_bytes: 8,
            count: u64::from(matrix.entries),
        };
        let mut sink = sink.into_sink();
        let args = Args::new()
            .scalar(matrix.rows)
            .scalar(lanes)
            .reads(&matrix.row_start)
            .reads(&matrix.columns)
            .reads(&matrix.values)
            .reads_as(p, gathered)
            .writes(q);
        let args = self.scratch.finish(args, blocks as usize, &mut sink)?;
        // SAFETY: these are the kernel's arguments. The matrix was checked when it was made and not
        // changed since, so that rows stay within its entries and columns within `p`.
        unsafe { stream.launch(&self.spmv_dot, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }

    /// Enqueues `x += alpha p` and `r -= alpha q`. The values of the sink are `r . z`, with `z` the
    /// preconditioned residual, and `r . r`.
    ///
    /// # Errors
    /// [`Error::Length`], and all of a launch.
    pub fn update<S: IntoSink>(
        &mut self,
        stream: &Stream,
        alpha: f64,
        vectors: UpdateVectors<'_>,
        sink: S,
    ) -> Result<<S::Sink as Sink>::Promise> {
        let (count, (blocks, threads)) = vectors.check()?;
        let mut sink = sink.into_sink();
        let args = vectors.add_to(Args::new().scalar(count).scalar(alpha));
        let args = self.scratch.finish(args, 2 * blocks as usize, &mut sink)?;
        // SAFETY: these are the kernel's arguments; every vector has `count` elements.
        unsafe { stream.launch(&self.update, Shape::linear(blocks, threads), args)? };
        Ok(sink.promise())
    }

    /// Enqueues `p = z + beta p`, with `z` the preconditioned residual.
    ///
    /// # Errors
    /// [`Error::Length`], and all of a launch.
    pub fn direction(
        &mut self,
        stream: &Stream,
        beta: f64,
        inverse_diagonal: &DeviceBuffer<f64>,
        r: &DeviceBuffer<f64>,
        p: &mut DeviceBuffer<f64>,
    ) -> Result<()> {
        let n = p.len();
        check_len("the inverse diagonal", inverse_diagonal, n)?;
        check_len("r", r, n)?;
        let count = vector_len(n)?;
        let (blocks, threads) = cg_shape(count, 1);
        let args = Args::new()
            .scalar(count)
            .scalar(beta)
            .reads(inverse_diagonal)
            .reads(r)
            .updates(p);
        // SAFETY: these are the kernel's arguments; every vector has `count` elements.
        unsafe { stream.launch(&self.direction, Shape::linear(blocks, threads), args) }
    }
}

impl std::fmt::Debug for Cg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cg").finish_non_exhaustive()
    }
}

fn check_len(what: &'static str, vector: &DeviceBuffer<f64>, want: usize) -> Result<()> {
    let got = vector.len();
    if got == want {
        Ok(())
    } else {
        Err(Error::Length { what, got, want })
    }
}

fn vector_len(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::Matrix {
        problem: format!("{n} rows are more than 32-bit indices can name"),
    })
}
