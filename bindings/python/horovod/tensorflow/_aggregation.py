# SPDX-License-Identifier: Apache-2.0
"""Gradients of several passes, summed in variables before they are reduced: in TensorFlow 1's graphs, and in eager code and
``tf.function`` for Keras 2."""

import tensorflow as tf


def _dense(gradient, sparse_as_dense):
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    if not sparse_as_dense:
        raise ValueError("backward_passes_per_step: IndexedSlices cannot be summed; use sparse_as_dense=True")
    return tf.convert_to_tensor(gradient)


class PassSums:
    """Sums gradients in eager code and in ``tf.function``; its variables are made at the first call."""

    def __init__(self, passes, average, sparse_as_dense):
        self._passes, self._average, self._sparse_as_dense = passes, average, sparse_as_dense
        self._count = None
        self._stores = {}

    def add(self, pairs, apply, skip):
        """Adds the gradients of ``(gradient, variable)`` pairs. Runs ``apply(pairs of sums)`` in every ``passes``-th call and
        ``skip()`` in the others; both return a number, which is returned."""
        pairs = [(_dense(gradient, self._sparse_as_dense), variable) for gradient, variable in pairs if gradient is not None]
        stores = [self._store(variable) for _g, variable in pairs]
        for store, (gradient, _v) in zip(stores, pairs):
            store.assign_add(gradient)
        last = tf.equal(tf.math.floormod(self._count.assign_add(1), self._passes), 0)

        def finish():
            sums = [store.read_value() for store in stores]
            if self._average:
                sums = [total / tf.cast(self._passes, total.dtype) for total in sums]
            result = apply([(total, variable) for total, (_g, variable) in zip(sums, pairs)])
            for store in stores:
                store.assign(tf.zeros_like(store))
            return result

        return tf.cond(last, finish, skip)

    def _store(self, variable):
        with tf.init_scope():  # outside of a function that is being traced
            if self._count is None:
                self._count = tf.Variable(0, trainable=False, dtype=tf.int64, name="hvd_passes")
            key = variable.ref()
            if key not in self._stores:
                self._stores[key] = tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False, name="hvd_sum")
            return self._stores[key]


class LocalGradientAggregationHelper:
    """Sums gradients; in every ``passes``-th run they are reduced and applied, in the others nothing but steps is counted.

    ``reduce(gradients, variables)`` is called once, when the graph is built.
    """

    def __init__(self, backward_passes_per_step, allreduce_func, sparse_as_dense=False, average_aggregated_gradients=False):
        if backward_passes_per_step <= 0:
            raise ValueError(f"backward_passes_per_step is {backward_passes_per_step}, not above 0")
        self.passes = backward_passes_per_step
        self._reduce = allreduce_func
        self._sparse_as_dense = sparse_as_dense
        self._average = average_aggregated_gradients
        self._ready = None  # a tensor: whether this run is the last of a round

    def compute_gradients(self, gradients, variables):
        """The reduced sums in the last run of a round, the sums so far in the others; None where there is no gradient."""
        counter = tf.compat.v1.Variable(0, trainable=False, name="hvd_passes", dtype=tf.int32)
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        sums = {}
        for i in present:
            gradient = _dense(gradients[i], self._sparse_as_dense)
            store = tf.compat.v1.Variable(tf.zeros(gradient.shape, gradient.dtype), trainable=False, name="hvd_sum")
            sums[i] = store, store.assign_add(gradient)
        with tf.control_dependencies([added for _store, added in sums.values()]):
            count = tf.math.floormod(counter.assign_add(1), self.passes)
            self._ready = tf.equal(count, 0)
        totals = tf.cond(self._ready, lambda: self._finish(sums, variables), lambda: self._sums(sums))
        results = [None] * len(gradients)
        for i, tensor in zip(present, totals):
            results[i] = tensor
        return results

    @staticmethod
    def _sums(sums):
        return [tf.identity(added) for _store, added in sums.values()]

    def _finish(self, sums, variables):
        totals = self._sums(sums)
        if self._average:
            totals = [total / tf.cast(self.passes, total.dtype) for total in totals]
        reduced = self._reduce(totals, [variables[i] for i in sums])
        with tf.control_dependencies(reduced):
            cleared = [store.assign(tf.zeros_like(store)) for store, _added in sums.values()]
        with tf.control_dependencies(cleared):
            return [tf.identity(tensor) for tensor in reduced]

    def apply_gradients(self, apply, optimizer, *args, **kwargs):
        """Runs ``apply()`` in the last run of a round; in the others only counts the step."""
        step = kwargs.get("global_step", args[1] if len(args) > 1 else None)

        def count():
            return tf.group(*([] if step is None else [step.assign_add(1)]))

        return tf.cond(self._ready, lambda: tf.group(apply()), count)
