# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: an optimizer that reduces gradients over all ranks before it steps."""

import copy

import torch

from horovod._floor import gradients
from horovod.common import basics
from horovod.common.process_sets import global_process_set
from horovod.torch import _adasum_optimizer, _flight, _gradient_optimizer, _graph, _layout, _outbox, _reducer, _slots, _sparse
from horovod.torch._adasum_optimizer import AdasumOptimizer
from horovod.torch._gradient_optimizer import GradientOptimizer
from horovod.torch._members import has_others
from horovod.torch._parameter_names import parameter_names, position_name
from horovod.torch.codec import Codec
from horovod.torch.compression import Compression


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer,
    named_parameters=None,
    compression=Compression.none,
    backward_passes_per_step=1,
    op=basics.Average,
    gradient_predivide_factor=1.0,
    num_groups=0,
    groups=None,
    sparse_as_dense=False,
    process_set=global_process_set,
):
    """Wraps an optimizer so that every ``step()`` uses gradients reduced over the ranks.

    The result is an instance of the optimizer's class and shares its parameter groups and state. As soon as backward
    has finished the gradient of a parameter, its allreduce starts; ``step()`` waits for all of them. To work on reduced
    gradients before the step, to clip them say, call ``synchronize()`` first; ``step()`` does not reduce them again.
    ``torch.amp.GradScaler`` sees reduced gradients without further calls. Inside ``no_sync()`` gradients stay local.

    ``named_parameters``: ``model.named_parameters()``; names make the operations recognisable in messages.
    ``compression``: a Compressor of ``hvd.Compression`` or a codec of ``horovod.torch.codec``.
    ``backward_passes_per_step``: gradients of so many backward passes are summed locally before they are reduced. What
    counts is the step: gradients of fewer or more passes before ``step()`` are reduced too, more of them in two parts.
    ``op``: Average, Sum or Adasum. ``gradient_predivide_factor`` f: gradients are divided by f before and by size/f
    after the sum. ``groups``: how many groups, or lists of parameters, are reduced as one operation each.
    ``sparse_as_dense``: sparse gradients are reduced as dense ones. A parameter without a gradient on this rank
    takes part with zeros; one without a gradient on any rank keeps None, and the optimizer leaves it alone.
    ``copy.deepcopy``, of a model and its optimizer together say, gives a DistributedOptimizer of the copied parameters.

    ValueError: arguments that contradict each other, names or groups that are not as described. Errors of the
    operations come from ``step()``, ``synchronize()`` and ``backward()``.
    """
    if op not in (basics.Average, basics.Sum, basics.Adasum):
        raise ValueError(f"DistributedOptimizer: op {op} is not Average, Sum or Adasum")
    if gradient_predivide_factor != 1.0 and op != basics.Average:
        raise ValueError("DistributedOptimizer: gradient_predivide_factor needs op=Average")
    if backward_passes_per_step <= 0:
        raise ValueError(f"DistributedOptimizer: backward_passes_per_step is {backward_passes_per_step}, not above 0")
    names = parameter_names(optimizer, named_parameters)
    if num_groups:
        import warnings

        warnings.warn("num_groups is deprecated; use groups", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    options = {
        "compression": compression,
        "backward_passes_per_step": backward_passes_per_step,
        "op": op,
        "gradient_predivide_factor": gradient_predivide_factor,
        "groups": groups,
        "sparse_as_dense": sparse_as_dense,
        "process_set": process_set,
    }
    if op == basics.Adasum:
        if isinstance(compression, Codec):
            raise ValueError("DistributedOptimizer: a codec cannot compress for Adasum")
        if has_others(process_set, "DistributedOptimizer"):
            wrapped = _wrap(AdasumOptimizer, optimizer, names, options)
            return wrapped._hvd_start(names, compression, process_set)
    return _wrap(GradientOptimizer, optimizer, names, options)._hvd_start(names, **options)


def _wrap(mixin, optimizer, names, options):
    """An object of a class made of the mixin and the optimizer's class, with the optimizer's attributes.

    The attributes are shared instead of calling the class again: that works for any constructor, and keeps the state
    and the parameter groups that a learning rate scheduler may already hold.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(f"DistributedOptimizer: {type(optimizer).__name__} is not a torch.optim.Optimizer")
    base = type(optimizer)
    if issubclass(base, mixin):
        raise ValueError("DistributedOptimizer: the optimizer is a DistributedOptimizer already")
    wrapped_class = type(base.__name__, (mixin, base), {"__module__": base.__module__, "__deepcopy__": _deepcopy})
    wrapped = wrapped_class.__new__(wrapped_class)
    for name, value in vars(optimizer).items():
        # A scheduler puts a counting `step` on the object; it would hide ours and call the unwrapped optimizer.
        if not callable(getattr(wrapped_class, name, None)):
            wrapped.__dict__[name] = value
    wrapped._hvd_made_of = base, names, options
    # Such a scheduler watches the original object, whose step() nobody calls now, and would warn that it is not called.
    optimizer._opt_called = True
    optimizer._step_count = max(1, getattr(optimizer, "_step_count", 1))  # what PyTorch before 2.4 looks at
    return wrapped


def _deepcopy(optimizer, memo):
    """Wraps a copy of what was wrapped. As with wrapping, every rank of the set does it."""
    base, names, options = optimizer._hvd_made_of
    plain = base.__new__(base)
    plain.__setstate__(copy.deepcopy(optimizer.__getstate__(), memo))
    named = [
        (names.get(parameter, position_name(g, i)), copy.deepcopy(parameter, memo))
        for g, group in enumerate(optimizer.param_groups)
        for i, parameter in enumerate(group["params"])
    ]
    options = {**options, "groups": copy.deepcopy(options["groups"], memo)}
    if isinstance(optimizer, GradientOptimizer):
        options["backward_passes_per_step"] = optimizer._hvd.passes
    return DistributedOptimizer(plain, named, **options)


_graph.outside(_adasum_optimizer, _flight, _gradient_optimizer, _layout, _outbox, _reducer, _slots, _sparse, gradients)
