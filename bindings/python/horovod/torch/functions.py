# SPDX-License-Identifier: Apache-2.0
"""Everybody starts alike: broadcasts of parameters, optimizer state and objects."""

import torch

from horovod._objects import allgather_object, broadcast_object  # noqa: F401 - part of the module's interface
from horovod.common import basics
from horovod.torch import mpi_ops


def broadcast_parameters(params, root_rank):
    """Gives every rank the contents that the parameters have on ``root_rank``.

    ``params``: a dict such as ``model.state_dict()``, or ``(name, tensor)`` pairs such as ``model.named_parameters()``,
    or a list of tensors. Entries that are None are left out.
    """
    if isinstance(params, dict):
        pairs = sorted(params.items())
    else:
        pairs = [item if isinstance(item, tuple) else (None, item) for item in params]
    for name, tensor in pairs:
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise ValueError(f"broadcast_parameters: {name}: {type(tensor).__name__} is not a tensor")
    handles = [mpi_ops.broadcast_async_(p, root_rank, name) for name, p in pairs if p is not None]
    for handle in handles:
        mpi_ops.synchronize(handle)


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    """Gives every rank the options and the state that the optimizer has on ``root_rank``.

    Works for every optimizer that has a ``state_dict`` of tensors and values that can be pickled. Ranks whose optimizer
    has no state yet, or another one, get the root's. ``model`` is not needed.
    """
    is_root = basics.rank() == root_rank
    tensors, skeleton = {}, None
    if is_root:
        state = _without_tensors(optimizer.state_dict(), tensors)
        skeleton = state, [(path, tuple(tensor.shape), str(tensor.dtype)) for path, tensor in tensors.items()]
    state, places = broadcast_object(skeleton, root_rank, name="optimizer_state")
    if not is_root:
        tensors = {path: torch.empty(shape, dtype=_dtype(dtype)) for path, shape, dtype in places}
    # The root sends from its own memory, which does not change.
    handles = [
        mpi_ops.broadcast_async_(tensor, root_rank, f"optimizer_state.{index}")
        for index, tensor in enumerate(tensors.values())
    ]
    for handle in handles:
        mpi_ops.synchronize(handle)
    if not is_root:
        optimizer.load_state_dict(_with_tensors(state, tensors))


def _without_tensors(value, tensors, path=()):
    """A copy of nested dicts, lists and tuples with None for every tensor, which goes to ``tensors`` by its path."""
    if isinstance(value, torch.Tensor):
        tensors[path] = value.detach()
        return None
    return _mapped(value, lambda key, part: _without_tensors(part, tensors, (*path, key)))


def _with_tensors(value, tensors, path=()):
    if path in tensors:
        return tensors[path]
    return _mapped(value, lambda key, part: _with_tensors(part, tensors, (*path, key)))


def _mapped(value, function):
    if isinstance(value, dict):
        return {key: function(key, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(function(index, part) for index, part in enumerate(value))
    return value


def _dtype(text):
    """The dtype that prints as ``torch.float32``."""
    return getattr(torch, text.rpartition(".")[2])
