// dot: the dot product of two float vectors, accumulated in double.
//
//   dot_f32  cell.value[0] = sum of a[i] * b[i], cell.value[1] = 0
//
// The vectors may lie in device memory or be read in place from mapped host memory. A product of
// two floats is exact in double (24 + 24 bits fit in 53), so only the additions round. Launch shape
// and Rust twin: crates/kernels/src/dot.rs.

#include "quad.cuh"

__device__ __forceinline__ void add_products(QuadSum& sum, const float4& a, const float4& b) {
    sum.lane[0] += (double)a.x * (double)b.x;
    sum.lane[1] += (double)a.y * (double)b.y;
    sum.lane[2] += (double)a.z * (double)b.z;
    sum.lane[3] += (double)a.w * (double)b.w;
}

template <bool ALIGNED>
__device__ __forceinline__ void dot_quads(
    QuadSum& sum, const float* __restrict__ a, const float* __restrict__ b,
    unsigned long long quads
) {
    const unsigned long long step = grid_threads();
    for (unsigned long long first = grid_thread(); first < quads; first += UNROLL * step) {
        float4 x[UNROLL];
        float4 y[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if (first + u * step < quads) {
                x[u] = load_quad<ALIGNED>(a, first + u * step);
                y[u] = load_quad<ALIGNED>(b, first + u * step);
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if (first + u * step < quads) {
                add_products(sum, x[u], y[u]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) dot_f32(
    const float* __restrict__ a, const float* __restrict__ b, unsigned long long n,
    double* partial, unsigned int* ticket, Cell* cell, unsigned long long sequence
) {
    const unsigned long long quads = n / 4;
    const unsigned long long last = 4 * quads + grid_thread();
    float tail_a = 0.0f;
    float tail_b = 0.0f;
    if (last < n) {  // issued first, used last
        tail_a = a[last];
        tail_b = b[last];
    }
    QuadSum sum;
    if (is_quad_aligned(a) && is_quad_aligned(b)) {
        dot_quads<true>(sum, a, b, quads);
    } else {
        dot_quads<false>(sum, a, b, quads);
    }
    if (last < n) {
        sum.lane[0] += (double)tail_a * (double)tail_b;
    }
    const double sums[1] = {sum.total()};
    finish(sums, partial, ticket, cell, sequence);
}
