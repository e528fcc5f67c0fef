// cg: one step of conjugate gradients with a Jacobi preconditioner, in double, for a matrix in
// compressed sparse rows with 32-bit indices.
//
//   cg_spmv_dot   q = A p;                      cell.value = { p . q, 0 }
//   cg_update     x += alpha p; r -= alpha q;   cell.value = { r . D^-1 r, r . r }
//   cg_direction  p = D^-1 r + beta p
//
// The host reads p . q and r . D^-1 r from the cell and works out alpha and beta. Or nobody waits
// for the host, and two other kernels take them from the cells in device memory:
//
//   cg_update_by      as cg_update, with alpha = before.value[0] / curvature.value[0]
//   cg_direction_by   as cg_direction, with beta = after.value[0] / before.value[0];
//                     cell.value = { curvature.value[0], after.value[1] }
//
// where cg_spmv_dot published into curvature, cg_update_by into after, and the cg_update_by of the
// step before (or the first cg_update) into before. Row r of the
// matrix is columns[k], values[k] for k from row_start[r] up to row_start[r + 1]; the matrix may
// be read in place from mapped host memory. Launch shapes and Rust twins:
// crates/kernels/src/cg.rs.

#include "reduce.cuh"

// Entries of a row that a lane loads before it uses the first.
constexpr int ENTRIES = 4;

// The part of one row's product that belongs to this lane: entries lane, lane + lanes, ... in
// order.
__device__ __forceinline__ double row_part(
    unsigned long long from, unsigned long long to, unsigned int lanes,
    const unsigned int* __restrict__ columns, const double* __restrict__ values,
    const double* __restrict__ p
) {
    double sum = 0.0;
    for (unsigned long long k = from; k < to; k += ENTRIES * lanes) {
        unsigned int column[ENTRIES];
        double value[ENTRIES];
#pragma unroll
        for (int u = 0; u < ENTRIES; ++u) {
            if (k + u * lanes < to) {
                column[u] = columns[k + u * lanes];
                value[u] = values[k + u * lanes];
            }
        }
        double operand[ENTRIES];
#pragma unroll
        for (int u = 0; u < ENTRIES; ++u) {
            if (k + u * lanes < to) {
                operand[u] = p[column[u]];
            }
        }
#pragma unroll
        for (int u = 0; u < ENTRIES; ++u) {
            if (k + u * lanes < to) {
                sum += value[u] * operand[u];
            }
        }
    }
    return sum;
}

// `lanes` is 1, 2, 4, 8, 16 or 32: that many neighbouring lanes share a row.
extern "C" __global__ void __launch_bounds__(THREADS_MAX) cg_spmv_dot(
    unsigned int rows, unsigned int lanes, const unsigned int* __restrict__ row_start,
    const unsigned int* __restrict__ columns, const double* __restrict__ values,
    const double* __restrict__ p, double* __restrict__ q, double* partial, unsigned int* ticket,
    Cell* cell, unsigned long long sequence
) {
    const unsigned int shift = __ffs(lanes) - 1;
    const unsigned int lane = threadIdx.x & (lanes - 1);
    const unsigned long long groups = grid_threads() >> shift;
    const unsigned long long group = grid_thread() >> shift;
    const unsigned long long warp_group = grid_thread() / WARP * WARP >> shift;
    double sums[1] = {0.0};
    // The bound is the same for all lanes of a warp, so that all of them reach the shuffles.
    for (unsigned long long done = 0; warp_group + done < rows; done += groups) {
        const unsigned long long row = group + done;
        double product = 0.0;
        double operand = 0.0;
        if (row < rows) {
            const unsigned long long from = row_start[row];
            const unsigned long long to = row_start[row + 1];
            operand = p[row];
            product = row_part(from + lane, to, lanes, columns, values, p);
        }
        product = lanes_reduce<Sum>(product, lanes);
        if (row < rows && lane == 0) {
            q[row] = product;
            sums[0] += operand * product;
        }
    }
    finish(sums, partial, ticket, cell, sequence);
}

__device__ __forceinline__ void update(
    unsigned int n, double alpha, const double* __restrict__ p, const double* __restrict__ q,
    const double* __restrict__ inverse_diagonal, double* __restrict__ x, double* __restrict__ r,
    double* partial, unsigned int* ticket, Cell* cell, unsigned long long sequence
) {
    double sums[2] = {0.0, 0.0};
    for (unsigned long long i = grid_thread(); i < n; i += grid_threads()) {
        x[i] += alpha * p[i];
        const double residual = r[i] - alpha * q[i];
        r[i] = residual;
        sums[0] += residual * (inverse_diagonal[i] * residual);
        sums[1] += residual * residual;
    }
    finish(sums, partial, ticket, cell, sequence);
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) cg_update(
    unsigned int n, double alpha, const double* __restrict__ p, const double* __restrict__ q,
    const double* __restrict__ inverse_diagonal, double* __restrict__ x, double* __restrict__ r,
    double* partial, unsigned int* ticket, Cell* cell, unsigned long long sequence
) {
    update(n, alpha, p, q, inverse_diagonal, x, r, partial, ticket, cell, sequence);
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) cg_update_by(
    unsigned int n, const Cell* __restrict__ before, const Cell* __restrict__ curvature,
    const double* __restrict__ p, const double* __restrict__ q,
    const double* __restrict__ inverse_diagonal, double* __restrict__ x, double* __restrict__ r,
    double* partial, unsigned int* ticket, Cell* after, unsigned long long sequence
) {
    const double alpha = before->value[0] / curvature->value[0];
    update(n, alpha, p, q, inverse_diagonal, x, r, partial, ticket, after, sequence);
}

__device__ __forceinline__ void direction(
    unsigned int n, double beta, const double* __restrict__ inverse_diagonal,
    const double* __restrict__ r, double* __restrict__ p
) {
    for (unsigned long long i = grid_thread(); i < n; i += grid_threads()) {
        p[i] = inverse_diagonal[i] * r[i] + beta * p[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) cg_direction(
    unsigned int n, double beta, const double* __restrict__ inverse_diagonal,
    const double* __restrict__ r, double* __restrict__ p
) {
    direction(n, beta, inverse_diagonal, r, p);
}

// Publishes first: the host goes on while the vector is written.
extern "C" __global__ void __launch_bounds__(THREADS_MAX) cg_direction_by(
    unsigned int n, const Cell* __restrict__ before, const Cell* __restrict__ curvature,
    const Cell* __restrict__ after, const double* __restrict__ inverse_diagonal,
    const double* __restrict__ r, double* __restrict__ p, Cell* cell, unsigned long long sequence
) {
    if (grid_thread() == 0) {
        publish(cell, curvature->value[0], after->value[1], sequence);
    }
    direction(n, after->value[0] / before->value[0], inverse_diagonal, r, p);
}
