# SPDX-License-Identifier: Apache-2.0
"""Everybody starts alike: broadcasts of parameters, optimizer state and objects."""

import collections

import torch

from horovod._objects import allgather_object, broadcast_object  # noqa: F401 - part of the module's interface
from horovod.common import basics
from horovod.torch import mpi_ops

_Placeholder = collections.namedtuple("_Placeholder", "index shape dtype")


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

    Ranks whose optimizer has no state yet, or another one, get the root's. ``model`` is not needed.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("broadcast_optimizer_state: LBFGS keeps state that cannot be broadcast")
    is_root = basics.rank() == root_rank
    tensors = []
    skeleton = _without_tensors(optimizer.state_dict(), tensors) if is_root else None
    skeleton = broadcast_object(skeleton, root_rank, name="optimizer_state")
    if not is_root:
        tensors = [torch.empty(p.shape, dtype=p.dtype) for p in _placeholders(skeleton)]
    # The root sends from its own memory, which does not change.
    handles = [
        mpi_ops.broadcast_async_(tensor, root_rank, f"optimizer_state.{index}") for index, tensor in enumerate(tensors)
    ]
    for handle in handles:
        mpi_ops.synchronize(handle)
    if not is_root:
        optimizer.load_state_dict(_with_tensors(skeleton, tensors))


def _without_tensors(value, tensors):
    """A copy of nested dicts, lists and tuples with a placeholder for every tensor, which goes to ``tensors``."""
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return _Placeholder(len(tensors) - 1, tuple(value.shape), value.dtype)
    return _mapped(value, lambda part: _without_tensors(part, tensors))


def _with_tensors(value, tensors):
    if isinstance(value, _Placeholder):
        return tensors[value.index]
    return _mapped(value, lambda part: _with_tensors(part, tensors))


def _placeholders(value):
    found = []

    def visit(part):
        if isinstance(part, _Placeholder):
            found.append(part)
        else:
            _mapped(part, visit)

    visit(value)
    return sorted(found, key=lambda placeholder: placeholder.index)


def _mapped(value, function):
    if isinstance(value, dict):
        return {key: function(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(function(part) for part in value)
    return value
