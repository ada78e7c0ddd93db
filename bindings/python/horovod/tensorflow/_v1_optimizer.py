# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer for optimizers of TensorFlow 1, in its graphs and eagerly."""

import tensorflow as tf

from horovod.common import basics
from horovod.tensorflow import _collectives
from horovod.tensorflow._aggregation import LocalGradientAggregationHelper
from horovod.tensorflow._reduction import Reduction, checked_groups


def distributed(
    optimizer,
    name,
    op,
    backward_passes_per_step,
    average_aggregated_gradients,
    num_groups,
    groups,
    process_set,
    **arguments,
):
    """The optimizer itself, whose class becomes one of the same name that reduces; see horovod.tensorflow.DistributedOptimizer.

    What refers to it, or has not kept what is returned, does not train without the other ranks.
    """
    if isinstance(optimizer, _Distributed):
        raise ValueError("DistributedOptimizer: the optimizer is a DistributedOptimizer already")
    if backward_passes_per_step <= 0:
        raise ValueError(f"DistributedOptimizer: backward_passes_per_step is {backward_passes_per_step}, not above 0")
    if op == basics.Adasum:
        if process_set.process_set_id != 0:
            raise NotImplementedError("DistributedOptimizer: op=Adasum of a process set is not supported")
        return _changed(_AdasumOptimizer, optimizer, name, backward_passes_per_step, arguments["compression"])
    if backward_passes_per_step > 1 and tf.executing_eagerly():
        raise ValueError("DistributedOptimizer: backward_passes_per_step above 1 needs a graph of TensorFlow 1")
    groups = checked_groups("DistributedOptimizer", groups, num_groups)
    reduction = Reduction("DistributedOptimizer", op=op, groups=groups, process_set=process_set, **arguments)
    return _changed(_GradientOptimizer, optimizer, name, reduction, backward_passes_per_step, average_aggregated_gradients)


def _changed(kind, optimizer, name, *settings):
    base = type(optimizer)
    optimizer.__class__ = type(base.__name__, (kind, base), {"__module__": base.__module__, "__doc__": base.__doc__})
    # Names operations. Its own name stays, which names the variables that it keeps in checkpoints.
    optimizer._hvd_name = name or f"Distributed{base.__name__}"
    optimizer._hvd_set(*settings)
    return optimizer


class _Distributed:
    """Mixed in before an optimizer class."""


class _GradientOptimizer(_Distributed):
    """compute_gradients reduces; apply_gradients is the optimizer's own."""

    def _hvd_set(self, reduction, passes, average_passes):
        self._hvd_reduction = reduction
        self._hvd_helper = None
        if passes > 1:
            self._hvd_helper = LocalGradientAggregationHelper(passes, self._hvd_reduce, reduction.sparse_as_dense, average_passes)

    def register_local_var(self, var):
        """The gradient of this variable is not reduced."""
        self._hvd_reduction.add_local(var)

    def _hvd_reduce(self, gradients, variables):
        with tf.name_scope(f"{self._hvd_name}_Allreduce"):
            return self._hvd_reduction(gradients, variables)

    def compute_gradients(self, *args, **kwargs):
        """As the optimizer's own, reduced over the ranks."""
        pairs = super().compute_gradients(*args, **kwargs)
        gradients, variables = [gradient for gradient, _v in pairs], [variable for _g, variable in pairs]
        reduce = self._hvd_reduce if self._hvd_helper is None else self._hvd_helper.compute_gradients
        return list(zip(reduce(gradients, variables), variables))

    def apply_gradients(self, *args, **kwargs):
        """As the optimizer's own; with backward_passes_per_step it happens when enough passes have been summed."""
        apply = super().apply_gradients
        if self._hvd_helper is None:
            return apply(*args, **kwargs)
        return self._hvd_helper.apply_gradients(lambda: apply(*args, **kwargs), self, *args, **kwargs)


class _AdasumOptimizer(_Distributed):
    """Steps locally, then combines what the steps have changed by Adasum."""

    def _hvd_set(self, passes, compression):
        self._hvd_passes = passes
        self._hvd_compression = compression

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """As the optimizer's own; then, in every backward_passes_per_step-th call, all ranks combine their changes."""
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        variables = [variable for _g, variable in pairs]
        with tf.name_scope(self._hvd_name):
            count, starts = self._hvd_begin(variables)
        with tf.control_dependencies(starts):
            stepped = super().apply_gradients(pairs, global_step=global_step, name=name)
        with tf.control_dependencies([stepped] if isinstance(stepped, tf.Operation) else []):
            if count is None:
                return tf.group(*self._hvd_combine(variables, starts))
            last = tf.equal(tf.math.floormod(count.assign_add(1), self._hvd_passes), 0)
            return tf.cond(last, lambda: tf.group(*self._hvd_combine(variables, starts)), tf.no_op)

    def _hvd_begin(self, variables):
        """(the counter of passes or None, what the variables were when all ranks had the same)"""
        if self._hvd_passes == 1:
            return None, [tf.identity(variable.read_value()) for variable in variables]
        count = tf.compat.v1.Variable(0, trainable=False, name="step_count")
        first = tf.equal(tf.math.floormod(count.read_value(), self._hvd_passes), 0)
        starts = []
        for variable in variables:
            store = tf.compat.v1.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False, name="delta_start")
            kept = tf.cond(first, lambda s=store, v=variable: s.assign(v.read_value()), lambda s=store: s.read_value())
            starts.append(tf.identity(kept))
        return count, starts

    def _hvd_combine(self, variables, starts):
        changed = []
        for index, (variable, start) in enumerate(zip(variables, starts)):
            name = f"{self._hvd_name}_delta_{index}"
            delta = variable.read_value() - start
            delta = _collectives.allreduce(delta, op=basics.Adasum, compression=self._hvd_compression, name=name)
            changed.append(variable.assign(start + delta))
        return changed
