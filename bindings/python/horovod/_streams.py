# SPDX-License-Identifier: Apache-2.0
"""Order between streams of a CUDA device, by events of its driver. Nothing here waits on the host.

Streams are the driver's handles as numbers: 0 is the legacy default stream, 2 the calling thread's own default stream.
"""

import collections
import contextlib
import ctypes
import functools

LEGACY, PER_THREAD = 1, 2  # what the interfaces of arrays call them
_NOT_READY = 600
_WITHOUT_TIMING = 2
_CAPTURE_RELAXED = 2
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL

# Events, and what is to be done when they are reached.
_waiting = collections.deque()


@functools.lru_cache(maxsize=None)
def _driver():
    return ctypes.CDLL("libcuda.so.1")


def _call(name, *arguments):
    error = getattr(_driver(), name)(*arguments)
    if error:
        raise OSError(f"{name}: CUDA error {error}")


@functools.lru_cache(maxsize=None)
def _context(device):
    context = ctypes.c_void_p()
    _call("cuInit", 0)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    return context


@contextlib.contextmanager
def _on(device):
    """The device as that of this thread; a graph that another thread is capturing is not disturbed."""
    _call("cuCtxPushCurrent_v2", _context(device))
    mode = ctypes.c_int(_CAPTURE_RELAXED)
    _call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    try:
        yield
    finally:
        _call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def _recorded(stream):
    event = ctypes.c_void_p()
    _call("cuEventCreate", ctypes.byref(event), _WITHOUT_TIMING)
    try:
        _call("cuEventRecord", event, ctypes.c_void_p(stream))
    except OSError:
        _call("cuEventDestroy_v2", event)
        raise
    return event


def follow(stream, other, device):
    """What ``other`` is given from now on begins when the work is done that ``stream`` has been given so far. OSError."""
    with _on(device):
        event = _recorded(stream)
        try:
            _call("cuStreamWaitEvent", ctypes.c_void_p(other), event, 0)
        finally:
            _call("cuEventDestroy_v2", event)


def afterwards(stream, device, action):
    """``action()`` in a later :func:`collect`, when the work is done that the stream has been given so far.

    At once where the driver can not tell, which is so when the device is broken: nothing runs there any more.
    """
    try:
        with _on(device):
            event = _recorded(stream)
    except OSError:
        action()
        return
    _waiting.append((event, device, action))


def collect():
    """Does what has come to its time since; returns how much has not yet."""
    # Also called while objects are collected, at any point of a call of this: so no lock, and each one has its place in one call.
    for _ in range(len(_waiting)):
        try:
            event, device, action = _waiting.popleft()
        except IndexError:
            break
        if _reached(event, device):
            action()
        else:
            _waiting.append((event, device, action))
    return len(_waiting)


def _reached(event, device):
    try:
        with _on(device):
            if _driver().cuEventQuery(event) == _NOT_READY:
                return False
            _call("cuEventDestroy_v2", event)
    except OSError:
        pass
    return True


def device_of(address):
    """The number of the device that memory is of; 0 without a driver, and for memory that it does not know."""
    device = ctypes.c_int(0)
    try:
        _driver().cuPointerGetAttribute(ctypes.byref(device), _DEVICE_ORDINAL, ctypes.c_uint64(address))
    except OSError:
        return 0
    return device.value
