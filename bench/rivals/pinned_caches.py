"""What other pools of page-locked memory cost: a warm pair of taking and giving back, and 1 GiB cold.

    python3 bench/rivals/pinned_caches.py > pinned_caches.json

Measures what is installed of PyTorch, CuPy and RMM, the interpreter's own cost included, and prints
JSON. Needs a GPU. Run it beside `pinfold bench pool` and `bench pin` on the same machine.
"""

import json
import statistics
import time

SIZES = [4 << 10, 64 << 10, 1 << 20, 64 << 20]
PAIRS = 2000
REPEATS = 15


def warm_ns(take):
    """Median time of a pair: the block is given back when the name is bound anew."""
    take()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter_ns()
        for _ in range(PAIRS):
            block = take()
            del block
        times.append((time.perf_counter_ns() - start) / PAIRS)
    return statistics.median(times)


def measure(take):
    """Cold first, before the cache holds anything."""
    start = time.perf_counter_ns()
    block = take(1 << 30)
    cold_ms = (time.perf_counter_ns() - start) / 1e6
    del block
    warm = {size: warm_ns(lambda: take(size)) for size in SIZES}
    return {"cold_1_gib_ms": cold_ms, "warm_ns": warm}


def torch_cache():
    import torch

    torch.cuda.init()
    torch.cuda.current_stream()

    def take(size):
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    return torch.__version__, measure(take)


def cupy_pool():
    import cupy

    cupy.cuda.Device(0).use()
    cupy.zeros(1)
    pool = cupy.cuda.PinnedMemoryPool()
    return cupy.__version__, measure(pool.malloc)


def rmm_pool():
    import rmm

    pool = rmm.mr.PinnedPoolMemoryResource(initial_pool_size=2 << 30)

    def take(size):
        block = pool.allocate(size)
        pool.deallocate(block, size)
        return None

    return rmm.__version__, measure(take)


def main():
    report = {}
    for name, run in [("PyTorch", torch_cache), ("CuPy", cupy_pool), ("RMM", rmm_pool)]:
        try:
            version, figures = run()
            report[name] = {"version": version, **figures}
        except Exception as problem:  # whatever keeps a rival from running is worth reporting
            report[name] = {"not measured": f"{type(problem).__name__}: {problem}"}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
