# SPDX-License-Identifier: Apache-2.0
"""Tensors as the floor wants them: address, dtype number, shape.

The library works on CPU memory. A tensor on another device is copied to (pinned) host memory before the operation and
the result is copied back after it: that works with every device PyTorch has, at the price of two copies.
"""

import torch

from horovod._arrays import library_result
from horovod._floor import constants

CODES = {
    getattr(torch, name): code for name, code in constants.DTYPES.items() if getattr(torch, name, None) is not None
}

_DENSE = "only dense tensors are"
_ADVICE = {torch.sparse_coo: f"{_DENSE}; sparse_allreduce_async sums sparse ones"}


class Work:
    """A contiguous CPU tensor for the library: the caller's own, or a copy of it."""

    __slots__ = ("tensor", "source", "described")

    def __init__(self, source, kind):
        if not isinstance(source, torch.Tensor):
            raise TypeError(f"{kind}: {type(source).__name__} is not a torch.Tensor")
        code = CODES.get(source.dtype)
        if code is None:
            known = ", ".join(str(dtype) for dtype in CODES)
            raise ValueError(f"{kind}: dtype {source.dtype} is not one of {known}")
        if source.layout is not torch.strided:
            advice = _ADVICE.get(source.layout, _DENSE)
            raise NotImplementedError(f"{kind}: layout {source.layout} is not supported, {advice}")
        self.source = source
        usable = source.is_cpu and source.is_contiguous() and not source.is_neg()
        self.tensor = tensor = source if usable else _host_copy(source, kind)
        self.described = (tensor.data_ptr(), code, tuple(tensor.shape))

    @property
    def copied(self):
        """Whether the library works on a copy."""
        return self.tensor is not self.source

    def fresh(self, shape):
        """An empty tensor for a result, like this one but for its shape."""
        return torch.empty(shape, dtype=self.tensor.dtype)

    def check_writable(self, kind):
        """ValueError, before anything has started, if elements of the caller's tensor share memory."""
        source = self.source
        if self.copied and any(stride == 0 and size > 1 for size, stride in zip(source.shape, source.stride())):
            shape = tuple(source.shape)
            raise ValueError(f"{kind}: elements of the tensor of shape {shape} share memory (expanded tensor)")

    def write_back(self):
        """After an in-place operation on a copy: its values go to the caller's tensor."""
        if self.tensor is not self.source:
            with torch.no_grad():
                self.source.copy_(self.tensor)


def _host_copy(source, kind):
    source = source.detach()
    if source.is_cpu:
        return source.resolve_neg().contiguous()
    if source.is_meta:
        raise ValueError(f"{kind}: a tensor on device meta has no data")
    host = torch.empty(source.shape, dtype=source.dtype, pin_memory=source.is_cuda)
    return host.copy_(source)


def on_device_of(result, source):
    """The result of an operation on the device of its input."""
    return result if source.is_cpu else result.to(source.device)


def library_tensor(operation, index, source):
    """A result that the library allocated, as a tensor; on the CPU without a copy."""
    result = torch.from_numpy(library_result(operation, index, bits=True))
    if source.dtype is torch.bfloat16:
        result = result.view(torch.bfloat16)
    return on_device_of(result, source)
