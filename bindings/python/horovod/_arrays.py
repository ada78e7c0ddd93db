# SPDX-License-Identifier: Apache-2.0
"""What the caller passes, as NumPy arrays on the same memory, and results of the library as NumPy arrays."""

import numbers
import sys

import numpy as np

from horovod import _dlpack
from horovod._floor import constants, floor

_CODES = {np.dtype(name): code for name, code in constants.DTYPES.items() if name != "bfloat16"}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_BFLOAT16 = constants.DTYPES["bfloat16"]


def dtype_code(dtype):
    """The library's number for a NumPy dtype."""
    code = _CODES.get(dtype)
    if code is None:
        if dtype.name != "bfloat16" or dtype.itemsize != 2:
            known = ", ".join(constants.DTYPES)
            raise TypeError(f"array: dtype {dtype.str if dtype.byteorder == '>' else dtype} is not one of {known}")
        _CODES[dtype], code = _BFLOAT16, _BFLOAT16
        _DTYPES[_BFLOAT16] = dtype
    return code


def numpy_dtype(code):
    """The NumPy dtype for the library's number."""
    dtype = _DTYPES.get(code)
    if dtype is None:
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError("bfloat16: a NumPy array of it needs the package ml_dtypes") from None
        dtype = _DTYPES[code] = np.dtype(ml_dtypes.bfloat16)
    return dtype


# Those that NumPy itself numbers.
NUMPYS_OWN = dict(_CODES)
_describe = None


def describe(value):
    """(address, dtype number, shape) of an array that the library can use as it is, else None."""
    global _describe
    if _describe is None:
        _describe = floor().make_describe(NUMPYS_OWN)
    return _describe(value)


class Input:
    """An array to be sent: the caller's memory, or a contiguous copy of it."""

    __slots__ = ("array", "code", "described", "scalar", "source")

    def __init__(self, value, kind):
        described = describe(value)
        if described is not None:
            self.array = self.source = value
            self.described, self.code, self.scalar = described, described[1], False
            return
        if type(value) is np.ndarray:
            array, self.code, self.scalar = value, dtype_code(value.dtype), False
        else:
            array, self.code, self.scalar = _imported(value, kind)
        self.source = array
        # Row-major order is all the library knows. ascontiguousarray would turn a scalar into a vector.
        self.array = array = array if array.flags.c_contiguous else array.copy(order="C")
        self.described = (array.__array_interface__["data"][0], self.code, array.shape)

    def fresh(self, shape=None):
        """An array for a result of the same dtype, and of the same shape if none is given."""
        return Input(np.empty(self.array.shape if shape is None else shape, numpy_dtype(self.code)), "result")

    def library_result(self, operation, index):
        """A result that the library allocated."""
        return library_result(operation, index)

    def write_back(self):
        """After an in-place operation: the copy's values, if there was a copy, go to the caller's memory."""
        if self.source is not self.array:
            self.source[...] = self.array

    def check_writable(self, kind):
        """In-place operations need memory of the caller that can be written."""
        if self.scalar:
            raise TypeError(f"{kind}_: a number cannot be changed in place")
        if not self.source.flags.writeable:
            raise ValueError(f"{kind}_: the array is read-only")


def _imported(value, kind):
    """(array, dtype number, is it a plain number) for everything that is no ndarray."""
    if isinstance(value, np.ndarray):  # a subclass, such as np.memmap
        array = np.asarray(value)
        return array, dtype_code(array.dtype), False
    if isinstance(value, (np.generic, numbers.Number)):
        array = np.asarray(value)
        return array, dtype_code(array.dtype), True
    if hasattr(value, "__dlpack__"):
        return (*_from_dlpack(value, kind), False)
    if hasattr(value, "__array_interface__"):
        array = np.asarray(value)
        return array, dtype_code(array.dtype), False
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(
            f"{kind}: {type(value).__name__} is not a NumPy array, a number, nor an object with __dlpack__, "
            "__array_interface__ or the buffer protocol"
        ) from None
    array = np.asarray(view)
    return array, dtype_code(array.dtype), False


class OnCudaDevice(TypeError):
    """The array is on a CUDA device, where a function takes arrays of the CPU."""


def _from_dlpack(value, kind):
    device = int(value.__dlpack_device__()[0])
    if device in (_dlpack.CUDA, _dlpack.CUDA_MANAGED):
        raise OnCudaDevice(f"{kind}: the array is on a CUDA device")
    if device not in _dlpack.DEVICE_NAMES:
        known = ", ".join(f"{number} ({name})" for number, name in _dlpack.DEVICE_NAMES.items())
        raise TypeError(f"{kind}: the array is on DLPack device type {device}; supported are {known}")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach()
        if value.dtype == torch.bfloat16:  # NumPy has no such type; its bits travel as they are
            return value.view(torch.int16).numpy(), _BFLOAT16
    array = np.from_dlpack(value)
    return array, dtype_code(array.dtype)


class _LibraryMemory:
    """Memory of a result that the library allocated; it lives as long as this object, which the array refers to."""

    __slots__ = ("__array_interface__", "operation")

    def __init__(self, operation, address, dtype, shape):
        self.operation = operation
        self.__array_interface__ = {"version": 3, "data": (address, False), "typestr": dtype.str, "shape": shape}


def library_result(operation, index, bits=False):
    """A result that the library allocated, as an array without a copy. ``bits``: bfloat16 stays int16."""
    address, code, shape = operation.output(index)
    if code == _BFLOAT16:
        array = _on_memory(operation, address, np.dtype(np.int16), shape)
        return array if bits else array.view(numpy_dtype(code))
    return _on_memory(operation, address, _DTYPES[code], shape)


def _on_memory(operation, address, dtype, shape):
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(_LibraryMemory(operation, address, dtype, shape))
