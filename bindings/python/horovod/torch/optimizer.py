# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: an optimizer that reduces gradients over all ranks before it steps."""

import copy
import functools
import warnings

import torch

from horovod.common import basics
from horovod.common.process_sets import global_process_set
from horovod.torch import (
    _adasum_optimizer,
    _agreement,
    _backward,
    _bucket,
    _gradient,
    _gradient_optimizer,
    _graph,
    _reducer,
    _reductions,
    _rounds,
    _sparse,
)
from horovod.torch._adasum_optimizer import AdasumOptimizer
from horovod.torch._gradient_optimizer import GradientOptimizer
from horovod.torch._members import has_others, set_of
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

    The result is the given optimizer itself, which reduces from now on. As soon as backward has finished the gradient of a
    parameter, its allreduce starts, and all have ended when ``backward()`` returns: what the program then does with ``.grad``
    counts as in one process. Inside ``no_sync()`` gradients stay local.

    ``named_parameters``: ``model.named_parameters()``; names make the operations recognisable in messages.
    ``compression``: a Compressor of ``hvd.Compression`` or a codec of ``horovod.torch.codec``.
    ``backward_passes_per_step``: so many backward passes are summed locally before they are reduced; or fewer, at ``step()``.
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
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(f"DistributedOptimizer: {type(optimizer).__name__} is not a torch.optim.Optimizer")
    if isinstance(optimizer, Wrapped):
        raise ValueError("DistributedOptimizer: the optimizer is a DistributedOptimizer already")
    names = parameter_names(optimizer, named_parameters)
    if num_groups:
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
    mixin = GradientOptimizer
    if op == basics.Adasum:
        if isinstance(compression, Codec):
            raise ValueError("DistributedOptimizer: a codec cannot compress for Adasum")
        if has_others(process_set, "DistributedOptimizer"):
            mixin = AdasumOptimizer
    return _become(mixin, optimizer, names, options)


def _become(mixin, optimizer, names, options):
    """Makes the object a DistributedOptimizer: whoever holds it already, as a scheduler does, steps by it too.

    Where that fails the optimizer is what it was.
    """
    base = type(optimizer)
    wrapped_class = _class(mixin, base)
    attributes, groups = mixin._hvd_prepare(optimizer, names, **options)
    own = vars(optimizer).get("step")
    optimizer.__class__ = wrapped_class
    if own is not None:
        # A scheduler's counts, as the class's does; anything else is stepped by.
        del optimizer.step
        if not (_counts(own) and getattr(own, "__wrapped__", None) is base.step):
            attributes["_hvd_step"] = own
    vars(optimizer).update(attributes, _hvd_made_of=(base, names, {**options, "groups": groups or None}))
    return optimizer


def _counts(step):
    return hasattr(step, "_wrapped_by_lr_sched") or hasattr(step, "_with_counter")


@functools.lru_cache(maxsize=None)
def _class(mixin, base):
    return type(base.__name__, (mixin, Wrapped, base), {"__module__": base.__module__, "__qualname__": base.__qualname__})


class Wrapped:
    """What all wrapped optimizers have besides their class. ``_hvd_made_of``: class, names by parameter, options."""

    def load_state_dict(self, state_dict):
        """As the optimizer's own. Groups and state are the same objects afterwards, for whoever holds them."""
        groups, state = self.param_groups, self.state
        before = list(groups)
        super().load_state_dict(state_dict)
        if self.param_groups is not groups:
            for group, loaded in zip(before, self.param_groups):
                members = group["params"]
                members[:] = loaded["params"]
                group.clear()
                group.update(loaded, params=members)
            groups[:] = before
            self.param_groups = groups
        if self.state is not state:
            loaded = dict(self.state)
            state.clear()
            state.update(loaded)
            self.state = state

    def __copy__(self):
        """Shares everything, also what is reduced."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __deepcopy__(self, memo):
        """A DistributedOptimizer of the copied parameters. Ranks that have none need to make none, unless it is used."""
        base, named, options = _parts(self)
        plain = base.__new__(base)
        memo[id(self)] = plain
        plain.__setstate__(copy.deepcopy(base.__getstate__(self), memo))
        named = [(name, copy.deepcopy(parameter, memo)) for name, parameter in named]
        made = DistributedOptimizer(plain, named, **{**options, "groups": copy.deepcopy(options["groups"], memo)})
        if isinstance(made, GradientOptimizer):
            made._hvd.follow(self._hvd, lambda parameter: copy.deepcopy(parameter, memo))
        return made

    def __reduce_ex__(self, _protocol):
        base, named, options = _parts(self)
        process_set = options.pop("process_set")
        ranks = None if process_set is global_process_set else process_set.ranks
        return _unpickled, (base, base.__getstate__(self), named, options, ranks)


def _parts(optimizer):
    """What an equal one is made of: class, named parameters, options."""
    base, names, options = optimizer._hvd_made_of
    named = [
        (names.get(parameter, position_name(g, i)), parameter)
        for g, group in enumerate(optimizer.param_groups)
        for i, parameter in enumerate(group["params"])
    ]
    options = dict(options)
    if isinstance(optimizer, GradientOptimizer):
        options["backward_passes_per_step"] = optimizer._hvd.passes
    return base, named, options


def _unpickled(base, state, named, options, ranks):
    """A DistributedOptimizer again where Horovod is initialised; a plain optimizer elsewhere, with a warning."""
    plain = base.__new__(base)
    plain.__setstate__(state)
    if not basics.is_initialized():
        warnings.warn(
            f"a DistributedOptimizer was unpickled before hvd.init(): it is a plain {base.__name__}, which reduces nothing; "
            "hvd.DistributedOptimizer makes it one again",
            stacklevel=2,
        )
        return plain
    process_set = global_process_set if ranks is None else set_of(ranks)
    return DistributedOptimizer(plain, named, process_set=process_set, **options)


_graph.outside(
    _adasum_optimizer, _agreement, _backward, _bucket, _gradient, _gradient_optimizer, _reducer, _reductions, _rounds, _sparse
)
