# SPDX-License-Identifier: Apache-2.0
"""What it costs that results come in new memory, as of `hvd.allreduce(tensor)` and `hvd.allgather(tensor)` in PyTorch.

    horovodrun -np 2 python benchmarks/fresh_results.py        # on a quiet machine

Prints, for results of 4 to 128 MB, the median milliseconds on the slowest rank of allreduce and allgather into new memory, and of the
same by torch.distributed on Gloo, which gets a new tensor for the result; then the time of the same allreduce in place, which is the
limit: the difference is what the kernel takes to give the memory. The ways take turns.
"""
from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.distributed as dist

import horovod.torch as hvd
import machine

MEGABYTES = (4, 8, 16, 32, 64, 128)


def gathered_by_gloo(part, group):
    result = torch.empty(hvd.size() * len(part))
    dist.all_gather_into_tensor(result, part, group=group)
    return result


def reduced_by_gloo(whole, group):
    result = torch.empty_like(whole).copy_(whole)
    dist.all_reduce(result, group=group)
    return result


def ways(megabytes, gloo):
    """By name: what is timed; each returns its result."""
    whole = torch.ones(megabytes << 18)
    part = torch.ones(len(whole) // hvd.size())
    return {
        "in place": lambda: hvd.allreduce_(whole, op=hvd.Average, name="in_place"),
        "allreduce": lambda: hvd.allreduce(whole, op=hvd.Average, name="new"),
        "of Gloo": lambda: reduced_by_gloo(whole, gloo),
        "allgather": lambda: hvd.allgather(part, name="gathered"),
        "by Gloo": lambda: gathered_by_gloo(part, gloo),
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeats", type=int, default=30, help="turns; default: 30")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    hvd.init()
    dist.init_process_group("hvd")
    gloo = dist.new_group(backend="gloo")
    if hvd.rank() == 0:
        facts = machine.facts()
        print(machine.line(facts))
        print(f"huge pages: {facts['huge_pages']}; ms; beside allreduce and allgather: times as fast as Gloo")
    for megabytes in MEGABYTES:
        operations = ways(megabytes, gloo)
        taken = {name: [] for name in operations}
        for name, operation in list(operations.items()) * (1 + options.repeats):
            hvd.barrier()
            began = time.perf_counter_ns()
            result = operation()
            taken[name].append((time.perf_counter_ns() - began) / 1e6)
            assert float(result[-1]) in (1.0, hvd.size()), result[-1]
            del result
        medians = hvd.allgather_object({name: statistics.median(times[1:]) for name, times in taken.items()})
        ms = {name: max(of_rank[name] for of_rank in medians) for name in taken}
        if hvd.rank() == 0:
            print(
                f"{megabytes:4} MB: in place {ms['in place']:7.2f}   "
                f"allreduce {ms['allreduce']:7.2f} ({ms['of Gloo'] / ms['allreduce']:.2f})   "
                f"allgather {ms['allgather']:7.2f} ({ms['by Gloo'] / ms['allgather']:.2f})",
                flush=True,
            )
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
