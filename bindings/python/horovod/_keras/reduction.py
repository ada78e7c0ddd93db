# SPDX-License-Identifier: Apache-2.0
"""Gradients as Keras' backend has them, reduced over the ranks."""

import numpy as np

from horovod import _ops
from horovod.common import basics, grouping
from horovod.common.process_sets import global_process_set


def reduction_for(backend, **arguments):
    """A callable ``(gradients, variables, factor) -> gradients`` for tensors of this backend of Keras."""
    if backend == "tensorflow":
        from horovod.tensorflow._reduction import Reduction

        return Reduction("DistributedOptimizer", **arguments)
    arguments.pop("sparse_as_dense")  # gradients are dense there
    if backend == "torch":
        return _Reduction(_reduce_torch, **arguments)
    if backend == "jax":
        return _Reduction(_reduce_jax, **arguments)
    raise NotImplementedError(f"DistributedOptimizer: Keras on {backend} is not supported")


def checked_groups(backend, groups, num_groups):
    """None, a number above 0, or a list of lists of variable keys, as this backend's reduction takes it."""
    if backend == "tensorflow":
        from horovod.tensorflow._reduction import variable_key as key
    else:
        key = _key
    return grouping.checked_groups("DistributedOptimizer", groups, num_groups, key)


def _key(variable):
    return getattr(variable, "path", None) or id(variable)


class _Reduction:
    """As horovod.tensorflow._reduction.Reduction, for backends that have dense gradients only."""

    def __init__(
        self,
        reduce,
        compression=None,
        op=basics.Average,
        gradient_predivide_factor=1.0,
        groups=None,
        process_set=global_process_set,
        scale_local_gradients=True,
    ):
        self._reduce = reduce
        self.compression = compression
        self.op = op
        self.predivide = gradient_predivide_factor
        self.groups = groups
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self.local = set()

    def add_local(self, variable):
        """The gradient of this variable is not reduced."""
        self.local.add(_key(variable))

    def is_local(self, variable):
        """Whether the gradient of this variable is not reduced."""
        return _key(variable) in self.local

    def __call__(self, gradients, variables, factor=1.0, prefix=None):
        results = list(gradients)
        if basics.size() == 1 or not self.process_set.included():
            return [g if g is None or factor == 1.0 or self.is_local(v) else g * factor for g, v in zip(results, variables)]
        reduced = []
        for i, (gradient, variable) in enumerate(zip(results, variables)):
            if gradient is None:
                continue
            if not self.is_local(variable):
                reduced.append(i)
            elif self.scale_local_gradients:
                results[i] = gradient / len(self.process_set.ranks)
        options = {
            "op": self.op,
            "prescale_factor": 1.0 / self.predivide,
            "postscale_factor": self.predivide * factor,
            "process_set": self.process_set,
        }
        for number, part in enumerate(self._parts(reduced, variables)):
            tensors = [results[i] for i in part]
            tensors = self._reduce(tensors, f"DistributedOptimizer_{number}", self.compression, options)
            for i, tensor in zip(part, tensors):
                results[i] = tensor
        return results

    def _parts(self, reduced, variables):
        if self.groups is None:
            return [reduced] if reduced else []
        return grouping.parts_of(self.groups, {_key(variables[i]): i for i in reduced})


def _reduce_torch(tensors, name, compression, options):
    import horovod.torch

    if compression is not None:
        options = {**options, "compression": compression}
    return horovod.torch.grouped_allreduce(tensors, name=name, **options)


def _reduce_jax(tensors, name, compression, options):
    import jax
    from jax.experimental import io_callback

    sent = [(tensor, None) if compression is None else compression.compress(tensor) for tensor in tensors]

    def on_arrays(*arrays):
        return tuple(_ops.grouped_allreduce([np.asarray(array) for array in arrays], name=name, **options))

    shapes = tuple(jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor, _context in sent)
    reduced = io_callback(on_arrays, shapes, *[tensor for tensor, _context in sent], ordered=True)
    if compression is None:
        return list(reduced)
    return [compression.decompress(tensor, context) for tensor, (_sent, context) in zip(reduced, sent)]
