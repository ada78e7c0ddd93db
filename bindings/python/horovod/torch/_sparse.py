# SPDX-License-Identifier: Apache-2.0
"""Sums of sparse COO tensors: the entries of all ranks one after another."""

import functools

import torch

from horovod.common import basics
from horovod.common.exceptions import mismatch
from horovod.common.process_sets import global_process_set
from horovod.torch import _start
from horovod.torch.autograd import run


class Entries:
    """What one rank gives to a sum, as ``tensors`` to be gathered: indices, those of an entry in a row; values; its shape.

    Equal indices are added before they travel. ``name``: of the sum, for errors.
    """

    __slots__ = ("name", "shape", "tensors")

    def __init__(self, tensor, name):
        entries = tensor.detach().coalesce()
        self.name, self.shape = name, tensor.shape
        sparse_shape = _row(tensor.shape[: tensor.sparse_dim()], tensor.device)
        self.tensors = entries.indices().t().contiguous(), entries.values(), sparse_shape

    def total(self, gathered, divisor, ranks):
        """The sum, divided, from what ``ranks`` gave. An index that two of them gave is in it twice.

        HorovodMismatchError on every rank if their shapes differ. (The engine compares the values' rows, not the rest.)
        """
        indices, values, shapes = gathered
        shapes = shapes.tolist()
        if shapes.count(shapes[0]) != len(shapes):
            name = "" if self.name is None else f' "{self.name}"'
            # As in the engine's messages at most 16 ranks, but one that differs is among them: a line must stay readable.
            odd = next(place for place, shape in enumerate(shapes) if shape != shapes[0])
            shown = [*range(min(16, len(shapes))), *([odd] if odd >= 16 else [])]
            told = ", ".join(f"rank {ranks[place]} {shapes[place]}" for place in shown)
            raise mismatch(f"allreduce of sparse tensors{name}: sparse dimensions differ: {told}")
        if divisor != 1:
            values = values.div_(divisor) if values.is_floating_point() else values / divisor
        return torch.sparse_coo_tensor(indices.t(), values, self.shape, check_invariants=False)


@functools.lru_cache
def _row(numbers, device):
    return torch.tensor([numbers], dtype=torch.int64, device=device)


def start_sum(tensor, name, op, process_set):
    """Starts a sum or an average; returns a function that waits and gives it, not coalesced. See sparse_allreduce_async."""
    entries = Entries(tensor, name)
    started = _start.grouped_allgather(entries.tensors, name, process_set)
    divisor = process_set.size() if op == basics.Average else 1
    return lambda: entries.total(run(started), divisor, process_set.ranks)


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Starts the sum or the average of sparse COO tensors; returns a function that waits and gives the result.

    The ranks may have different numbers of entries, also none; shape and number of sparse dimensions are the same on
    every rank. The result is a coalesced COO tensor. ``op`` is Average or Sum, anything else is a ValueError; a tensor
    of another layout is a TypeError. Entries travel by one grouped allgather.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.sparse_coo:
        found = f"layout {tensor.layout}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise TypeError(f"sparse_allreduce: {found} is not a sparse COO tensor")
    if op not in (basics.Average, basics.Sum):
        raise ValueError(f"sparse_allreduce: op {op} is not Average or Sum")
    finish = start_sum(tensor, name, op, process_set)
    return lambda: finish().coalesce()


def no_entries(like, sparse_dim):
    """A COO tensor without entries, shaped like a dense one whose first ``sparse_dim`` dimensions are sparse."""
    indices = torch.empty((sparse_dim, 0), dtype=torch.int64, device=like.device)
    values = torch.empty((0, *like.shape[sparse_dim:]), dtype=like.dtype, device=like.device)
    return torch.sparse_coo_tensor(indices, values, like.shape, check_invariants=False)
