# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch.distributed as flat memory for the engine."""

import torch
from torch.distributed import ReduceOp

from horovod._native import constants
from horovod.torch._tensors import CODES

_REDUCTIONS = (
    (ReduceOp.SUM, constants.SUM),
    (ReduceOp.AVG, constants.AVERAGE),
    (ReduceOp.MIN, constants.MIN),
    (ReduceOp.MAX, constants.MAX),
    (ReduceOp.PRODUCT, constants.PRODUCT),
)
_OF_BITS = ((ReduceOp.BAND, constants.MIN), (ReduceOp.BOR, constants.MAX))


def reduction(kind, reduce_op, tensors):
    """The engine's number for a ReduceOp, and the factor of inputs."""
    for known, number in _REDUCTIONS:
        if reduce_op == known:
            return number, 1.0
    for known, number in _OF_BITS:
        if reduce_op == known and all(tensor.dtype is torch.bool for tensor in tensors):
            return number, 1.0
    if reduce_op == ReduceOp.PREMUL_SUM:
        factor = reduce_op.__getstate__()[1]
        return constants.SUM, float(factor)
    name = str(getattr(reduce_op, "op", reduce_op)).rpartition(".")[2]
    raise NotImplementedError(f"{kind}: {name} of {tensors[0].dtype} is not among the engine's reductions")


def check_on_cpu(tensor, kind):
    """ValueError for a tensor that this backend cannot read."""
    if not tensor.is_cpu:
        raise ValueError(f"{kind}: the tensor is on {tensor.device}, the backend hvd works on CPU tensors")


class Flat:
    """A tensor as contiguous memory: its own, or a copy. ``unit``: engine elements per element of the tensor."""

    __slots__ = ("source", "tensor", "code", "unit", "kind")

    def __init__(self, source, kind, reduced=False):
        if source.layout is not torch.strided:
            raise NotImplementedError(f"{kind}: layout {source.layout} is not supported, only dense tensors are")
        check_on_cpu(source, kind)
        self.source, self.kind = source, kind
        # A conjugate or a negative that nobody has computed yet is only a mark on memory that says otherwise.
        plain = source.is_contiguous() and not source.is_conj() and not source.is_neg()
        self.tensor = source if plain else source.detach().resolve_conj().resolve_neg().contiguous()
        self.code, self.unit = CODES.get(source.dtype), 1
        if self.code is None:  # where it is only moved, bytes will do
            if reduced:
                raise NotImplementedError(f"{kind}: dtype {source.dtype} can be moved, not reduced")
            self.code, self.unit = constants.DTYPES["bytes"], source.element_size()

    @property
    def count(self):
        """Elements for the engine."""
        return self.tensor.numel() * self.unit

    @property
    def described(self):
        """What the native layer wants to know."""
        return (self.tensor.data_ptr(), self.code, (self.count,))

    def write_back(self):
        """The values of a copy go to the caller's tensor."""
        if self.tensor is not self.source:
            with torch.no_grad():
                self.source.copy_(self.tensor)


def check_complex(kind, number, tensors):
    """Complex numbers can be added, not compared."""
    if number not in (constants.SUM, constants.AVERAGE) and any(tensor.is_complex() for tensor in tensors):
        raise NotImplementedError(f"{kind}: only SUM and AVG are defined for complex numbers")


def packed(tensors):
    """One flat tensor with the elements of all."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]) if tensors else torch.empty(0)


def unpack(flat, tensors):
    """The elements of ``flat`` go to the tensors, one after another."""
    start = 0
    with torch.no_grad():
        for tensor in tensors:
            end = start + tensor.numel()
            tensor.copy_(flat[start:end].view(tensor.shape))
            start = end


def one(tensors, kind):
    """The only tensor of a list; the lists are for several devices of one process, which no longer exist."""
    if len(tensors) != 1:
        raise ValueError(f"{kind}: {len(tensors)} tensors, one is needed")
    return tensors[0]
