// Floats read four at a time, several loads in flight: the fast way to read host memory in place.
//
// Thread t of G reads quad t, t + G, t + 2 G, ...; element j of every quad goes to the thread's
// accumulator j; up to three elements behind the last whole quad go to accumulator 0 of the first
// threads. A load from host memory takes microseconds, so a thread starts UNROLL quads of each
// input before it uses the first. None of that changes the order: crates/kernels/src/quad.rs
// repeats it without unrolling.

#pragma once

#include "reduce.cuh"

constexpr int UNROLL = 4;

__device__ __forceinline__ bool is_quad_aligned(const float* p) {
    return ((unsigned long long)p & 15) == 0;
}

// Quad `i`; in one load where the array allows it.
template <bool ALIGNED>
__device__ __forceinline__ float4 load_quad(const float* __restrict__ p, unsigned long long i) {
    if (ALIGNED) {
        return reinterpret_cast<const float4*>(p)[i];
    }
    const float* q = p + 4 * i;
    return make_float4(q[0], q[1], q[2], q[3]);
}

// The four accumulators of a thread.
struct QuadSum {
    double lane[4];

    __device__ __forceinline__ QuadSum() : lane{0.0, 0.0, 0.0, 0.0} {}

    __device__ __forceinline__ double total() const {
        return (lane[0] + lane[1]) + (lane[2] + lane[3]);
    }
};
