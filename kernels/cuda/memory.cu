// memory: kernels that measure and check memory, and one that holds a stream.
//
//   fill_u64   dst[i] = splitmix64(seed + i)
//   check_u64  cell.value = { number of i with src[i] != splitmix64(seed + i), first such i or n }
//   read_f32   cell.value = { sum of src[i], 0 }: reads all of src in order, for timing
//   check_strided_u32
//              the same as check_u64 for every stride-th half word of src, and for no other
//   chase_u32  follows src from place to place with one thread, each load waiting for the one
//              before: cell.value = { the place it comes to, 0 }
//   spin       keeps its threads busy for at least `cycles` cycles of the multiprocessor's clock
//
// Launch shapes and Rust twins: crates/kernels/src/memory.rs.

#include "quad.cuh"

// The output function of the SplitMix64 generator (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014), one step on from state x.
__device__ __forceinline__ unsigned long long splitmix64(unsigned long long x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) fill_u64(
    unsigned long long* dst, unsigned long long n, unsigned long long seed
) {
    for (unsigned long long i = grid_thread(); i < n; i += grid_threads()) {
        dst[i] = splitmix64(seed + i);
    }
}

// `partial` has room for 2 * blocks words: all blocks' counts, then all blocks' first mismatches.
extern "C" __global__ void __launch_bounds__(THREADS_MAX) check_u64(
    const unsigned long long* __restrict__ src, unsigned long long n, unsigned long long seed,
    unsigned long long* partial, unsigned int* ticket, Cell* cell, unsigned long long sequence
) {
    unsigned long long count = 0;
    unsigned long long first = n;
    for (unsigned long long i = grid_thread(); i < n; i += grid_threads()) {
        if (src[i] != splitmix64(seed + i)) {
            count += 1;
            first = i < first ? i : first;
        }
    }
    finish_found(count, first, n, partial, ticket, cell, sequence);
}

// Half words in the order of memory: the lower half of a word comes first.
extern "C" __global__ void __launch_bounds__(THREADS_MAX) check_strided_u32(
    const unsigned long long* __restrict__ src, unsigned long long n, unsigned long long stride,
    unsigned long long seed, unsigned long long* partial, unsigned int* ticket, Cell* cell,
    unsigned long long sequence
) {
    const unsigned int* halves = (const unsigned int*)src;
    const unsigned long long steps = (2 * n + stride - 1) / stride;
    unsigned long long count = 0;
    unsigned long long first = 2 * n;
    for (unsigned long long k = grid_thread(); k < steps; k += grid_threads()) {
        const unsigned long long i = k * stride;
        const unsigned long long word = splitmix64(seed + i / 2);
        if (halves[i] != (unsigned int)(word >> (32 * (i % 2)))) {
            count += 1;
            first = i < first ? i : first;
        }
    }
    finish_found(count, first, 2 * n, partial, ticket, cell, sequence);
}

// What is no place leads to the first one, so that no contents lead out of src.
extern "C" __global__ void __launch_bounds__(THREADS_MAX) chase_u32(
    const unsigned int* __restrict__ src, unsigned long long n, unsigned long long steps,
    double* partial, unsigned int* ticket, Cell* cell, unsigned long long sequence
) {
    unsigned long long place = 0;
    if (grid_thread() == 0) {
        for (unsigned long long step = 0; step < steps; ++step) {
            const unsigned int next = src[place];
            place = next < n ? next : 0;
        }
    }
    const double sums[1] = {(double)place};
    finish(sums, partial, ticket, cell, sequence);
}

template <bool ALIGNED>
__device__ __forceinline__ void read_quads(
    QuadSum& sum, const float* __restrict__ src, unsigned long long quads
) {
    const unsigned long long step = grid_threads();
    for (unsigned long long first = grid_thread(); first < quads; first += UNROLL * step) {
        float4 x[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if (first + u * step < quads) {
                x[u] = load_quad<ALIGNED>(src, first + u * step);
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if (first + u * step < quads) {
                sum.lane[0] += (double)x[u].x;
                sum.lane[1] += (double)x[u].y;
                sum.lane[2] += (double)x[u].z;
                sum.lane[3] += (double)x[u].w;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) read_f32(
    const float* __restrict__ src, unsigned long long n, double* partial, unsigned int* ticket,
    Cell* cell, unsigned long long sequence
) {
    const unsigned long long quads = n / 4;
    const unsigned long long last = 4 * quads + grid_thread();
    const float tail = last < n ? src[last] : 0.0f;  // issued first, used last
    QuadSum sum;
    if (is_quad_aligned(src)) {
        read_quads<true>(sum, src, quads);
    } else {
        read_quads<false>(sum, src, quads);
    }
    if (last < n) {
        sum.lane[0] += (double)tail;
    }
    const double sums[1] = {sum.total()};
    finish(sums, partial, ticket, cell, sequence);
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) spin(unsigned long long cycles) {
    const long long start = clock64();
    while ((unsigned long long)(clock64() - start) < cycles) {
    }
}
