# SPDX-License-Identifier: Apache-2.0
"""Arrays on a CUDA device: of CuPy, Numba, PyTorch, JAX, everything else with ``__cuda_array_interface__`` or with DLPack.

Nothing here imports those packages before the caller has, and nothing waits for the device: the library takes the array in the
order of its stream, and the stream takes the results in its order.
"""

import sys

import numpy as np

from horovod import _dlpack, _streams
from horovod._arrays import Input, OnCudaDevice, bits_dtype, dtype_code, numpy_dtype
from horovod._native import constants

_NAMES = {code: name for name, code in constants.DTYPES.items()}
_NOT_ROW_MAJOR = "the array on the device is not in row-major order; ascontiguousarray makes it so"


def taken(value, kind):
    """The input for an array, wherever it is."""
    if type(value) is np.ndarray:
        return Input(value, kind)
    interface = _interface_of(value)
    if interface is not None and not _dlpack_is_better(value, interface):
        return DeviceInput(value, kind, interface)
    try:
        return Input(value, kind)
    except OnCudaDevice:
        pass
    try:
        return DlpackInput(value, kind, interface)
    except (BufferError, RuntimeError, TypeError):  # as PyTorch's for bool once, for another device today
        if interface is None:
            raise
    return DeviceInput(value, kind, interface)


def _interface_of(value):
    """``__cuda_array_interface__``, or None for what has none, or has DLPack and a dtype that the interface does not know."""
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except Exception:  # JAX's way to say that it has none of a bfloat16
        if hasattr(value, "__dlpack__"):
            return None
        raise
    if interface is not None and interface["typestr"][1:2] == "V" and hasattr(value, "__dlpack__"):
        return None
    return interface


def _dlpack_is_better(value, interface):
    """Whether an array with the interface is to be borrowed: it names no stream, and DLPack's owner makes ours wait for his."""
    if interface.get("stream") is not None or interface.get("mask") is not None:  # DLPack knows no mask
        return False
    return hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")


class DeviceInput:
    """An array on a CUDA device to be sent; as :class:`horovod._arrays.Input`, but always the caller's memory."""

    __slots__ = ("array", "code", "described", "_read_only")
    scalar = False

    def __init__(self, value, kind, interface):
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        self.array, self.code = value, dtype_code(dtype)
        if interface.get("mask") is not None:
            raise ValueError(f"{kind}: an array with a mask is not supported")
        if not _is_row_major(shape, interface.get("strides"), dtype.itemsize):
            raise ValueError(f"{kind}: {_NOT_ROW_MAJOR}")
        address, self._read_only = interface["data"]
        stream = interface.get("stream")
        stream = _checked(_stream_of_package(value) if stream is None else stream, kind)
        self.described = (address, self.code, shape, _device_of(value, address), stream)

    def fresh(self, shape=None):
        """An array for a result of the same dtype from the same package; None if the library shall allocate it."""
        empty, _view = _package_of(self.array)
        if empty is None:
            return None
        _address, _code, own_shape, device, _stream = self.described
        made = empty(own_shape if shape is None else shape, numpy_dtype(self.code), device)
        return DeviceInput(made, "result", made.__cuda_array_interface__)

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


class DlpackInput(DeviceInput):
    """An array on a CUDA device that its owner lends by DLPack, until the device is done with it."""

    __slots__ = ("_borrowed", "_stream_is_ours")

    def __init__(self, value, kind, interface=None):
        self.array, self._borrowed = value, None
        _streams.collect()
        stream = _stream_of_package(value)
        self._stream_is_ours = stream is None
        stream = _checked(stream, kind)
        # A gradient has no history, on the CPU neither.
        borrowed = _dlpack.borrow(value.detach() if _package_name(value) == "torch" else value, stream or _streams.LEGACY)
        try:
            self.described = (*_described(borrowed, kind), stream)
        except BaseException:
            borrowed.release()
            raise
        self.code, self._borrowed = self.described[1], borrowed
        # DLPack of before 1.0 can not say it.
        self._read_only = borrowed.read_only or (interface is not None and bool(interface["data"][1]))

    def __del__(self, ending=sys.is_finalizing):
        # The owner may use the memory anew in the order of a stream of its own, which knows nothing of ours. One that works in the
        # order of the stream it named needs no such care, and its stream may be gone by now.
        if not ending() and self._borrowed is not None and self._stream_is_ours:
            _streams.afterwards(self.described[4], self.described[3], self._borrowed.release)

    def fresh(self, shape=None):
        """None: the library shall allocate results."""

    def library_result(self, operation, index):
        """A result that the library allocated, as the caller's package has it, else as a :class:`DeviceArray`."""
        result, package = DeviceArray(operation, index, self.described[4]), _package_name(self.array)
        if package in ("cupy", "torch"):
            return sys.modules[package].from_dlpack(result)
        _empty, view = _package_of(self.array)
        return view(result) if view is not None and hasattr(result, "__cuda_array_interface__") else result

    def check_writable(self, kind):
        """In-place operations need memory of the caller that can be written."""
        if self._read_only or _package_name(self.array) in ("jax", "jaxlib"):  # whose arrays never change
            raise ValueError(f"{kind}_: the array is read-only")
        if self._borrowed.is_copy:
            raise ValueError(f"{kind}_: DLPack gives a copy of the array instead of its memory")


class DeviceArray:
    """A result on a CUDA device; its memory goes with it. ``cupy.asarray``, ``torch.from_dlpack`` and others take it.

    It has DLPack, and ``__cuda_array_interface__`` unless it is of a dtype like bfloat16, of which that knows nothing; with
    ``bits`` it is of integers then.
    """

    def __init__(self, operation, index, stream, bits=False):
        self._address, code, self.shape, self.device_id = operation.output(index)
        self._code = constants.DTYPES[bits_dtype(code).name] if bits else code
        self._operation, self._stream = operation, stream or 0
        if not all(self.shape):
            self._address = 0
        if bits or bits_dtype(code).name == constants.DTYPE_NAMES[code]:
            self.__cuda_array_interface__ = {
                "version": 3,
                "shape": self.shape,
                "typestr": self.dtype.str,
                "data": (self._address, False),
                "strides": None,
                "stream": stream or _streams.LEGACY,
            }

    @property
    def dtype(self):
        """NumPy's dtype of the elements; TypeError for bfloat16 and its like without the package ml_dtypes."""
        return numpy_dtype(self._code)

    def __dlpack_device__(self):
        """DLPack's number for CUDA, and that of the device in this process."""
        return _dlpack.CUDA, self.device_id

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule for the same memory, which is kept until the borrower gives it back.

        ``stream`` (a CUDA stream as a number; None and 1: the legacy default one, 2: the thread's own, -1: none) waits for the
        result, the host does not. BufferError for another device, a copy, or if the driver can not make the stream wait.
        """
        if copy:
            raise BufferError("DLPack: a result of an operation is lent as it is, not copied")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"DLPack: the result is on CUDA device {self.device_id} and is not moved from there")
        if stream == 0:
            raise ValueError("DLPack: stream 0 is ambiguous; 1 is the legacy default stream, 2 that of the thread")
        other = 0 if stream in (None, _streams.LEGACY) else stream
        if other not in (-1, self._stream):
            try:
                _streams.follow(self._stream, other, self.device_id)
            except OSError as error:
                raise BufferError(f"DLPack: stream {stream} can not wait for the result: {error}") from None
        versioned = max_version is not None and max_version[0] >= 1
        return _dlpack.lend(self, self._address, self.__dlpack_device__(), _NAMES[self._code], self.shape, versioned)

    def __repr__(self):
        return f"<DeviceArray of shape {self.shape}, {_NAMES[self._code]}, on CUDA device {self.device_id}>"


def _is_row_major(shape, strides, itemsize):
    if strides is None or 0 in shape:
        return True
    expected = itemsize
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _checked(stream, kind):
    """The stream as the library wants it, from one of the interfaces' numbers for it."""
    if stream == _streams.PER_THREAD:
        raise ValueError(f"{kind}: the array is of the per-thread default stream, another one in every thread; use a stream")
    return 0 if stream in (None, _streams.LEGACY) else stream


def _device_of(value, address):
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[1])
    # Without a driver, or for memory that it does not know, submitting says what is wrong. An empty array has no memory.
    return _streams.device_of(address) if address else 0


def _described(borrowed, kind):
    """(address, dtype number, shape, device) of what is borrowed."""
    code = constants.DTYPES.get(borrowed.dtype)
    if code is None:
        raise TypeError(f"{kind}: dtype {borrowed.dtype} is not one of {', '.join(constants.DTYPES)}")
    if not _is_row_major(borrowed.shape, borrowed.strides, 1):
        raise ValueError(f"{kind}: {_NOT_ROW_MAJOR}")
    where, device = borrowed.device
    if where == _dlpack.CUDA_MANAGED:  # which has no number of a device in DLPack
        device = _streams.device_of(borrowed.address)
    elif where != _dlpack.CUDA:
        raise TypeError(f"{kind}: the array says it is on a CUDA device, and its memory is on DLPack device type {where}")
    return borrowed.address, code, borrowed.shape, device


def _package_name(array):
    return type(array).__module__.partition(".")[0]


def _package_of(array):
    """How the package of an array makes an empty one, and one on memory of the interface; None for packages not known."""
    package = _package_name(array)
    if package == "cupy":
        return _empty_of_cupy, sys.modules["cupy"].asarray
    if package == "torch":
        return None, sys.modules["torch"].as_tensor
    if package == "numba":
        return None, sys.modules["numba"].cuda.as_cuda_array
    return None, None


def _stream_of_package(array):
    """The stream in whose order the owner of an array works, where it is known; else None."""
    if isinstance(array, DeviceArray):
        return array._stream
    package = _package_name(array)
    if package == "torch":
        return sys.modules["torch"].cuda.current_stream(array.device).cuda_stream
    if package == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(int(array.__dlpack_device__()[1])):
            return cupy.cuda.get_current_stream().ptr
    return None


def _empty_of_cupy(shape, dtype, device):
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(device):
        return cupy.empty(shape, dtype)
