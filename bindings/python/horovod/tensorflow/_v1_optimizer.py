# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer for optimizers of TensorFlow 1, in its graphs and eagerly."""

import tensorflow as tf

from horovod.common import basics
from horovod.tensorflow import _collectives
from horovod.tensorflow._aggregation import LocalGradientAggregationHelper
from horovod.tensorflow._reduction import Reduction, checked_groups
from horovod.tensorflow._turns import in_turn

_Optimizer = tf.compat.v1.train.Optimizer


def distributed(
    optimizer,
    name,
    use_locking,
    op,
    backward_passes_per_step,
    average_aggregated_gradients,
    num_groups,
    groups,
    process_set,
    **arguments,
):
    """See horovod.tensorflow.DistributedOptimizer."""
    if backward_passes_per_step <= 0:
        raise ValueError(f"DistributedOptimizer: backward_passes_per_step is {backward_passes_per_step}, not above 0")
    if op == basics.Adasum:
        if process_set.process_set_id != 0:
            raise NotImplementedError("DistributedOptimizer: op=Adasum of a process set is not supported")
        return _AdasumOptimizer(optimizer, name, use_locking, backward_passes_per_step, arguments["compression"])
    if backward_passes_per_step > 1 and tf.executing_eagerly():
        raise ValueError("DistributedOptimizer: backward_passes_per_step above 1 needs a graph of TensorFlow 1")
    groups = checked_groups("DistributedOptimizer", groups, num_groups)
    reduction = Reduction("DistributedOptimizer", op=op, groups=groups, process_set=process_set, **arguments)
    return _GradientOptimizer(
        optimizer, name, use_locking, reduction, backward_passes_per_step, average_aggregated_gradients
    )


class _Delegating(_Optimizer):
    """An optimizer that is another one but for what its subclasses change."""

    def __init__(self, optimizer, name, use_locking):
        super().__init__(name=name or f"Distributed{type(optimizer).__name__}", use_locking=use_locking)
        self._optimizer = optimizer

    def get_slot(self, *args, **kwargs):
        """As the optimizer's own."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        """As the optimizer's own."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args, **kwargs):
        """As the optimizer's own."""
        return self._optimizer.variables(*args, **kwargs)


class _GradientOptimizer(_Delegating):
    """compute_gradients reduces; apply_gradients is the optimizer's own."""

    def __init__(self, optimizer, name, use_locking, reduction, passes, average_passes):
        super().__init__(optimizer, name, use_locking)
        self._reduction = reduction
        self._helper = None
        if passes > 1:
            self._helper = LocalGradientAggregationHelper(passes, self._reduce, reduction.sparse_as_dense, average_passes)

    def register_local_var(self, var):
        """The gradient of this variable is not reduced."""
        self._reduction.add_local(var)

    def _reduce(self, gradients, variables):
        with tf.name_scope(f"{self._name}_Allreduce"):
            return self._reduction(gradients, variables)

    def compute_gradients(self, *args, **kwargs):
        """As the optimizer's own, reduced over the ranks."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        gradients, variables = [gradient for gradient, _v in pairs], [variable for _g, variable in pairs]
        reduce = self._reduce if self._helper is None else self._helper.compute_gradients
        return list(zip(reduce(gradients, variables), variables))

    def apply_gradients(self, *args, **kwargs):
        """As the optimizer's own; with backward_passes_per_step it happens when enough passes have been summed."""
        if self._helper is None:
            return self._optimizer.apply_gradients(*args, **kwargs)
        return self._helper.apply_gradients(lambda: self._optimizer.apply_gradients(*args, **kwargs), self._optimizer, *args, **kwargs)


class _AdasumOptimizer(_Delegating):
    """Steps locally, then combines what the steps have changed by Adasum."""

    def __init__(self, optimizer, name, use_locking, passes, compression):
        super().__init__(optimizer, name, use_locking)
        self._passes = passes
        self._compression = compression

    def compute_gradients(self, *args, **kwargs):
        """As the optimizer's own."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """As the optimizer's own; then, in every backward_passes_per_step-th call, all ranks combine their changes."""
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        variables = [variable for _g, variable in pairs]
        with tf.name_scope(self._name):
            count, starts = self._begin(variables)
        with tf.control_dependencies(starts):
            stepped = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        with tf.control_dependencies([stepped] if isinstance(stepped, tf.Operation) else []):
            if count is None:
                return tf.group(*self._combine(variables, starts))
            last = tf.equal(tf.math.floormod(count.assign_add(1), self._passes), 0)
            return tf.cond(last, lambda: tf.group(*self._combine(variables, starts)), tf.no_op)

    def _begin(self, variables):
        """(the counter of passes or None, what the variables were when all ranks had the same)"""
        if self._passes == 1:
            return None, [tf.identity(variable.read_value()) for variable in variables]
        count = tf.compat.v1.Variable(0, trainable=False, name="step_count")
        first = tf.equal(tf.math.floormod(count.read_value(), self._passes), 0)
        starts = []
        for variable in variables:
            store = tf.compat.v1.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False, name="delta_start")
            kept = tf.cond(first, lambda s=store, v=variable: s.assign(v.read_value()), lambda s=store: s.read_value())
            starts.append(tf.identity(kept))
        return count, starts

    @in_turn()
    def _combine(self, variables, starts):
        changed = []
        for index, (variable, start) in enumerate(zip(variables, starts)):
            delta = _collectives.allreduce(
                variable.read_value() - start, op=basics.Adasum, compression=self._compression, name=f"{self._name}_delta_{index}"
            )
            changed.append(variable.assign(start + delta))
        return changed
