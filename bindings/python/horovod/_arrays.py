# SPDX-License-Identifier: Apache-2.0
"""What the caller passes, as NumPy arrays on the same memory, and results of the library as NumPy arrays."""

import numbers
import sys

import numpy as np

from horovod import _dlpack
from horovod._native import constants, native

_OF_NUMPY = (
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 complex128".split()
)
_CODES = {np.dtype(name): constants.DTYPES[name] for name in _OF_NUMPY}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_BYTES = constants.DTYPES["bytes"]
# Dtypes that NumPy does not have: the package ml_dtypes has them, and JAX and TensorFlow bring it along.
_OF_OTHERS = {name: code for name, code in constants.DTYPES.items() if name not in _OF_NUMPY and code != _BYTES}
# A byte string travels as bytes, along one more dimension.
_KNOWN = ", ".join([*(name for name in constants.DTYPES if name != "bytes"), "bytes of NumPy (S)"])
_ADVICE = {
    "U": "; numpy.char.encode makes bytes of text",
    "T": "; numpy.char.encode makes bytes of text",
    "M": '; send array.view("int64")',
    "m": '; send array.view("int64")',
    "O": "; broadcast_object and allgather_object send Python objects",
}


def dtype_code(dtype):
    """The library's number for a NumPy dtype."""
    code = _CODES.get(dtype)
    if code is None:
        code = _OF_OTHERS.get(dtype.name)
        if code is None or dtype.itemsize != constants.DTYPE_SIZES[code]:
            raise TypeError(_unknown(dtype))
        _CODES[dtype], _DTYPES[code] = code, dtype
    return code


def _unknown(dtype):
    if dtype.byteorder == ">":
        return f"array: dtype {dtype.str} has the bytes of a number in foreign order; send array.astype(array.dtype.newbyteorder())"
    advice = _ADVICE.get(dtype.kind, "")
    if dtype.kind == "V":  # also of other packages' dtypes
        advice = '; send array.view("uint8")' if dtype.names is None else "; send its fields one by one"
    return f"array: dtype {dtype} is not one of {_KNOWN}{advice}"


def numpy_dtype(code):
    """The NumPy dtype for the library's number."""
    dtype = _DTYPES.get(code)
    if dtype is None:
        name = constants.DTYPE_NAMES[code]
        try:
            import ml_dtypes

            dtype = _DTYPES[code] = np.dtype(getattr(ml_dtypes, name))
        except (ImportError, AttributeError):
            raise TypeError(f"{name}: a NumPy array of it needs the package ml_dtypes, in a version that has it") from None
    return dtype


# Dtypes that NumPy itself numbers.
NUMPYS_OWN = dict(_CODES)
_describe = None


def describe(value):
    """(address, dtype number, shape) of an array that the library can use as it is, else None."""
    global _describe
    if _describe is None:
        _describe = native().make_describe(NUMPYS_OWN)
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
            array, self.code, self.scalar = value, _code_of(value), False
        else:
            array, self.code, self.scalar = _imported(value, kind)
        self.source = array
        # Row-major order is all the library knows. ascontiguousarray would turn a scalar into a vector.
        self.array = array = array if array.flags.c_contiguous else array.copy(order="C")
        shape = (*(array.shape or (1,)), array.itemsize) if self.code == _BYTES else array.shape
        self.described = (array.__array_interface__["data"][0], self.code, shape)

    def fresh(self, shape=None):
        """An array for a result of the same dtype, and of the same shape if none is given."""
        dtype = self.array.dtype if self.code == _BYTES else numpy_dtype(self.code)
        return Input(np.empty(self.array.shape if shape is None else shape, dtype), "result")

    def library_result(self, operation, index):
        """A result that the library allocated."""
        result = library_result(operation, index)
        return result.view(self.array.dtype)[..., 0] if self.code == _BYTES else result

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


def _code_of(array):
    """The library's number for the elements of an array; those of ``_BYTES`` need one more dimension."""
    return _BYTES if array.dtype.kind == "S" and array.itemsize else dtype_code(array.dtype)


def _imported(value, kind):
    """(array, dtype number, is it a plain number) for everything that is no ndarray."""
    if isinstance(value, np.ndarray):  # a subclass, such as np.memmap
        array = np.asarray(value)
        return array, _code_of(array), False
    if isinstance(value, (np.generic, numbers.Number)):
        array = np.asarray(value)
        return array, _code_of(array), True
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
        value = value.detach().resolve_conj().resolve_neg()
        code = _OF_OTHERS.get(str(value.dtype).rpartition(".")[2])
        if code is not None:  # NumPy has no such type; its bits travel as they are
            return value.contiguous().view(getattr(torch, _BITS[value.element_size()])).numpy(), code
    array = np.from_dlpack(value)
    return array, dtype_code(array.dtype)


class _LibraryMemory:
    """Memory of a result that the library allocated; it lives as long as this object, which the array refers to."""

    __slots__ = ("__array_interface__", "operation")

    def __init__(self, operation, address, dtype, shape):
        self.operation = operation
        self.__array_interface__ = {"version": 3, "data": (address, False), "typestr": dtype.str, "shape": shape}


# Integers of NumPy for what it does not have itself, by the size.
_BITS = {1: "uint8", 2: "int16", 4: "int32"}


def bits_dtype(code):
    """NumPy's own dtype for the library's number, or an integer of the same size for what it does not have."""
    name = constants.DTYPE_NAMES[code]
    return np.dtype(name if name in _OF_NUMPY else _BITS[constants.DTYPE_SIZES[code]])


def library_result(operation, index, bits=False):
    """A result that the library allocated, as an array without a copy. ``bits``: what NumPy does not have stays integers."""
    address, code, shape = operation.output(index)
    array = _on_memory(operation, address, bits_dtype(code), shape)
    return array if bits or code == _BYTES or code not in _OF_OTHERS.values() else array.view(numpy_dtype(code))


def _on_memory(operation, address, dtype, shape):
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(_LibraryMemory(operation, address, dtype, shape))
