# SPDX-License-Identifier: Apache-2.0
"""Lists of gradients over all ranks, as tapes and optimizers need it: few operations, whatever the number of gradients."""

import os

import tensorflow as tf

from horovod.common import basics, grouping
from horovod.common.process_sets import checked, global_process_set
from horovod.tensorflow import _collectives, mpi_ops
from horovod.tensorflow.compression import Compression

# Gradients that follow one another travel together up to this size. One operation for all would not start before backward has
# ended; one for each costs its share of negotiation and of TensorFlow's scheduling.
_TOGETHER_BYTES = 8 << 20


def check_op(who, op, gradient_predivide_factor):
    """ValueError where the arguments contradict each other."""
    if op not in (basics.Average, basics.Sum, basics.Adasum):
        raise ValueError(f"{who}: op {op} is not Average, Sum or Adasum")
    if gradient_predivide_factor != 1.0 and op != basics.Average:
        raise ValueError(f"{who}: gradient_predivide_factor needs op=Average")


def variable_key(variable):
    """What stays the same for a variable through copies, casts and wrappers of it."""
    if hasattr(variable, "experimental_ref") or hasattr(variable, "ref"):
        return variable.ref() if hasattr(variable, "ref") else variable.experimental_ref()
    return getattr(variable, "path", None) or variable.name


def checked_groups(who, groups, num_groups=0):
    """None, a number above 0, or a list of lists of variable keys."""
    return grouping.checked_groups(who, groups, num_groups, variable_key)


def takes_part(process_set):
    """Whether this rank has others to reduce with. An elastic job may be alone now and have others later."""
    basics.session()  # says that init is missing
    if mpi_ops._number(process_set, "DistributedOptimizer") != 0 and not process_set.included():
        return False
    return len(process_set.ranks) > 1 or os.environ.get("HOROVOD_ELASTIC", "0") not in ("", "0")


class Reduction:
    """The arguments of a tape or optimizer, and what they do to a list of gradients."""

    def __init__(
        self,
        prefix,
        compression=Compression.none,
        sparse_as_dense=False,
        op=basics.Average,
        gradient_predivide_factor=1.0,
        groups=None,
        process_set=global_process_set,
        scale_local_gradients=True,
    ):
        self.prefix = prefix
        self.compression = compression
        self.sparse_as_dense = sparse_as_dense
        self.op = op
        self.prescale = 1.0 / gradient_predivide_factor
        self.postscale = gradient_predivide_factor
        self.groups = groups
        self.process_set = checked(process_set, prefix)
        self.scale_local_gradients = scale_local_gradients
        self.local = set()  # keys of variables whose gradients stay here

    def add_local(self, variable):
        """The gradient of this variable is not reduced."""
        self.local.add(variable_key(variable))

    def is_local(self, variable):
        """Whether the gradient of this variable is not reduced."""
        return bool(self.local) and variable_key(variable) in self.local

    def scaled_local(self, gradient):
        """The gradient of a local variable: as if it were zero on all other ranks."""
        if not self.scale_local_gradients or gradient is None:
            return gradient
        if isinstance(gradient, tf.IndexedSlices):
            values = gradient.values / _collectives._set_size(self.process_set, gradient.values.dtype)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return gradient / _collectives._set_size(self.process_set, gradient.dtype)

    def __call__(self, gradients, variables, factor=1.0, prefix=None):
        """The gradients after reduction, those of local variables scaled, None where there is none.

        ``factor`` multiplies what is reduced. The i-th gradient is that of the i-th variable.
        """
        results, reduced, alone = list(gradients), [], not takes_part(self.process_set)
        for i, (gradient, variable) in enumerate(zip(results, variables)):
            if gradient is None:
                continue
            if self.is_local(variable):
                results[i] = gradient if alone else self.scaled_local(gradient)
                continue
            if isinstance(gradient, tf.IndexedSlices) and (self.sparse_as_dense or factor != 1.0):
                results[i] = tf.convert_to_tensor(gradient)
            if not alone:
                reduced.append(i)
            elif factor != 1.0:
                results[i] = results[i] * factor
        for number, part in enumerate(self._parts(reduced, results, variables)):
            self._reduce(part, results, f"{prefix or self.prefix}_{number}", factor)
        return results

    def _parts(self, reduced, gradients, variables):
        """Lists of numbers of gradients that travel as one operation."""
        if self.groups is None:
            return self._by_size(reduced, gradients)
        return grouping.parts_of(self.groups, {variable_key(variables[i]): i for i in reduced})

    def _by_size(self, reduced, gradients):
        parts, room = [], 0
        for i in reduced:
            size = _bytes_of(gradients[i])
            if size > room or not parts:
                parts.append([])
                room = _TOGETHER_BYTES
            parts[-1].append(i)
            room -= size
        return parts

    def _reduce(self, part, gradients, name, factor):
        options = {"op": self.op, "compression": self.compression, "process_set": self.process_set}
        sparse = any(isinstance(gradients[i], tf.IndexedSlices) for i in part)
        if not sparse:
            options["prescale_factor"], options["postscale_factor"] = self.prescale, self.postscale * factor
        if self.op == basics.Adasum:  # its result depends on what is one tensor
            for i in part:
                gradients[i] = _collectives.allreduce(gradients[i], name=f"{name}_{i}", **options)
            return
        reduced = _collectives.grouped_allreduce([gradients[i] for i in part], name=name, **options)
        for i, gradient in zip(part, reduced):
            gradients[i] = gradient


def _bytes_of(gradient):
    if isinstance(gradient, tf.IndexedSlices):
        return 0
    elements = gradient.shape.num_elements()
    return 0 if elements is None else elements * gradient.dtype.size
