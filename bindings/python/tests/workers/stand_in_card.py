# SPDX-License-Identifier: Apache-2.0
"""Arrays on the device of a stand-in for CUDA's driver (tests/unit/device), which must be the libcuda.so.1 that loads."""

import ctypes
import time

import numpy as np

_driver = ctypes.CDLL("libcuda.so.1")
_NOT_READY = 600


def _call(name, *arguments):
    error = getattr(_driver, name)(*arguments)
    assert error == 0, (name, error)


class Card:
    """Device 0, with a stream that is not the default one."""

    def __init__(self):
        context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuInit", 0)
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        _call("cuCtxPushCurrent_v2", context)
        _call("cuStreamCreateWithPriority", ctypes.byref(self.stream), 0, 0)

    def allocate(self, size):
        memory = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(max(size, 1)))
        return memory.value

    def write(self, memory, values):
        """Queues a copy to the device on the stream; it may happen later."""
        if values.nbytes:
            ctypes.memmove(staged := self._locked(values.nbytes), values.ctypes.data, values.nbytes)
            _call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(memory), staged, ctypes.c_size_t(values.nbytes), self.stream)

    def read(self, memory, shape, dtype, stream):
        """What is there when the work is done that the stream has been given so far."""
        values = np.empty(shape, dtype)
        if values.nbytes:
            staged = self._locked(values.nbytes)
            _call("cuMemcpyDtoHAsync_v2", staged, ctypes.c_uint64(memory), ctypes.c_size_t(values.nbytes), ctypes.c_void_p(stream))
            while _driver.cuStreamQuery(ctypes.c_void_p(stream)) == _NOT_READY:
                time.sleep(0.0001)
            ctypes.memmove(values.ctypes.data, staged, values.nbytes)
        return values

    @staticmethod
    def _locked(size):
        memory = ctypes.c_void_p()
        _call("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(size), 1)
        return memory


class Array:
    """What CuPy, Numba and PyTorch offer of an array on a device."""

    def __init__(self, card, values, **interface):
        self.card, values = card, np.array(values, order="C")
        memory = card.allocate(values.nbytes)
        card.write(memory, values)
        self.__cuda_array_interface__ = {
            "version": 3, "shape": values.shape, "typestr": values.dtype.str, "strides": None, "stream": card.stream.value,
            "data": (memory, False), **interface,
        }

    def __dlpack_device__(self):
        return 2, 0

    @property
    def host(self):
        return host(self.card, self)


def host(card, array):
    """The values of anything with the interface, on the host."""
    interface = array.__cuda_array_interface__
    return card.read(interface["data"][0], interface["shape"], np.dtype(interface["typestr"]), interface["stream"])
