# SPDX-License-Identifier: Apache-2.0
"""Gradients on their way: one object for each way in which a gradient can be reduced.

``advance()`` waits for the exchange that runs; it returns True and sets ``result`` when that was the last one.
"""

import torch

from horovod import _submit
from horovod._native import constants
from horovod._handles import Handle
from horovod.common import basics
from horovod.torch import _start
from horovod.torch._sparse import Merging, start_sums
from horovod.torch.codec import Codec
from horovod.torch.compression import NoneCompressor

# What a gradient is, as a number that can be compared over the ranks: 1 + its sparse dimensions.
ABSENT, DENSE = 0, 1


def kind_of(gradient):
    """ABSENT, DENSE, or DENSE + the number of sparse dimensions."""
    if gradient is None:
        return ABSENT
    return DENSE + gradient.sparse_dim() if gradient.layout is torch.sparse_coo else DENSE


class DenseReduction:
    """One allreduce, of a gradient alone or of a group of them."""

    __slots__ = ("handle", "sent", "context", "compression", "gradient", "result", "sparse_dim")

    def __init__(self, compression, gradient, sparse_dim=0):
        self.gradient = gradient
        self.compression = compression
        self.sparse_dim = sparse_dim
        whole = gradient.to_dense() if gradient.layout is not torch.strided else gradient.detach()
        self.sent, self.context = compression.compress(whole)
        self.result = self.handle = None

    def advance(self):
        self.handle.wait()
        result = self.compression.decompress(self.sent, self.context)
        self.result = result.to_sparse(self.sparse_dim) if self.sparse_dim else result
        return True


class SparseReduction:
    """The entries of all ranks, of a gradient alone or of a group of them: the ``place``-th of what was started."""

    __slots__ = ("sums", "place", "gradient", "result")

    def __init__(self, sums, place, gradient):
        self.sums, self.place, self.gradient = sums, place, gradient
        self.result = None

    def advance(self):
        self.result = self.sums.wait()[self.place]
        return True


class CodedReduction:
    """The exchanges of a codec."""

    __slots__ = ("rounds", "handle", "gradient", "result")

    def __init__(self, method, name, gradient):
        self.gradient = gradient
        self.result = self.handle = None
        self.rounds = method.compression.reduce(name, gradient.detach(), _Ranks(method, name))
        self._resume(None)

    def advance(self):
        return self.handle is None or self._resume(self.handle.wait())

    def _resume(self, received):
        try:
            with torch.no_grad():
                self.handle = self.rounds.send(received)
        except StopIteration as stop:
            self.handle, (self.result, _own) = None, stop.value
            return True
        return False


class _Ranks:
    """What a codec sees of the other ranks."""

    __slots__ = ("_method", "_name", "weight", "size")

    def __init__(self, method, name):
        self._method, self._name = method, name
        self.size = method.process_set.size()
        self.weight = 1.0 / self.size if method.op == basics.Average else 1.0

    def allreduce(self, tensor, part):
        """A handle; the tensor's contents are replaced."""
        return self._method.allreduce(tensor.contiguous(), f"{self._name}.{part}")

    def allgather(self, tensor, part):
        """A handle."""
        return Handle(*_start.allgather(tensor, f"{self._name}.{part}", self._method.process_set))


class ReductionMethod:
    """How the gradients of an optimizer are reduced."""

    def __init__(self, compression, op, predivide, sparse_as_dense, process_set):
        self.compression = compression
        self.coded = isinstance(compression, Codec)
        self.op, self.process_set = op, process_set
        self.options = {"reduce_op": op, "prescale": 1.0 / predivide, "postscale": predivide}
        self.sparse_as_dense = sparse_as_dense
        self.direct = compression is NoneCompressor  # dense gradients travel as they are
        self._mergings = {}  # by name and number of gradients

    def separate(self, kind):
        """Whether a gradient of this kind cannot travel in a group."""
        return kind > DENSE and not self.sparse_as_dense

    def start(self, name, gradient):
        """Reduces one gradient, in place if it is dense."""
        kind = kind_of(gradient)
        if self.separate(kind):
            return self.start_sums(name, [gradient])[0]
        if self.coded:
            if kind == DENSE:
                return CodedReduction(self, name, gradient)
            reduction = CodedReduction(self, name, gradient.to_dense())
            reduction.gradient = gradient
            return reduction
        reduction = DenseReduction(self.compression, gradient, kind - DENSE)
        reduction.handle = self.allreduce(reduction.sent, name)
        return reduction

    def prepare(self, name, tensors, grouped=False):
        """An allreduce in place of dense gradients that every step starts, see ``_submit.prepare``."""
        return _submit.prepare(name, tensors, self.process_set, grouped=grouped, **self.options)

    def allreduce(self, tensor, name):
        """Starts an allreduce in place. These handles need no number, by which others would find them."""
        started = _start.in_place(constants.ALLREDUCE, tensor, name, self.process_set, **self.options)
        return Handle(*started)

    def start_sums(self, name, gradients):
        """Reduces several sparse gradients as one operation."""
        key = name, len(gradients)
        if key not in self._mergings:
            self._mergings[key] = [Merging() for _ in gradients]
        sums = start_sums(gradients, name, self.op, self.process_set, self._mergings[key])
        return [SparseReduction(sums, place, gradient) for place, gradient in enumerate(gradients)]

    def start_group(self, name, gradients):
        """Reduces several gradients as one operation. Those that cannot travel in a group are among themselves."""
        if gradients and self.separate(kind_of(gradients[0])):
            return self.start_sums(name, gradients)
        reductions = [DenseReduction(self.compression, gradient, kind_of(gradient) - DENSE) for gradient in gradients]
        tensors = [reduction.sent for reduction in reductions]
        handle = Handle(*_start.grouped_allreduce_in_place(tensors, name, self.process_set, **self.options))
        for reduction in reductions:
            reduction.handle = handle
        return reductions


def finish(reductions):
    """Advances all of them until each has its result; later rounds of one overlap with those of others."""
    running = list(reductions)
    while running:
        running = [reduction for reduction in running if not reduction.advance()]
