// gather: rows and pieces that lie scattered, copied in one launch, from or to mapped host memory.
//
//   gather_rows    to[i] = table[index[i]]; where index[i] is no row of the table, zeros
//   scatter_rows   table[index[i]] = from[i]; where index[i] is no row of the table, nothing
//   copy_pieces    to[item.to ..] = from[item.from ..], item.bytes of them, for every item
//   check_indices  cell.value = { number of index[i] that are no row, the first such i or n }
//   check_unique   cell.value = { number of index[i] that are a row which another one has taken,
//                                 number of index[i] that are no row }
//   window_count   how many rows are asked for in each address window; from that, where each
//                  window's part of the order begins
//   window_place   the order: all i of the first window, then all of the second, and so on
//
// Sizes are in bytes, and nothing needs any alignment: each launch moves the widest units that
// address and size of everything allow. Launch shapes and Rust twins: crates/kernels/src/gather.rs.

#include "reduce.cuh"

using Word = unsigned long long;

// Loads that a thread has in flight: one from host memory takes microseconds.
constexpr int UNROLL = 4;

// The number of no row and no place.
constexpr Word NONE = ~0ull;

// Most windows that an order can have; their counters fit into shared memory.
constexpr unsigned int WINDOWS_MAX = 4096;

// Row numbers of four or eight bytes each.
struct IndexList {
    const void* numbers;
    unsigned int number_bytes;

    __device__ __forceinline__ Word operator[](Word i) const {
        return number_bytes == 8 ? static_cast<const Word*>(numbers)[i]
                                 : static_cast<const unsigned int*>(numbers)[i];
    }
};

// Rows of a table by their numbers, and packed one behind the other.
struct RowList {
    Word table_rows;
    Word row_bytes;
    IndexList index;
    const unsigned int* order;  // or null: element k handled is element order[k] of the list
    Word n;
};

// How many there were, and the place of the first.
struct Found {
    Word count;
    Word first;

    __device__ __forceinline__ void note(Word place) {
        count += 1;
        first = Min::join(first, place);
    }
};

// Moves all rows as units of one type. Unit u of the walk is part u % (units of a row) of element
// u / (units of a row): neighbouring threads move neighbouring parts, and the grid moves through
// the list as one front, so that what is read at one time lies close together in the order.
template <bool GATHER, class Unit>
__device__ __forceinline__ void move_rows(
    const void* __restrict__ from_start, void* __restrict__ to_start, const RowList& rows,
    Found& outside
) {
    const Unit* __restrict__ from = static_cast<const Unit*>(from_start);
    Unit* __restrict__ to = static_cast<Unit*>(to_start);
    const Word units = rows.row_bytes / sizeof(Unit);
    const Word step_elements = grid_threads() / units;
    const Word step_columns = grid_threads() % units;
    Word next_element = grid_thread() / units;
    Word next_column = grid_thread() % units;
    while (next_element < rows.n) {
        Word column[UNROLL];
        Word element[UNROLL];
        Word row[UNROLL];
        Unit value[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            column[u] = next_column;
            element[u] = next_element < rows.n ? next_element : NONE;
            next_column += step_columns;
            next_element += step_elements + (next_column >= units);
            next_column -= next_column >= units ? units : 0;
            if (rows.order != nullptr && element[u] != NONE) {
                element[u] = rows.order[element[u]];
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            row[u] = element[u] < rows.n ? rows.index[element[u]] : NONE;
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            value[u] = Unit{};
            if (row[u] < rows.table_rows) {
                value[u] = from[(GATHER ? row[u] : element[u]) * units + column[u]];
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const bool inside = row[u] < rows.table_rows;
            if (!inside && element[u] != NONE && column[u] == 0) {
                outside.note(min(element[u], rows.n));
            }
            if (GATHER ? element[u] < rows.n : inside) {
                to[(GATHER ? element[u] : row[u]) * units + column[u]] = value[u];
            }
        }
    }
}

// Moves all rows in the widest units that fit.
template <bool GATHER>
__device__ __forceinline__ Found move_any_rows(const void* from, void* to, const RowList& rows) {
    Found outside = {0, rows.n};
    const Word bits = (Word)from | (Word)to | rows.row_bytes;
    if (bits % 16 == 0) {
        move_rows<GATHER, uint4>(from, to, rows, outside);
    } else if (bits % 8 == 0) {
        move_rows<GATHER, Word>(from, to, rows, outside);
    } else if (bits % 4 == 0) {
        move_rows<GATHER, unsigned int>(from, to, rows, outside);
    } else if (bits % 2 == 0) {
        move_rows<GATHER, unsigned short>(from, to, rows, outside);
    } else {
        move_rows<GATHER, unsigned char>(from, to, rows, outside);
    }
    return outside;
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) gather_rows(
    const void* table, Word table_rows, Word row_bytes, const void* index,
    unsigned int number_bytes, const unsigned int* order, Word n, void* to, Word* partial,
    unsigned int* ticket, Cell* cell, Word sequence
) {
    const RowList rows = {table_rows, row_bytes, {index, number_bytes}, order, n};
    const Found outside = move_any_rows<true>(table, to, rows);
    finish_found(outside.count, outside.first, n, partial, ticket, cell, sequence);
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) scatter_rows(
    void* table, Word table_rows, Word row_bytes, const void* index, unsigned int number_bytes,
    const unsigned int* order, Word n, const void* from, Word* partial, unsigned int* ticket,
    Cell* cell, Word sequence
) {
    const RowList rows = {table_rows, row_bytes, {index, number_bytes}, order, n};
    const Found outside = move_any_rows<false>(from, table, rows);
    finish_found(outside.count, outside.first, n, partial, ticket, cell, sequence);
}

// A piece, or a part of a long one: where it begins in the source and in the target, and its size.
struct Item {
    Word from;
    Word to;
    Word bytes;
};

// Copies an item by one warp, in units of one type to which source and target are aligned alike.
// The bytes before the first whole unit and behind the last one go singly. The warp starts at a
// whole line of the source, so that no line is read by two requests.
template <class Unit>
__device__ __forceinline__ void copy_units(
    const unsigned char* __restrict__ from, unsigned char* __restrict__ to, Word bytes
) {
    constexpr Word LINE_UNITS = 128 / sizeof(Unit);
    const unsigned int lane = threadIdx.x % WARP;
    const Word head = min(bytes, (0 - (Word)from) % sizeof(Unit));
    const Word units = (bytes - head) / sizeof(Unit);
    const Word tail = head + units * sizeof(Unit);
    if (lane < head) {
        to[lane] = from[lane];
    }
    if (tail + lane < bytes) {
        to[tail + lane] = from[tail + lane];
    }
    const Unit* __restrict__ source = reinterpret_cast<const Unit*>(from + head);
    Unit* __restrict__ target = reinterpret_cast<Unit*>(to + head);
    const Word skew = (Word)source / sizeof(Unit) % LINE_UNITS;
    for (Word start = lane; start < units + skew; start += UNROLL * WARP) {
        Unit value[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const Word at = start + u * WARP - skew;  // wraps below 0, and is too large then
            if (at < units) {
                value[u] = source[at];
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const Word at = start + u * WARP - skew;
            if (at < units) {
                target[at] = value[u];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) copy_pieces(
    const unsigned char* __restrict__ from, unsigned char* __restrict__ to,
    const Item* __restrict__ items, Word n
) {
    for (Word k = grid_thread() / WARP; k < n; k += grid_threads() / WARP) {
        const Item item = items[k];
        const unsigned char* source = from + item.from;
        unsigned char* target = to + item.to;
        const Word bits = (Word)source ^ (Word)target;
        if (bits % 16 == 0) {
            copy_units<uint4>(source, target, item.bytes);
        } else if (bits % 8 == 0) {
            copy_units<Word>(source, target, item.bytes);
        } else if (bits % 4 == 0) {
            copy_units<unsigned int>(source, target, item.bytes);
        } else if (bits % 2 == 0) {
            copy_units<unsigned short>(source, target, item.bytes);
        } else {
            copy_units<unsigned char>(source, target, item.bytes);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS_MAX) check_indices(
    const void* index, unsigned int number_bytes, Word n, Word table_rows, Word* partial,
    unsigned int* ticket, Cell* cell, Word sequence
) {
    const IndexList list = {index, number_bytes};
    Found outside = {0, n};
    for (Word i = grid_thread(); i < n; i += grid_threads()) {
        if (list[i] >= table_rows) {
            outside.note(i);
        }
    }
    finish_found(outside.count, outside.first, n, partial, ticket, cell, sequence);
}

// `taken` has a bit for every row of the table, all of them 0.
extern "C" __global__ void __launch_bounds__(THREADS_MAX) check_unique(
    const void* index, unsigned int number_bytes, Word n, Word table_rows, unsigned int* taken,
    double* partial, unsigned int* ticket, Cell* cell, Word sequence
) {
    const IndexList list = {index, number_bytes};
    double repeated = 0.0;  // counts are exact in double up to 2^53
    double outside = 0.0;
    for (Word i = grid_thread(); i < n; i += grid_threads()) {
        const Word row = list[i];
        if (row >= table_rows) {
            outside += 1.0;
            continue;
        }
        const unsigned int bit = 1u << (row % 32);
        if (atomicOr(taken + row / 32, bit) & bit) {
            repeated += 1.0;
        }
    }
    const double sums[2] = {repeated, outside};
    finish(sums, partial, ticket, cell, sequence);
}

// Equal parts of a table's addresses, 2^log2 bytes each.
struct Windows {
    Word table_rows;
    Word row_bytes;
    unsigned int log2;
    unsigned int count;

    // The window in which a row begins. What is no row comes last.
    __device__ __forceinline__ unsigned int of(Word row) const {
        const Word last = count - 1;
        return (unsigned int)(row < table_rows ? min(row * row_bytes >> log2, last) : last);
    }
};

// Each count becomes the sum of all before it. The whole block takes part.
__device__ __forceinline__ void sum_before(unsigned int* counts, unsigned int n) {
    __shared__ unsigned int sums[THREADS_MAX];
    const unsigned int thread = threadIdx.x;
    const unsigned int share = (n + blockDim.x - 1) / blockDim.x;
    const unsigned int start = min(thread * share, n);
    const unsigned int end = min(start + share, n);
    unsigned int own = 0;
    for (unsigned int i = start; i < end; ++i) {
        own += counts[i];
    }
    sums[thread] = own;
    __syncthreads();
    for (unsigned int offset = 1; offset < blockDim.x; offset *= 2) {
        const unsigned int other = thread < offset ? 0 : sums[thread - offset];
        __syncthreads();
        sums[thread] += other;
        __syncthreads();
    }
    unsigned int before = sums[thread] - own;
    for (unsigned int i = start; i < end; ++i) {
        const unsigned int count = counts[i];
        counts[i] = before;
        before += count;
    }
    __syncthreads();
}

// `starts` has an element for every window, 0 before the launch. Afterwards it says how many rows
// lie in the windows before.
extern "C" __global__ void __launch_bounds__(THREADS_MAX) window_count(
    const void* index, unsigned int number_bytes, Word n, Word table_rows, Word row_bytes,
    unsigned int window_log2, unsigned int window_count, unsigned int* starts, unsigned int* ticket
) {
    __shared__ unsigned int counts[WINDOWS_MAX];
    const IndexList list = {index, number_bytes};
    const Windows windows = {table_rows, row_bytes, window_log2, window_count};
    for (unsigned int w = threadIdx.x; w < windows.count; w += blockDim.x) {
        counts[w] = 0;
    }
    __syncthreads();
    for (Word i = grid_thread(); i < n; i += grid_threads()) {
        atomicAdd(counts + windows.of(list[i]), 1u);
    }
    __syncthreads();
    for (unsigned int w = threadIdx.x; w < windows.count; w += blockDim.x) {
        if (counts[w] != 0) {
            atomicAdd(starts + w, counts[w]);
        }
    }
    __syncthreads();  // thread 0's fence in `last_block` then covers the whole block's additions
    if (!last_block(ticket)) {
        return;
    }
    for (unsigned int w = threadIdx.x; w < windows.count; w += blockDim.x) {
        counts[w] = __ldcg(starts + w);
    }
    __syncthreads();
    sum_before(counts, windows.count);
    for (unsigned int w = threadIdx.x; w < windows.count; w += blockDim.x) {
        starts[w] = counts[w];
    }
}

// Takes what `window_count` left in `starts`, and leaves there where each window's part ends. Which
// of two elements of one window comes first depends on timing.
extern "C" __global__ void __launch_bounds__(THREADS_MAX) window_place(
    const void* index, unsigned int number_bytes, Word n, Word table_rows, Word row_bytes,
    unsigned int window_log2, unsigned int window_count, unsigned int* starts, unsigned int* order
) {
    constexpr int SHARE = 8;  // elements of a thread in one tile
    __shared__ unsigned int counts[WINDOWS_MAX];
    const IndexList list = {index, number_bytes};
    const Windows windows = {table_rows, row_bytes, window_log2, window_count};
    const Word tile = (Word)SHARE * blockDim.x;
    for (Word start = blockIdx.x * tile; start < n; start += gridDim.x * tile) {
        for (unsigned int w = threadIdx.x; w < windows.count; w += blockDim.x) {
            counts[w] = 0;
        }
        __syncthreads();
        unsigned int window[SHARE];
        unsigned int rank[SHARE];  // within window and tile
#pragma unroll
        for (int u = 0; u < SHARE; ++u) {
            const Word i = start + u * blockDim.x + threadIdx.x;
            if (i < n) {
                window[u] = windows.of(list[i]);
                rank[u] = atomicAdd(counts + window[u], 1u);
            }
        }
        __syncthreads();
        for (unsigned int w = threadIdx.x; w < windows.count; w += blockDim.x) {
            if (counts[w] != 0) {
                counts[w] = atomicAdd(starts + w, counts[w]);
            }
        }
        __syncthreads();
#pragma unroll
        for (int u = 0; u < SHARE; ++u) {
            const Word i = start + u * blockDim.x + threadIdx.x;
            if (i < n) {
                order[counts[window[u]] + rank[u]] = (unsigned int)i;
            }
        }
        __syncthreads();
    }
}
