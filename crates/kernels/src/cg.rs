//! Conjugate gradients with a Jacobi preconditioner, in double: the twin of `cg.cu`.
//!
//! The matrix A is in compressed sparse rows: the entries of row r are `columns[k]` and `values[k]`
//! for k from `row_start[r]` up to `row_start[r + 1]`. D is its diagonal.
//!
//! ```text
//! cg_spmv_dot(rows: u32, lanes: u32, row_start: u32[rows + 1] read, columns: u32[nnz] read,
//!             values: f64[nnz] read, p: f64[rows] read at random, q: f64[rows] write, FINISH)
//!     q = A p                              publishes p . q and 0
//! cg_update(n: u32, alpha: f64, p: f64[n] read, q: f64[n] read, inverse_diagonal: f64[n] read,
//!           x: f64[n] read-write, r: f64[n] read-write, FINISH)
//!     x += alpha p, r -= alpha q           publishes r . D^-1 r and r . r
//! cg_direction(n: u32, beta: f64, inverse_diagonal: f64[n] read, r: f64[n] read,
//!              p: f64[n] read-write)
//!     p = D^-1 r + beta p                  publishes nothing
//! cg_update_by(n: u32, before: CellWords[1] read, curvature: CellWords[1] read, p, q,
//!              inverse_diagonal, x, r, FINISH)
//!     as cg_update with alpha = before[0] / curvature[0]
//! cg_direction_by(n: u32, before: CellWords[1] read, curvature: CellWords[1] read,
//!                 after: CellWords[1] read, inverse_diagonal, r, p,
//!                 cell: CellWords[1] read-write, sequence: u64)
//!     as cg_direction with beta = after[0] / before[0]
//!                                          publishes curvature[0] and after[1]
//!
//! FINISH is partial: f64[sums * blocks] write (1 sum, or 2 in cg_update),
//!           ticket: u32[1] read-write, cell: CellWords[1] read-write, sequence: u64
//! ```
//!
//! The ticket is 0 before the first launch, and the kernels leave it at 0. `inverse_diagonal` holds
//! 1 / D. All other walks over memory are in order, once.
//!
//! To solve A x = b: x = 0, r = b, **p = q = 0** (not just any memory: 0 times a NaN is a NaN),
//! then `cg_update` with alpha = 0 for the first r . D^-1 r and `cg_direction` with beta = 0;
//! after that repeat `cg_spmv_dot`, alpha = (r . D^-1 r) / (p . q), `cg_update`, beta = new / old
//! r . D^-1 r, `cg_direction` (Saad, *Iterative Methods for Sparse Linear Systems*, 2nd edition,
//! algorithm 9.1). With `cg_update_by` and `cg_direction_by` the device works the factors out from
//! what the kernels before them published into device memory.

use crate::reduce::{
    Cell, CellWords, Finish, Grid, WARP, block_sum, read_prefix, tree_sum, write_prefix,
};
use pinfold_hal::{ModuleImage, Twin, TwinArg, TwinCall, TwinError};

/// Threads a block.
const THREADS: u32 = 256;

/// Eight blocks for each multiprocessor of a large device (132): its 2048 threads.
const BLOCKS_MAX: u64 = 1056;

/// The family's PTX and twins.
pub fn image() -> ModuleImage {
    ModuleImage {
        name: "cg".into(),
        ptx: include_str!("../../../kernels/ptx/cg.ptx").into(),
        twins: vec![
            Twin::new("cg_spmv_dot", cg_spmv_dot),
            Twin::new("cg_update", cg_update),
            Twin::new("cg_direction", cg_direction),
            Twin::new("cg_update_by", cg_update_by),
            Twin::new("cg_direction_by", cg_direction_by),
        ],
    }
}

/// Neighbouring lanes that should share a row, for a matrix of this size: the largest power of two,
/// up to 32, that is not above the mean number of entries in a row.
pub fn cg_lanes(rows: u32, nnz: u32) -> u32 {
    let mean = nnz.checked_div(rows).unwrap_or(0);
    1 << mean.clamp(1, WARP as u32).ilog2()
}

/// The launch shape `(blocks, threads)` for `rows` rows of `lanes` lanes, or for vectors of
/// `rows` elements with `lanes` = 1: one row a group of lanes, so that a small system starts few
/// blocks, up to as many as fill a large device. `blocks` is also the number of scratch elements
/// for each sum.
pub fn cg_shape(rows: u32, lanes: u32) -> (u32, u32) {
    let blocks = (u64::from(rows) * u64::from(lanes))
        .div_ceil(u64::from(THREADS))
        .clamp(1, BLOCKS_MAX);
    (blocks as u32, THREADS)
}

/// A matrix, as far as a kernel may reach into it.
struct Rows<'a> {
    start: &'a [u32],
    columns: &'a [u32],
    values: &'a [f64],
}

impl Rows<'_> {
    /// Row `row` of the product with `p`: lane l adds up entries l, l + lanes, ... in order; then
    /// the lanes' tree.
    fn product(&self, row: usize, lanes: usize, p: &[f64]) -> Result<f64, TwinError> {
        let entries = self.start[row] as usize..self.start[row + 1] as usize;
        let (Some(columns), Some(values)) = (
            self.columns.get(entries.clone()),
            self.values.get(entries.clone()),
        ) else {
            return Err(TwinError(format!(
                "row {row} reaches entries {entries:?}, and `columns` and `values` cover {} and {}",
                self.columns.len(),
                self.values.len()
            )));
        };
        let mut sums = [0.0; WARP];
        for (columns, values) in columns.chunks(lanes).zip(values.chunks(lanes)) {
            for ((sum, column), value) in sums.iter_mut().zip(columns).zip(values) {
                let Some(operand) = p.get(*column as usize) else {
                    return Err(TwinError(format!(
                        "row {row} has column {column}, and `p` covers {} elements",
                        p.len()
                    )));
                };
                *sum += value * operand;
            }
        }
        Ok(tree_sum(&mut sums[..lanes]))
    }
}

fn cg_spmv_dot(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [
        rows,
        lanes,
        row_start,
        columns,
        values,
        p,
        q,
        partial,
        ticket,
        cell,
        sequence,
    ] = call.args::<11>()?;
    let rows = u64::from(rows.scalar::<u32>()?);
    let lanes = lanes.scalar::<u32>()? as usize;
    if !lanes.is_power_of_two() || lanes > WARP {
        return Err(TwinError(format!(
            "{lanes} lanes a row: 1, 2, 4, 8, 16 or 32 are possible"
        )));
    }
    let matrix = Rows {
        start: read_prefix("row_start", row_start, rows + 1)?,
        columns: columns.read()?,
        values: values.read()?,
    };
    let p = read_prefix::<f64>("p", p, rows)?;
    let q = write_prefix::<f64>("q", q, rows)?;
    let mut finish = Finish::<f64>::new(grid, 1, [partial, ticket, cell, sequence])?;
    // Row r belongs to group r modulo groups, and to the first thread of that group.
    let mut groups = vec![0.0; grid.total() / lanes];
    let strip = groups.len();
    for (index, q) in q.chunks_mut(strip).enumerate() {
        for ((row, q), sum) in (index * strip..).zip(q).zip(&mut groups) {
            *q = matrix.product(row, lanes, p)?;
            *sum += p[row] * *q;
        }
    }
    sum_groups(grid, lanes, &groups, finish.partial());
    finish.sums();
    Ok(())
}

/// The blocks' sums, where the first thread of every group of lanes holds the group's sum and the
/// others hold 0.
fn sum_groups(grid: Grid, lanes: usize, groups: &[f64], partial: &mut [f64]) {
    let mut threads = vec![0.0; grid.threads];
    let blocks = groups.chunks_exact(grid.threads / lanes);
    for (partial, groups) in partial.iter_mut().zip(blocks) {
        threads.fill(0.0);
        for (thread, sum) in threads.iter_mut().step_by(lanes).zip(groups) {
            *thread = *sum;
        }
        *partial = block_sum(&mut threads);
    }
}

fn cg_update(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [
        n,
        alpha,
        p,
        q,
        inverse,
        x,
        r,
        partial,
        ticket,
        cell,
        sequence,
    ] = call.args::<11>()?;
    let alpha = alpha.scalar::<f64>()?;
    let finish = Finish::<f64>::new(grid, 2, [partial, ticket, cell, sequence])?;
    update(grid, alpha, [n, p, q, inverse, x, r], finish)
}

fn cg_update_by(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    let grid = Grid::of(call)?;
    let [
        n,
        before,
        curvature,
        p,
        q,
        inverse,
        x,
        r,
        partial,
        ticket,
        after,
        sequence,
    ] = call.args::<12>()?;
    let [before, _] = cell_values("before", before)?;
    let [curvature, _] = cell_values("curvature", curvature)?;
    let finish = Finish::<f64>::new(grid, 2, [partial, ticket, after, sequence])?;
    update(grid, before / curvature, [n, p, q, inverse, x, r], finish)
}

/// What an earlier kernel published.
fn cell_values(name: &str, cell: &TwinArg<'_>) -> Result<[f64; 2], TwinError> {
    Ok(Cell::from(read_prefix::<CellWords>(name, cell, 1)?[0]).values())
}

fn update(
    grid: Grid,
    alpha: f64,
    [n, p, q, inverse, x, r]: [&mut TwinArg<'_>; 6],
    mut finish: Finish<'_, f64>,
) -> Result<(), TwinError> {
    let n = u64::from(n.scalar::<u32>()?);
    let p = read_prefix::<f64>("p", p, n)?;
    let q = read_prefix::<f64>("q", q, n)?;
    let inverse = read_prefix::<f64>("inverse_diagonal", inverse, n)?;
    let x = write_prefix::<f64>("x", x, n)?;
    let r = write_prefix::<f64>("r", r, n)?;
    for (x, p) in x.iter_mut().zip(p) {
        *x += alpha * p;
    }
    let (preconditioned, squares) = finish.partial().split_at_mut(grid.blocks);
    let mut threads = [vec![0.0; grid.threads], vec![0.0; grid.threads]];
    for (block, sums) in preconditioned.iter_mut().zip(squares).enumerate() {
        let [rdr, rr] = &mut threads;
        rdr.fill(0.0);
        rr.fill(0.0);
        for start in (block * grid.threads..r.len()).step_by(grid.total()) {
            let part = start..r.len().min(start + grid.threads);
            let (r, q, inverse) = (&mut r[part.clone()], &q[part.clone()], &inverse[part]);
            let sums = rdr.iter_mut().zip(rr.iter_mut());
            for ((((rdr, rr), r), q), inverse) in sums.zip(r).zip(q).zip(inverse) {
                *r -= alpha * q;
                *rdr += *r * (inverse * *r);
                *rr += *r * *r;
            }
        }
        (*sums.0, *sums.1) = (block_sum(rdr), block_sum(rr));
    }
    finish.sums();
    Ok(())
}

fn cg_direction(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    Grid::of(call)?;
    let [n, beta, inverse, r, p] = call.args::<5>()?;
    let beta = beta.scalar::<f64>()?;
    direction(beta, [n, inverse, r, p])
}

fn cg_direction_by(call: &mut TwinCall<'_>) -> Result<(), TwinError> {
    Grid::of(call)?;
    let [n, before, curvature, after, inverse, r, p, cell, sequence] = call.args::<9>()?;
    let [before, _] = cell_values("before", before)?;
    let [curvature, _] = cell_values("curvature", curvature)?;
    let [after, squares] = cell_values("after", after)?;
    let words = &mut write_prefix::<CellWords>("cell", cell, 1)?[0];
    words[..2].copy_from_slice(&[curvature.to_bits(), squares.to_bits()]);
    words[2] = sequence.scalar()?;
    direction(after / before, [n, inverse, r, p])
}

fn direction(beta: f64, [n, inverse, r, p]: [&mut TwinArg<'_>; 4]) -> Result<(), TwinError> {
    let n = u64::from(n.scalar::<u32>()?);
    let inverse = read_prefix::<f64>("inverse_diagonal", inverse, n)?;
    let r = read_prefix::<f64>("r", r, n)?;
    let p = write_prefix::<f64>("p", p, n)?;
    for ((p, inverse), r) in p.iter_mut().zip(inverse).zip(r) {
        *p = inverse * r + beta * *p;
    }
    Ok(())
}
