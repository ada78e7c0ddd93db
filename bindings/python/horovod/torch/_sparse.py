# SPDX-License-Identifier: Apache-2.0
"""Sums of sparse COO tensors: the entries of all ranks one after another."""

import functools

import torch

from horovod._handles import Handle
from horovod.common import basics
from horovod.common.exceptions import mismatch
from horovod.common.process_sets import checked, global_process_set
from horovod.torch import _start


# Adding equal indices is a sort. Where it leaves more than this part of the entries, so many steps go without.
_WORTH, _STEPS = 0.9, 31


class Merging:
    """Whether the equal indices of a gradient, one in every step, are added before they travel: by how many it had."""

    __slots__ = ("pause",)

    def __init__(self):
        self.pause = 0

    def __call__(self, tensor):
        """The tensor, coalesced if that is worth its time."""
        if self.pause:
            self.pause -= 1
            return tensor
        merged = tensor.coalesce()
        if merged._nnz() > _WORTH * tensor._nnz():
            self.pause = _STEPS
        return merged


class Entries:
    """What one rank gives to sums, as ``tensors`` to be gathered: of each its indices, those of an entry in a row, and its
    values, divided; then the sparse shapes of all, in one row. ``name``: for errors. ``mergings``: one for each tensor;
    without them equal indices are added.
    """

    __slots__ = ("name", "shapes", "sparse_dims", "tensors")

    def __init__(self, tensors, name, divisor, mergings=None):
        self.name, self.tensors = name, []
        self.shapes = [tensor.shape for tensor in tensors]
        self.sparse_dims = [tensor.sparse_dim() for tensor in tensors]
        for tensor, merge in zip(tensors, mergings or [torch.Tensor.coalesce] * len(tensors)):
            entries = merge(tensor.detach())
            values = entries._values()
            # Here, and not in the result, which is as many times as long as there are ranks.
            self.tensors += entries._indices().t().contiguous(), values if divisor == 1 else values / divisor
        sparse_shapes = tuple(shape[:dims] for shape, dims in zip(self.shapes, self.sparse_dims))
        self.tensors.append(_row(sparse_shapes, tensors[0].device))

    def totals(self, gathered, ranks):
        """The sums from what ``ranks`` gave. An index that two of them gave is in a sum twice.

        HorovodMismatchError on every rank if their shapes differ. (The engine compares the values' rows, not the rest.)
        """
        *parts, shapes = gathered
        shapes = shapes.tolist()
        if shapes.count(shapes[0]) != len(shapes):
            raise self._differ(shapes, ranks)
        return [
            torch.sparse_coo_tensor(indices.t(), values, shape, check_invariants=False)
            for indices, values, shape in zip(parts[::2], parts[1::2], self.shapes)
        ]

    def _differ(self, rows, ranks):
        """The error that says whose shapes are others, for the first tensor of which they are."""
        begin = 0
        for number, dims in enumerate(self.sparse_dims, 1):
            shapes = [row[begin : begin + dims] for row in rows]
            begin += dims
            if shapes.count(shapes[0]) != len(shapes):
                break
        name = "" if self.name is None else f' "{self.name}"'
        place = f", number {number} of {len(self.shapes)}" if len(self.shapes) > 1 else ""
        # As in the engine's messages at most 16 ranks, but one that differs is among them: a line must stay readable.
        odd = next(place for place, shape in enumerate(shapes) if shape != shapes[0])
        shown = [*range(min(16, len(shapes))), *([odd] if odd >= 16 else [])]
        told = ", ".join(f"rank {ranks[place]} {shapes[place]}" for place in shown)
        return mismatch(f"allreduce of sparse tensors{name}{place}: sparse dimensions differ: {told}")


@functools.lru_cache
def _row(shapes, device):
    return torch.tensor([[size for shape in shapes for size in shape]], dtype=torch.int64, device=device)


def start_sums(tensors, name, op, process_set, mergings=None):
    """Starts sums or averages as one operation; returns a Handle of them in a list, not coalesced. See sparse_allreduce_async.

    ``mergings``: see Entries.
    """
    entries = Entries(tensors, name, checked(process_set, "allreduce").size() if op == basics.Average else 1, mergings)
    operation, gathered = _start.grouped_allgather(entries.tensors, name, process_set)
    return Handle(operation, lambda ended: entries.totals(gathered(ended), process_set.ranks))


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Starts the sum or the average of sparse COO tensors, ``tensor`` on each rank; returns a function that waits and gives the result.

    The ranks may have different numbers of entries, also none; shape and number of sparse dimensions are the same on
    every rank. The result is a coalesced COO tensor. ``op`` is Average or Sum, anything else is a ValueError; a tensor
    of another layout is a TypeError. ``name`` and ``process_set`` are as those of ``allreduce``. Entries travel by one grouped allgather.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.sparse_coo:
        found = f"layout {tensor.layout}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise TypeError(f"sparse_allreduce: {found} is not a sparse COO tensor")
    if op not in (basics.Average, basics.Sum):
        raise ValueError(f"sparse_allreduce: op {op} is not Average or Sum")
    sums = start_sums([tensor], name, op, process_set)
    return lambda: sums.wait()[0].coalesce()


def no_entries(shape, sparse_dim, dtype, device):
    """A COO tensor without entries, whose first ``sparse_dim`` dimensions are sparse."""
    indices = torch.empty((sparse_dim, 0), dtype=torch.int64, device=device)
    values = torch.empty((0, *shape[sparse_dim:]), dtype=dtype, device=device)
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)
