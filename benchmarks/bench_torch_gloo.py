# SPDX-License-Identifier: Apache-2.0
"""The cases over torch.distributed's Gloo backend, one thread per rank, over the loopback interface."""
from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

import board as bench
from rank_arguments import open_board, parser, start_ranks

PROGRAM = "torch_gloo"
BUCKET_ELEMENTS = (25 << 20) // 4  # DistributedDataParallel's default bucket of 25 MB


def bucket_sizes(elements: list[int]) -> list[int]:
    """The tensors of a set in buckets, last one first as a backward pass makes them."""
    buckets, current = [], 0
    for count in reversed(elements):
        current += count
        if current >= BUCKET_ELEMENTS:
            buckets.append(current)
            current = 0
    return buckets + [current] if current else buckets


def run_sync(board: bench.Board, options) -> None:
    for size in bench.SYNC_BYTES:
        if size > options.max_bytes:
            return
        tensor = torch.full((size // 4,), float(board.rank + 1))
        dist.all_reduce(tensor)
        assert bool((tensor == board.size * (board.size + 1) / 2).all()), f"allreduce of {size} bytes gave a wrong sum"
        tensor.zero_()
        operation = lambda: dist.all_reduce(tensor)  # noqa: E731
        budget = options.budget_ms * 1_000_000
        if size >= bench.TOUCH_BYTES:
            timing = board.measure_touch(operation, lambda: tensor.fill_(1.0), budget)
        else:
            timing = board.measure_loop(operation, budget)
        board.report(PROGRAM, f"allreduce/{size}", timing)


def run_sets(board: bench.Board, options) -> None:
    """Whole buckets, which hold the gradients already: the packing that DistributedDataParallel avoids is not counted."""
    for name, elements in (("100x4k", [1024] * 100), ("resnet50", bench.resnet50_elements())):
        buckets = [torch.zeros(count) for count in bucket_sizes(elements)]

        def reduce_all() -> None:
            for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
                work.wait()

        def rewrite() -> None:
            for bucket in buckets:
                bucket.fill_(1.0)

        board.report(PROGRAM, f"set/{name}", board.measure_touch(reduce_all, rewrite, options.budget_ms * 1_000_000))


def run_collectives(board: bench.Board, options) -> None:
    budget = options.budget_ms * 1_000_000
    for size in bench.COLLECTIVE_BYTES:
        whole, other = torch.zeros(size // 4), torch.zeros(size // 4)
        part = torch.zeros(size // 4 // board.size)
        operations = {
            "allgather": lambda: dist.all_gather_into_tensor(whole, part),
            "broadcast": lambda: dist.broadcast(whole, 0),
            "alltoall": lambda: dist.all_to_all_single(other, whole),
            "reducescatter": lambda: dist.reduce_scatter_tensor(part, whole),
        }

        def rewrite() -> None:
            whole.fill_(1.0)
            part.fill_(1.0)

        for name, operation in operations.items():
            if size >= bench.TOUCH_BYTES:
                timing = board.measure_touch(operation, rewrite, budget)
            else:
                timing = board.measure_loop(operation, budget)
            board.report(PROGRAM, f"{name}/{size}", timing)
    board.report(PROGRAM, "barrier", board.measure_loop(dist.barrier, budget))


def main() -> int:
    options = parser(__doc__).parse_args()
    if options.rank is None:
        return start_ranks(options.np, {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"})
    torch.set_num_threads(1)
    store = os.path.join(options.directory, "store")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=options.rank, world_size=options.np)
    board = open_board(options)
    if not options.no_pin:
        board.pin()
    cases = options.cases.split(",")
    if "sync" in cases:
        run_sync(board, options)
    if "sets" in cases:
        run_sets(board, options)
    if "collectives" in cases:
        run_collectives(board, options)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
