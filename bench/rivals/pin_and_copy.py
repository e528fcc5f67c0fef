"""What PyTorch makes of ordinary memory: a tensor to the GPU as it is, by way of pin_memory(), back.

    python3 bench/rivals/pin_and_copy.py > pin-and-copy.json

Prints JSON: GB/s for each size, cold (the first time, when the cache of page-locked memory is
empty) and warm (the median of the others). Needs a GPU. Run it beside `pinfold bench stage` on the
same machine.
"""

import json
import statistics
import time

import torch

SIZES = [1 << 20, 16 << 20, 256 << 20, 1 << 30]
REPEATS = 7


def gb_per_s(nbytes, work):
    rates = []
    for _ in range(REPEATS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        work()
        torch.cuda.synchronize()
        rates.append(nbytes / (time.perf_counter_ns() - start))
    return {"cold": rates[0], "warm": statistics.median(rates[1:])}


def measure(nbytes):
    source = torch.arange(nbytes // 4, dtype=torch.int32)
    there = torch.empty_like(source, device="cuda")
    result = {
        "pageable_to_device": gb_per_s(nbytes, lambda: there.copy_(source)),
        "pin_and_copy_to_device": gb_per_s(
            nbytes, lambda: there.copy_(source.pin_memory(), non_blocking=True)
        ),
        "pageable_to_host": gb_per_s(nbytes, lambda: source.copy_(there)),
    }
    assert torch.equal(there.cpu(), source)
    return result


def main():
    torch.cuda.init()
    sizes = {str(nbytes): measure(nbytes) for nbytes in SIZES}
    report = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "threads": torch.get_num_threads(),
        "gb_per_s_by_bytes": sizes,
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
