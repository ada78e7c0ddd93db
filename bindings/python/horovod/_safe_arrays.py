# SPDX-License-Identifier: Apache-2.0
"""Arrays of NumPy and tensors of PyTorch, for :mod:`horovod._safe_codec`: taken apart into plain values and memory, and
made again from them. Neither package is imported before one of its arrays is seen."""

import math
import re
import sys

# Kind and size of what NumPy itself knows and is plain memory; the unit belongs to times.
_DTYPE = re.compile(r"[<>|=][biufcSUmM][1-9][0-9]{0,8}(\[[0-9]{0,9}[A-Za-z]{1,2}\])?")
_ML_DTYPES = ("bfloat16",)
_TORCH_DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex32 complex64 "
    "complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz").split()
_MOST_DIMENSIONS = 32  # of NumPy before 2.0
_LARGEST = 1 << 62


def brief(value):
    """One short line for a value that nobody has checked; what has parts or a repr of its own is named by its class."""
    if type(value) in (str, bytes):
        return repr(value[:40])
    short = type(value) is int and value.bit_length() <= 64
    return repr(value) if short or value is None or type(value) in (bool, float) else f"<{type(value).__name__}>"


def take(value):
    """(``array``, ``scalar`` or ``tensor``; its plain parts; its memory). TypeError says what else the value is."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    kind = type(value)
    if numpy is not None and kind is numpy.ndarray:
        _check_dimensions(value.ndim)
        array = value if value.flags.c_contiguous else value.copy(order="C")
        return "array", [_name(value.dtype), *value.shape], _memory(numpy, array)
    if numpy is not None and isinstance(value, numpy.generic):
        array = numpy.array(value)
        if array.dtype.type is not kind:
            raise TypeError(_called(kind))
        return "scalar", [_name(array.dtype)], array.tobytes()
    if torch is not None and kind is torch.Tensor:
        return _take_tensor(torch, value)
    raise TypeError(_called(kind))


def _called(kind):
    """A class as errors name it, with its module where the name alone could be anything."""
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _name(dtype):
    """How a dtype is written; TypeError for those whose memory is not all there is to them."""
    if dtype.type.__module__ == "ml_dtypes" and dtype.name in _ML_DTYPES:
        return dtype.name
    if dtype.hasobject or not _DTYPE.fullmatch(dtype.str):
        raise TypeError(f"an array of dtype {' '.join(str(dtype).split()):.60}")
    return dtype.str


def _check_dimensions(count):
    if count > _MOST_DIMENSIONS:
        raise TypeError(f"an array of {count} dimensions")


def _memory(numpy, array):
    return memoryview(array.reshape(-1).view(numpy.uint8)) if array.nbytes else b""


def _take_tensor(torch, value):
    name = str(value.dtype).rpartition(".")[2]
    if value.layout != torch.strided or value.is_quantized or name not in _TORCH_DTYPES:
        raise TypeError(f"a tensor of dtype {name} and layout {value.layout}")
    if value.device.type != "cpu":
        raise TypeError(f"a tensor on {value.device}")
    _check_dimensions(value.dim())
    flat = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    memory = memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else b""
    return "tensor", [name, value.requires_grad, *value.shape], memory


def make_array(parts, take_memory):
    """An array on memory of its own."""
    import numpy

    name, *shape = parts
    dtype = _dtype(numpy, name)
    memory = _own(numpy, take_memory(_size(shape, dtype.itemsize)))
    _check_contents(numpy, dtype, memory)
    return numpy.ndarray(tuple(shape), dtype, buffer=memory)


def make_scalar(parts, take_memory):
    """A NumPy scalar."""
    (name,) = parts
    return make_array([name], take_memory)[()]


def make_tensor(parts, take_memory):
    """A tensor on memory of its own."""
    import numpy
    import torch

    name, requires_grad, *shape = parts
    dtype = getattr(torch, name, None) if name in _TORCH_DTYPES else None
    if dtype is None or type(requires_grad) is not bool:
        raise ValueError(f"no tensor of dtype {brief(name)} here")
    itemsize = torch.empty((), dtype=dtype).element_size()
    memory = _own(numpy, take_memory(_size(shape, itemsize)))
    if name == "bool":
        _check_contents(numpy, numpy.dtype(bool), memory)
    try:
        # PyTorch views nothing of empty memory.
        tensor = torch.from_numpy(memory).view(dtype).reshape(shape) if len(memory) else torch.empty(shape, dtype=dtype)
        return tensor.requires_grad_() if requires_grad else tensor
    except RuntimeError as error:  # a shape with a 0 and a product beyond 64 bits, gradients of integers
        raise ValueError(str(error).partition("\n")[0]) from None


def _dtype(numpy, name):
    if name in _ML_DTYPES:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))
    if type(name) is not str or not _DTYPE.fullmatch(name):
        raise ValueError(f"no dtype {brief(name)}")
    return numpy.dtype(name)


def _size(shape, itemsize):
    """Bytes of an array. The shape comes from outside: also where it holds no element it must be one that can exist."""
    _check_dimensions(len(shape))
    for extent in shape:
        if type(extent) is not int or not 0 <= extent < _LARGEST:
            raise ValueError(f"no shape with {brief(extent)}")
    if math.prod(extent for extent in shape if extent) * itemsize >= _LARGEST:
        raise ValueError(f"shape {shape} is too large")
    return math.prod(shape) * itemsize


def _own(numpy, memory):
    """A copy that can be written, as bytes in an array, because NumPy aligns its memory for every dtype."""
    copy = numpy.empty(len(memory), numpy.uint8)
    copy[:] = memory
    return copy


def _check_contents(numpy, dtype, memory):
    """Not every byte is a truth value and not every number a character; NumPy would believe them."""
    if not len(memory):
        return
    if dtype.kind == "b" and memory.max() > 1:
        raise ValueError("a truth value that is neither 0 nor 1")
    if dtype.kind == "U" and memory.view(numpy.dtype("u4").newbyteorder(dtype.byteorder)).max() > sys.maxunicode:
        raise ValueError("a character beyond Unicode")
