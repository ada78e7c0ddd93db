# SPDX-License-Identifier: Apache-2.0
"""DLPack as another library would do it: an array on the stand-in card that has nothing else, and a reader of capsules.

Written from DLPack's header, and not with the package's own code, so that the two check each other.
"""

import collections
import ctypes

import numpy as np
from stand_in_card import _call

KINDS = {"i": 0, "u": 1, "f": 2, "bfloat": 4, "c": 5, "b": 6}
_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
_python.PyCapsule_GetName.restype = ctypes.c_char_p
_python.PyCapsule_GetName.argtypes = (ctypes.py_object,)
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = ctypes.py_object, ctypes.c_char_p
_python.PyCapsule_SetName.argtypes = ctypes.py_object, ctypes.c_char_p
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Plain(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p), ("deleter", _DELETER), ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]  # fmt: skip


LAYOUTS = {"dltensor": Plain, "dltensor_versioned": Versioned}
made = {}  # by the address of its structure, everything of a capsule that its user may read
given_back = collections.Counter()  # by the same


@_DELETER
def _deleter(address):
    given_back[address] += 1


def wide(bits):
    """The values of bfloat16s as float32s."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrow(values):
    """float32s as the bits of bfloat16s; exact for small whole numbers."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16).reshape(np.shape(values))


class Lent:
    """An array on the card that has nothing but DLPack; `asked` are the streams it was asked for."""

    def __init__(self, card, values, bfloat=False, versioned=True, *, offset=0, says=(2, 0), **changes):
        self.card, self.bfloat, self.asked, self.says = card, bfloat, [], says
        self.versioned, self.changes, self.offset = versioned, changes, offset
        self.values = narrow(values) if bfloat else np.array(values, order="C")
        self.memory = card.allocate(offset + self.values.nbytes)
        card.write(self.memory + offset, self.values)

    def __dlpack_device__(self):
        return self.says

    def capsule(self, stream, name):
        self.asked.append(stream)
        self._make_wait(0 if stream in (None, 1) else stream)
        managed, values = LAYOUTS[name](), self.values
        numbers = (ctypes.c_int64 * (values.ndim + 1))(*values.shape)
        strides = self.changes.get("strides")
        strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        tensor = managed.tensor
        tensor.data, tensor.device, tensor.ndim = self.memory, self.changes.get("device", self.says), values.ndim
        tensor.code = self.changes.get("code", KINDS["bfloat" if self.bfloat else values.dtype.kind])
        tensor.bits, tensor.lanes = 8 * values.itemsize, self.changes.get("lanes", 1)
        tensor.shape, tensor.byte_offset = numbers, self.offset
        tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)) if strides else None
        managed.deleter = _deleter
        if name == "dltensor_versioned":
            managed.version, managed.flags = self.changes.get("version", (1, 1)), self.changes.get("flags", 0)
        address, c_name = ctypes.addressof(managed), ctypes.c_char_p(name.encode())
        made[address] = managed, numbers, strides, c_name
        return _python.PyCapsule_New(address, c_name, None)

    def __dlpack__(self, **options):
        if not self.versioned:
            if set(options) - {"stream"}:
                raise TypeError("an argument that came with version 1.0")
            return self.capsule(options.get("stream"), "dltensor")
        assert options["max_version"] == (1, 0), options
        return self.capsule(options["stream"], "dltensor_versioned")

    def _make_wait(self, stream):
        event = ctypes.c_void_p()
        _call("cuEventCreate", ctypes.byref(event), 0)
        _call("cuEventRecord", event, self.card.stream)
        _call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)

    def now(self, stream=None):
        """What is in the memory when the stream has come so far; None is the legacy default stream."""
        found = self.card.read(self.memory + self.offset, self.values.shape, self.values.dtype, stream)
        return wide(found) if self.bfloat else found


class Taken:
    """A capsule as its user has it, until `release`."""

    def __init__(self, array, **options):
        capsule = array.__dlpack__(**options)
        name = _python.PyCapsule_GetName(capsule).decode()
        self.name, self.managed = name, LAYOUTS[name].from_address(_python.PyCapsule_GetPointer(capsule, name.encode()))
        self._used = f"used_{name}".encode()  # the capsule keeps no copy
        _python.PyCapsule_SetName(capsule, self._used)
        del capsule
        tensor = self.managed.tensor
        self.device, self.dtype = tuple(tensor.device), (tensor.code, tensor.bits, tensor.lanes)
        self.shape = tuple(tensor.shape[:tensor.ndim]) if tensor.ndim else ()
        self.strides = tuple(tensor.strides[:tensor.ndim]) if tensor.ndim else ()
        self.address = tensor.data + tensor.byte_offset

    def release(self):
        self.managed.deleter(ctypes.addressof(self.managed))
