# SPDX-License-Identifier: Apache-2.0
"""The project's Python API: from NumPy (`import horovod`) and from PyTorch (`import horovod.torch`)."""
from __future__ import annotations

import sys

import numpy

import board as bench
from rank_arguments import open_board, parser, start_ranks


class NumpyApi:
    """float32 arrays through `horovod`."""

    program = "hvd_numpy"

    def __init__(self) -> None:
        import horovod

        self.hvd = horovod

    def full(self, count: int, value: float):
        return numpy.full(count, value, dtype=numpy.float32)

    def fill(self, array, value: float) -> None:
        array.fill(value)


class TorchApi:
    """float32 tensors through `horovod.torch`."""

    program = "hvd_torch"

    def __init__(self) -> None:
        import torch
        import horovod.torch

        torch.set_num_threads(1)
        self.torch = torch
        self.hvd = horovod.torch

    def full(self, count: int, value: float):
        return self.torch.full((count,), value)

    def fill(self, tensor, value: float) -> None:
        tensor.fill_(value)


def run_sync(api, board: bench.Board, options) -> None:
    hvd = api.hvd
    for size in bench.SYNC_BYTES:
        if size > options.max_bytes:
            return
        tensor = api.full(size // 4, board.rank + 1.0)
        name = f"allreduce/{size}"
        operation = lambda: hvd.allreduce_(tensor, op=hvd.Sum, name=name)  # noqa: E731
        operation()
        assert bool((tensor == board.size * (board.size + 1) / 2).all()), f"{name} gave a wrong sum"
        api.fill(tensor, 0.0)
        budget = options.budget_ms * 1_000_000
        if size >= bench.TOUCH_BYTES:
            timing = board.measure_touch(operation, lambda: api.fill(tensor, 1.0), budget)
        else:
            timing = board.measure_loop(operation, budget)
        board.report(api.program, name, timing)


def run_sets(api, board: bench.Board, options) -> None:
    """Every tensor submitted on its own, then all waited for: what the hooks of DistributedOptimizer do."""
    hvd = api.hvd
    for set_name, elements in (("100x4k", [1024] * 100), ("resnet50", bench.resnet50_elements())):
        tensors = [api.full(count, board.rank + 1.0) for count in elements]
        names = [f"{set_name}/grad/{i}" for i in range(len(elements))]

        def reduce_all() -> None:
            handles = [hvd.allreduce_async_(t, op=hvd.Sum, name=n) for t, n in zip(tensors, names)]
            for handle in handles:
                hvd.synchronize(handle)

        def rewrite() -> None:
            for tensor in tensors:
                api.fill(tensor, 1.0)

        reduce_all()
        total = board.size * (board.size + 1) / 2
        assert all(bool((tensor == total).all()) for tensor in tensors), f"set {set_name} gave a wrong sum"
        board.report(api.program, f"set/{set_name}", board.measure_touch(reduce_all, rewrite, options.budget_ms * 1_000_000))


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--api", choices=("numpy", "torch"), default="numpy")
    options = arguments.parse_args()
    if options.rank is None:
        place = {"HOROVOD_RANK": "{rank}", "HOROVOD_SIZE": "{size}", "HOROVOD_RENDEZVOUS": "file://{directory}"}
        return start_ranks(options.np, {**place, "OMP_NUM_THREADS": "1"})
    api = NumpyApi() if options.api == "numpy" else TorchApi()
    api.hvd.init()
    board = open_board(options)
    if not options.no_pin:
        board.pin()
    cases = options.cases.split(",")
    if "sync" in cases:
        run_sync(api, board, options)
    if "sets" in cases:
        run_sets(api, board, options)
    api.hvd.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
