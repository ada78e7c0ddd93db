# SPDX-License-Identifier: Apache-2.0
"""Tensors as the native layer wants them: address, dtype number, shape, and for those on CUDA devices their device and stream.

The library works on CPU memory and, in the order of the stream, on that of CUDA devices. A tensor on another device is copied to
host memory before the operation and the result is copied back after it: that works with every device PyTorch has, at the
price of two copies.
"""

import ctypes
import functools
import mmap
import reprlib

import numpy
import torch

from horovod._arrays import library_result
from horovod._native import constants
from horovod.torch import _cuda

CODES = {
    getattr(torch, name): code for name, code in constants.DTYPES.items() if getattr(torch, name, None) is not None
}

# Two numbers in a byte: nothing else has it, and it is only moved.
if hasattr(torch, "float4_e2m1fn_x2"):
    CODES[torch.float4_e2m1fn_x2] = constants.DTYPES["bytes"]

# As in core/engine/operation.cc.
_WORTH_HUGE_PAGES = 32 << 20

_DENSE = "only dense tensors are"
_ADVICE = {torch.sparse_coo: f"{_DENSE}; sparse_allreduce_async sums sparse ones"}


def check_tensor(value, kind):
    """TypeError, which says what to pass instead, for what is no tensor."""
    if isinstance(value, torch.Tensor):
        return
    advice = ""
    if isinstance(value, numpy.ndarray):
        advice = "; pass torch.from_numpy(array)"
    elif isinstance(value, (int, float, complex, list, tuple)):
        advice = f"; pass torch.tensor({reprlib.repr(value)})"
    raise TypeError(f"{kind}: {type(value).__name__} is not a tensor{advice}")


class Work:
    """A contiguous tensor for the library: the caller's own, or a copy of it.

    ``stream``: the one in whose order the library works on it; None on the CPU.
    """

    __slots__ = ("tensor", "source", "described", "stream")

    def __init__(self, source, kind):
        check_tensor(source, kind)
        code = CODES.get(source.dtype)
        if code is None:
            known = ", ".join(str(dtype) for dtype in CODES)
            advice = "; tensor.view(torch.uint8) can be moved" if source.element_size() == 1 and not source.is_quantized else ""
            raise ValueError(f"{kind}: dtype {source.dtype} is not one of {known}{advice}")
        if source.layout is not torch.strided:
            advice = _ADVICE.get(source.layout, _DENSE)
            raise NotImplementedError(f"{kind}: layout {source.layout} is not supported, {advice}")
        self.source = source
        # A conjugate or a negative that nobody has computed yet is only a mark on memory that says otherwise.
        plain = source.is_contiguous() and not source.is_neg() and not source.is_conj()
        self.stream = None
        if source.is_cpu and plain:
            self.tensor = source
        elif not source.is_cpu and _cuda.takes(source):
            self._on_device(code, plain)
            return
        else:
            self.tensor = _host_copy(source, kind)
        self.described = (self.tensor.data_ptr(), code, tuple(self.tensor.shape))

    def _on_device(self, code, plain):
        source = self.source
        self.stream = _cuda.stream(source)
        self.tensor = tensor = source if plain else source.detach().resolve_conj().resolve_neg().contiguous()
        place = (_cuda.index(tensor), self.stream.cuda_stream)
        self.described = (tensor.data_ptr(), code, tuple(tensor.shape), *place)

    @property
    def copied(self):
        """Whether the library works on a copy."""
        return self.tensor is not self.source

    def fresh(self, shape):
        """An empty tensor for a result, like this one but for its shape."""
        return empty(shape, self.tensor.dtype) if self.stream is None else _cuda.empty(shape, self.tensor)

    def check_writable(self, kind):
        """ValueError, before anything has started, if elements of the caller's tensor share memory."""
        source = self.source
        if self.copied and any(stride == 0 and size > 1 for size, stride in zip(source.shape, source.stride())):
            shape = tuple(source.shape)
            raise ValueError(f"{kind}: elements of the tensor of shape {shape} share memory (expanded tensor)")

    def write_back(self):
        """After an in-place operation: the caller's tensor has the values, in the order of the current stream."""
        if self.stream is not None:
            _cuda.follow(self.stream, self.tensor)
        if self.tensor is not self.source:
            with torch.no_grad():
                self.source.copy_(self.tensor)


def empty(shape, dtype):
    """An uninitialised tensor on the CPU."""
    tensor = torch.empty(shape, dtype=dtype)
    if tensor.nbytes >= _WORTH_HUGE_PAGES:
        begin = tensor.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
        # Refused, small pages will do.
        _madvise()(begin, tensor.data_ptr() + tensor.nbytes - begin, mmap.MADV_HUGEPAGE)
    return tensor


@functools.lru_cache(maxsize=None)
def _madvise():
    function = ctypes.CDLL(None).madvise
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function


def _host_copy(source, kind):
    source = source.detach()
    if source.is_cpu:
        return source.resolve_conj().resolve_neg().contiguous()
    if source.is_meta:
        raise ValueError(f"{kind}: a tensor on device meta has no data")
    return torch.empty(source.shape, dtype=source.dtype, pin_memory=source.is_cuda).copy_(source)  # is_cuda: of ROCm


def on_device_of(result, work):
    """The result of an operation on the device of its input, in the order of the current stream."""
    if work.stream is not None:
        _cuda.follow(work.stream, result)
        return result
    return result if work.source.is_cpu else result.to(work.source.device)


def library_tensor(operation, index, work):
    """A result that the library allocated, as a tensor; without a copy where the library has worked on the device itself."""
    if work.stream is None:
        result = torch.from_numpy(library_result(operation, index, bits=True))
    else:
        result = _cuda.library_result(operation, index, work.stream, work.tensor)
    if result.dtype is not work.source.dtype:  # what NumPy does not have
        result = result.view(work.source.dtype)
    return on_device_of(result, work)


def library_tensors(operation, works):
    """All results of a grouped operation that the library allocated; see library_tensor."""
    return tuple(library_tensor(operation, index, work) for index, work in enumerate(works))
