# SPDX-License-Identifier: Apache-2.0
"""An optimizer of optax that sees the gradients of all ranks."""

import itertools

from horovod.common.basics import Average
from horovod.common.dropped import use_of
from horovod.common.process_sets import ByRegistration, checked, global_process_set
from horovod.jax.compression import Compression
from horovod.jax.functions import allreduce_gradients

_DROPPED = (
    "DistributedOptimizer: its result was dropped before an update: the optimizer of optax that it was given does not reduce gradients; "
    "write optimizer = hvd.DistributedOptimizer(optimizer)"
)
# Optimizers made so far.
_numbers = ByRegistration(lambda: itertools.count(1))


def DistributedOptimizer(  # noqa: N802 - the name Horovod's users know
    optimizer,
    compression=Compression.none,
    backward_passes_per_step=1,
    op=Average,
    gradient_predivide_factor=1.0,
    name=None,
    process_set=global_process_set,
):
    """An ``optax.GradientTransformation`` whose ``update`` reduces the gradients over the ranks before ``optimizer`` sees them.

    With ``backward_passes_per_step`` above 1 gradients are summed on this rank, and every so many updates the sum is
    reduced and applied; the updates between are zero. Ranks outside of ``process_set`` keep their own gradients. ``name``: of
    the operation; without it ``gradients``, ``gradients.2``, ... in the order in which a rank makes its optimizers.
    """
    try:
        import optax
    except ImportError as error:
        raise ImportError(f"horovod.jax.DistributedOptimizer: optax cannot be imported ({error}); pip install optax") from error
    if backward_passes_per_step < 1:
        raise ValueError(f"DistributedOptimizer: backward_passes_per_step is {backward_passes_per_step}, not above 0")
    checked(process_set, "DistributedOptimizer")
    if name is None:
        number = next(_numbers[process_set])
        name = "gradients" if number == 1 else f"gradients.{number}"

    def reduced(gradients, state, params=None, **extra):
        del params, extra
        used()
        if process_set.included():
            gradients = allreduce_gradients(gradients, name, compression, op, gradient_predivide_factor, process_set)
        return gradients, state

    used = use_of(reduced, _DROPPED)
    whole = optax.chain(optax.GradientTransformationExtraArgs(lambda _params: optax.EmptyState(), reduced), optimizer)
    if backward_passes_per_step == 1:
        return whole
    return optax.MultiSteps(whole, backward_passes_per_step, use_grad_mean=False).gradient_transformation()
