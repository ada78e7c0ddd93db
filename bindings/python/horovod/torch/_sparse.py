# SPDX-License-Identifier: Apache-2.0
"""Sums of sparse tensors: the entries of all ranks one after another, entries with the same index added."""

import torch

from horovod.common import basics
from horovod.common.process_sets import global_process_set
from horovod.torch import _start
from horovod.torch.autograd import run


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Starts the sum or the average of sparse COO tensors; returns a function that waits and gives the result.

    The ranks may have different numbers of entries, also none; shape and number of sparse dimensions are the same on
    every rank. The result is a coalesced COO tensor. ``op`` is Average or Sum, anything else is a ValueError; a tensor
    of another layout is a TypeError. Entries travel by two allgathers, ``<name>.indices`` and ``<name>.values``.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.sparse_coo:
        found = f"layout {tensor.layout}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise TypeError(f"sparse_allreduce: {found} is not a sparse COO tensor")
    if op not in (basics.Average, basics.Sum):
        raise ValueError(f"sparse_allreduce: op {op} is not Average or Sum")
    # Equal indices are added before they travel.
    entries = tensor.detach().coalesce()
    indices = _start.allgather(entries.indices().t().contiguous(), _part(name, "indices"), process_set)
    values = _start.allgather(entries.values(), _part(name, "values"), process_set)
    divisor = process_set.size() if op == basics.Average else 1

    def finish():
        all_values = run(values)
        all_indices = run(indices)
        if divisor != 1:
            all_values = all_values / divisor
        # Ranks with other shapes would have entries outside of this one.
        whole = torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.shape, check_invariants=True)
        return whole.coalesce()

    return finish


def no_entries(like, sparse_dim):
    """A COO tensor without entries, shaped like a dense one whose first ``sparse_dim`` dimensions are sparse."""
    indices = torch.empty((sparse_dim, 0), dtype=torch.int64, device=like.device)
    values = torch.empty((0, *like.shape[sparse_dim:]), dtype=like.dtype, device=like.device)
    return torch.sparse_coo_tensor(indices, values, like.shape, check_invariants=False)


def _part(name, part):
    return None if name is None else f"{name}.{part}"
