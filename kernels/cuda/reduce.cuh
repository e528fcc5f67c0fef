// Sums over a whole grid in one fixed order, published to whoever waits for them.
//
// Why a fixed order: floating-point addition is not associative, so a sum whose order depends on
// timing differs from run to run. There are no floating-point atomics here. The order depends on
// the launch shape alone, and crates/kernels/src/reduce.rs repeats it, so that kernel and Rust twin
// give the same bits. That also needs -fmad=false: a fused multiply-add rounds once, Rust's twice.
//
//   thread   adds up its own elements
//   warp     lane i += lane i + 16, then + 8, + 4, + 2, + 1
//   block    the warps' sums, in the same tree, padded with the neutral element to 32
//   grid     each block stores its sum in `partial`; the block that finishes last adds them up:
//            thread t takes partial t, t + threads, ... in order, then the block's tree again
//
// Blocks are one-dimensional, a multiple of 32 and at most THREADS_MAX threads.

#pragma once

constexpr unsigned int WARP = 32;
constexpr unsigned int FULL_WARP = 0xffffffffu;
constexpr unsigned int THREADS_MAX = 512;

// What a kernel publishes: 32 bytes, aligned to 8, in device memory or in mapped host memory. Who
// reads the awaited `sequence` with an acquire load may read the values.
struct Cell {
    double value[2];
    unsigned long long sequence;
    unsigned long long reserved;
};

struct Sum {
    template <class T> static __device__ __forceinline__ T join(T a, T b) { return a + b; }
};

struct Min {
    template <class T> static __device__ __forceinline__ T join(T a, T b) { return b < a ? b : a; }
};

// This thread's number in the grid, and the number of threads in the grid.
__device__ __forceinline__ unsigned long long grid_thread() {
    return (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ unsigned long long grid_threads() {
    return (unsigned long long)gridDim.x * blockDim.x;
}

// Joins the values of `width` neighbouring lanes (a power of two up to 32). The first lane of the
// group has the result; all lanes of the warp must take part.
template <class Op, class T>
__device__ __forceinline__ T lanes_reduce(T value, unsigned int width) {
    for (unsigned int offset = width / 2; offset > 0; offset /= 2) {
        value = Op::join(value, __shfl_down_sync(FULL_WARP, value, offset, width));
    }
    return value;
}

// Joins the values of all threads of the block. Thread 0 has the result.
template <class Op, class T>
__device__ __forceinline__ T block_reduce(T value, T neutral) {
    __shared__ T warps[WARP];
    const unsigned int lane = threadIdx.x % WARP;
    const unsigned int warp = threadIdx.x / WARP;
    value = lanes_reduce<Op>(value, WARP);
    __syncthreads();  // an earlier call may still be reading `warps`
    if (lane == 0) {
        warps[warp] = value;
    }
    __syncthreads();
    if (warp == 0) {
        value = lane < blockDim.x / WARP ? warps[lane] : neutral;
        value = lanes_reduce<Op>(value, WARP);
    }
    return value;
}

// True in every thread of the block that comes here last; that block sees what thread 0 of every
// other block wrote before. The ticket starts at 0 and is back at 0 afterwards, ready for the next
// launch: atomicInc wraps.
__device__ __forceinline__ bool last_block(unsigned int* ticket) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    return last;
}

// Publishes two values from one thread. A release store is a system-wide fence and a store in one:
// neither the host nor another device sees the sequence before the values.
__device__ __forceinline__ void publish(
    Cell* cell, double value0, double value1, unsigned long long sequence
) {
    cell->value[0] = value0;
    cell->value[1] = value1;
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(&cell->sequence), "l"(sequence) : "memory");
}

// What every thread of the grid found: how many, and the place of the first, or `none`. Publishes
// the sum and the least. `partial` has room for 2 * blocks words: all blocks' counts, then all
// blocks' first places.
__device__ __forceinline__ void finish_found(
    unsigned long long count, unsigned long long first, unsigned long long none,
    unsigned long long* partial, unsigned int* ticket, Cell* cell, unsigned long long sequence
) {
    count = block_reduce<Sum>(count, 0ull);
    first = block_reduce<Min>(first, none);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = count;
        partial[(unsigned long long)gridDim.x + blockIdx.x] = first;
    }
    if (!last_block(ticket)) {
        return;
    }
    count = 0;
    first = none;
    for (unsigned int i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
        count += __ldcg(partial + i);  // from L2: another multiprocessor wrote it
        first = Min::join(first, __ldcg(partial + gridDim.x + i));
    }
    count = block_reduce<Sum>(count, 0ull);
    first = block_reduce<Min>(first, none);
    if (threadIdx.x == 0) {
        publish(cell, (double)count, (double)first, sequence);
    }
}

// Adds up N (1 or 2) values of every thread of the grid and publishes them. `partial` has room for
// N * blocks doubles: all blocks' first sums, then all blocks' second sums.
template <int N>
__device__ __forceinline__ void finish(
    const double (&sums)[N], double* partial, unsigned int* ticket, Cell* cell,
    unsigned long long sequence
) {
    static_assert(N == 1 || N == 2, "a cell holds two values");
    for (int k = 0; k < N; ++k) {
        const double sum = block_reduce<Sum>(sums[k], 0.0);
        if (threadIdx.x == 0) {
            partial[(unsigned long long)k * gridDim.x + blockIdx.x] = sum;
        }
    }
    if (!last_block(ticket)) {
        return;
    }
    double total[2] = {0.0, 0.0};
    for (int k = 0; k < N; ++k) {
        const double* from = partial + (unsigned long long)k * gridDim.x;
        double sum = 0.0;
        for (unsigned int i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
            sum += __ldcg(from + i);  // from L2: another multiprocessor wrote it
        }
        total[k] = block_reduce<Sum>(sum, 0.0);
    }
    if (threadIdx.x == 0) {
        publish(cell, total[0], total[1], sequence);
    }
}
