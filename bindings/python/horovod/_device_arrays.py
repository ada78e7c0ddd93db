# SPDX-License-Identifier: Apache-2.0
"""Arrays on a CUDA device, of CuPy, Numba and everything else that has ``__cuda_array_interface__``.

Nothing here imports those packages before the caller has, and nothing waits for the device: the library takes the array in the
order of its stream, and the stream takes the results in its order.
"""

import ctypes
import sys

import numpy as np

from horovod._arrays import Input, dtype_code, numpy_dtype
from horovod._floor import constants

_LEGACY_STREAM, _STREAM_PER_THREAD = 1, 2  # what the interface calls them
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_BFLOAT16 = constants.DTYPES["bfloat16"]


def taken(value, kind):
    """The input for an array, wherever it is."""
    if type(value) is not np.ndarray and hasattr(value, "__cuda_array_interface__"):
        return DeviceInput(value, kind)
    return Input(value, kind)


class DeviceInput:
    """An array on a CUDA device to be sent; as :class:`horovod._arrays.Input`, but always the caller's memory."""

    __slots__ = ("array", "code", "described", "_read_only")
    scalar = False

    def __init__(self, value, kind):
        interface = value.__cuda_array_interface__
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        self.array, self.code = value, dtype_code(dtype)
        if interface.get("mask") is not None:
            raise ValueError(f"{kind}: an array with a mask is not supported")
        if not _is_row_major(shape, interface.get("strides"), dtype.itemsize):
            raise ValueError(f"{kind}: the array on the device is not in row-major order; ascontiguousarray makes it so")
        address, self._read_only = interface["data"]
        self.described = (address, self.code, shape, _device_of(value, address), _stream_of(interface, kind))

    def fresh(self, shape=None):
        """An array for a result of the same dtype from the same package; None if the library shall allocate it."""
        empty, _view = _package_of(self.array)
        if empty is None:
            return None
        _address, _code, own_shape, device, _stream = self.described
        return DeviceInput(empty(own_shape if shape is None else shape, numpy_dtype(self.code), device), "result")

    def library_result(self, operation, index):
        """A result that the library allocated, as the caller's package has it, else as a :class:`DeviceArray`."""
        _empty, view = _package_of(self.array)
        result = DeviceArray(operation, index, self.described[4])
        return result if view is None else view(result)

    def write_back(self):
        """Nothing: there is no copy."""

    def check_writable(self, kind):
        """In-place operations need memory of the caller that can be written."""
        if self._read_only:
            raise ValueError(f"{kind}_: the array is read-only")


class DeviceArray:
    """A result on a CUDA device; its memory goes with it. ``cupy.asarray``, ``torch.as_tensor`` and others take it.

    ``bits``: bfloat16, of which the interface knows nothing, as int16.
    """

    def __init__(self, operation, index, stream, bits=False):
        address, code, self.shape, self.device_id = operation.output(index)
        self.dtype, self._operation = np.dtype(np.int16) if bits and code == _BFLOAT16 else numpy_dtype(code), operation
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (address if all(self.shape) else 0, False),
            "strides": None,
            "stream": stream or _LEGACY_STREAM,
        }

    def __repr__(self):
        return f"<DeviceArray of shape {self.shape}, {self.dtype}, on CUDA device {self.device_id}>"


def _is_row_major(shape, strides, itemsize):
    if strides is None or 0 in shape:
        return True
    expected = itemsize
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _stream_of(interface, kind):
    stream = interface.get("stream")
    if stream == _STREAM_PER_THREAD:
        raise ValueError(f"{kind}: the array is of the per-thread default stream, another one in every thread; use a stream")
    return 0 if stream in (None, _LEGACY_STREAM) else stream


def _device_of(value, address):
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[1])
    if not address:  # an empty array
        return 0
    device = ctypes.c_int(0)
    # Without a driver, or for memory that it does not know, submitting says what is wrong.
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    driver.cuPointerGetAttribute(ctypes.byref(device), _DEVICE_ORDINAL, ctypes.c_uint64(address))
    return device.value


def _package_of(array):
    """How the package of an array makes an empty one, and one on memory of the interface; None for packages not known."""
    package = type(array).__module__.partition(".")[0]
    if package == "cupy":
        return _empty_of_cupy, sys.modules["cupy"].asarray
    if package == "torch":
        return None, sys.modules["torch"].as_tensor
    if package == "numba":
        return None, sys.modules["numba"].cuda.as_cuda_array
    return None, None


def _empty_of_cupy(shape, dtype, device):
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(device):
        return cupy.empty(shape, dtype)
