# SPDX-License-Identifier: Apache-2.0
"""GB/s of an allreduce of tensors on a GPU, through host memory and through NCCL, beside PyTorch's own copies in the same run.

    python benchmarks/gpu/staging.py                                     one rank: host memory and NCCL
    python -m horovod.runner.launch -np 2 python benchmarks/gpu/staging.py    ranks that share the GPU: host memory

A rate is the tensor's size over the median time of one call with everything it does on the device. `to host` and `to device` are
copies between the GPU and page-locked memory, `on device` is a copy there, which is what NCCL does for one rank.
Through host memory an allreduce makes the first two copies, and with several ranks a reduction on the CPU between them.
"""

import argparse
import os
import statistics
import time

import torch

import horovod.torch as hvd

MB = 1_000_000


def finish():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def gigabytes_per_second(work, size, repeats):
    for _warm_up in range(2):
        work()
    times = []
    for _repeat in range(repeats):
        finish()
        began = time.perf_counter()
        work()
        finish()
        times.append(time.perf_counter() - began)
    return size / statistics.median(times) / 1e9


def copies(device, size, repeats):
    """PyTorch's: to host, to device, on device."""
    there = torch.ones(size // 4, device=device)
    other = torch.empty_like(there)
    here = torch.empty(size // 4, pin_memory=device.type == "cuda")
    return {
        "to host": gigabytes_per_second(lambda: here.copy_(there, non_blocking=True), size, repeats),
        "to device": gigabytes_per_second(lambda: there.copy_(here, non_blocking=True), size, repeats),
        "on device": gigabytes_per_second(lambda: other.copy_(there), size, repeats),
    }


def allreduces(device, sizes, repeats, operations):
    """By size, through what HOROVOD_GPU_OPERATIONS names. Every rank calls this."""
    os.environ["HOROVOD_GPU_OPERATIONS"] = operations
    os.environ.setdefault("HOROVOD_LOG_LEVEL", "info")  # says which way they go
    hvd.init()
    rates = {}
    for size in sizes:
        tensor = torch.ones(size // 4, device=device)
        out = [None]

        def work(tensor=tensor, out=out, size=size):
            out[0] = hvd.allreduce(tensor, op=hvd.Sum, name=f"{size}")

        rates[size] = gigabytes_per_second(work, size, repeats)
        assert bool((out[0] == hvd.size()).all()), "wrong result"
    hvd.shutdown()
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 4, 16, 64, 256], help="in MB of 1,000,000 bytes")
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    sizes = [size * MB for size in options.sizes]
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    hvd.shutdown()
    ways = {"hvd, host": allreduces(device, sizes, options.repeats, "native")}
    if ranks == 1:
        ways["hvd, NCCL"] = allreduces(device, sizes, options.repeats, "nccl")
    if rank != 0:
        return
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    print(f"GB/s on {name}, {ranks} rank{'s' if ranks > 1 else ''}, PyTorch {torch.__version__}")
    for at, size in enumerate(sizes):
        row = {**copies(device, size, options.repeats), **{way: rates[size] for way, rates in ways.items()}}
        if at == 0:
            print("      MB" + "".join(f"{title:>12s}" for title in row))
        print(f"{size // MB:8d}" + "".join(f"{rate:12.2f}" for rate in row.values()), flush=True)


if __name__ == "__main__":
    main()
