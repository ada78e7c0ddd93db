# SPDX-License-Identifier: Apache-2.0
"""DLPack's capsules, read and made in Python alone: no array library is needed for that.

What others lend is a :class:`Borrowed`, which gives it back once. What we lend lives until its borrower's call of the deleter.
"""

import ctypes
import itertools
import sys

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLPack's numbers for where memory is
DEVICE_NAMES = {CPU: "CPU", CUDA: "CUDA", CUDA_HOST: "page-locked host memory", CUDA_MANAGED: "CUDA's managed memory"}
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
# Of these the number says all.
_FLOATS8 = {
    7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz",
    12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu",
}  # fmt: skip
_NUMBERS = {kind: number for number, kind in (_KINDS | _FLOATS8).items()}
_VERSION = 1, 0
_READ_ONLY, _IS_COPY = 1, 2


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    """Of capsules named ``dltensor``."""

    _fields_ = [("tensor", _Tensor), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
    flags = 0


class _Versioned(ctypes.Structure):
    """Of capsules named ``dltensor_versioned``. Only the members before the flags are the same in every version."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("owner", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


# A capsule has no copy of its name but the name's address: only these objects, which are kept for ever, are given to one.
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_LAYOUTS = {_NAME: _Managed, _VERSIONED_NAME: _Versioned}
_USED = {_NAME: b"used_dltensor", _VERSIONED_NAME: b"used_dltensor_versioned"}

_python = ctypes.PyDLL(None)


def _python_function(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, _python))


_name_of = _python_function("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_pointer_of = _python_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _python_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_new = _python_function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_keep_for_ever = _python_function("Py_IncRef", None, ctypes.py_object)
# Called with the interpreter's lock: some owners drop references in it.
_Deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class Borrowed:
    """An array that its owner lends, until :meth:`release`, or until this is collected.

    ``address`` is that of the first element, ``device`` a pair of DLPack's numbers, ``dtype`` a name like ``bfloat16``, which
    need not be one of the library; ``shape`` and ``strides`` count elements, and ``strides`` is None for row-major order.
    ``read_only`` and ``is_copy`` are what the owner says; one of before DLPack 1.0 can say neither.
    """

    __slots__ = ("address", "device", "dtype", "shape", "strides", "read_only", "is_copy", "_managed")

    def __init__(self, capsule):
        self._managed = None
        name = _name_of(capsule)
        if name not in _LAYOUTS:
            raise BufferError(f"DLPack: the capsule is named {name}; a new one is named dltensor or dltensor_versioned")
        managed = _LAYOUTS[name].from_address(_pointer_of(capsule, name))
        _rename(capsule, _USED[name])
        self._managed = managed  # from here on it is this object that gives it back
        if name == _VERSIONED_NAME and managed.major != _VERSION[0]:
            self.release()
            raise BufferError(f"DLPack: the array is of version {managed.major}; version {_VERSION[0]} is supported")
        tensor, dimensions = managed.tensor, managed.tensor.ndim
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.device = tensor.device_type, tensor.device_id
        self.dtype = _dtype_name(tensor)
        self.shape = tuple(tensor.shape[:dimensions]) if dimensions else ()
        self.strides = tuple(tensor.strides[:dimensions]) if dimensions and tensor.strides else None
        self.read_only, self.is_copy = bool(managed.flags & _READ_ONLY), bool(managed.flags & _IS_COPY)

    def release(self):
        """Gives the memory back to its owner; a second call does nothing."""
        managed, self._managed = self._managed, None
        if managed is not None and managed.deleter:
            _Deleter(managed.deleter)(ctypes.addressof(managed))

    def __del__(self, ending=sys.is_finalizing):
        if not ending():  # as the interpreter ends, the deleter may be gone already; the memory goes with the process
            self.release()


def borrow(value, stream):
    """The array of an object with ``__dlpack__``.

    ``stream``, as the interfaces of arrays number CUDA's, waits until it is written. Its owner's errors pass, often BufferError.
    """
    forget_dropped()
    try:
        capsule = value.__dlpack__(stream=stream, max_version=_VERSION)
    except TypeError:  # an owner of before DLPack 1.0 does not know the second argument
        capsule = value.__dlpack__(stream=stream)
    return Borrowed(capsule)


def _dtype_name(tensor):
    kind = _KINDS.get(tensor.code)
    if tensor.code in _FLOATS8 and tensor.bits == 8:
        name = _FLOATS8[tensor.code]
    elif kind is None:
        name = f"of DLPack's code {tensor.code} and {tensor.bits} bits"
    else:
        name = "bool" if (kind, tensor.bits) == ("bool", 8) else f"{kind}{tensor.bits}"
    return name if tensor.lanes == 1 else f"{name} in vectors of {tensor.lanes}"


# By the address of its structure, what we lend: that, the numbers it points to, and the owner of the memory.
_lent = {}
# Capsules that nobody was seen to drop, each by a number that no other has: an address is used anew when what is there is given
# back. They have no destructor: one in Python would lose the error with which a borrower drops a capsule that it can not use.
_offered = {}
_serial = itertools.count()


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _given_back(address, pop=_lent.pop):
    pop(address, None)


# A borrower may call it, or look at a name, when this module is gone already, as the interpreter ends.
for _one in (_given_back, *_LAYOUTS, *_USED.values()):
    _keep_for_ever(_one)


def _references(held, number):
    return sys.getrefcount(held.get(number))


_ONLY_HELD = _references({0: object()}, 0)  # what Python itself adds differs between its versions


def forget_dropped():
    """Lets go of what is in capsules that were dropped and not used; a later :func:`borrow` or :func:`lend` does it too."""
    # Also called by other threads meanwhile, and as objects are dropped, at any point of a call of this: so no lock, and nothing is
    # taken out before it is known that it goes. Another look at the same is one reference more, and leaves it to a later call.
    for number in list(_offered):
        if _references(_offered, number) > _ONLY_HELD:
            continue
        # Nobody has it any more, so nobody takes it from here on.
        capsule = _offered.pop(number, None)
        name = None if capsule is None else _name_of(capsule)
        if name in _LAYOUTS:  # else its deleter is or was called
            _lent.pop(_pointer_of(capsule, name), None)


def lend(owner, address, device, dtype, shape, versioned):
    """A capsule for row-major memory; ``owner`` is kept until it is given back, or :func:`forget_dropped` finds it unused.

    ``device`` is a pair of DLPack's numbers, ``dtype`` one of the library's names; ``versioned``: for a borrower that knows 1.0.
    """
    forget_dropped()
    name = _VERSIONED_NAME if versioned else _NAME
    managed = _LAYOUTS[name]()
    if versioned:
        managed.major, managed.minor = _VERSION
    managed.deleter = ctypes.cast(_given_back, ctypes.c_void_p)
    tensor = managed.tensor
    tensor.data, tensor.ndim, tensor.lanes = address or None, len(shape), 1
    tensor.device_type, tensor.device_id = device
    tensor.code, tensor.bits = _code_and_bits(dtype)
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    numbers = (ctypes.c_int64 * (2 * len(shape)))(*shape, *strides[:len(shape)])
    if shape:
        tensor.shape = ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(ctypes.addressof(numbers) + 8 * len(shape), ctypes.POINTER(ctypes.c_int64))
    place = ctypes.addressof(managed)
    capsule = _new(place, name, None)
    _lent[place], _offered[next(_serial)] = (managed, numbers, owner), capsule
    return capsule


def _code_and_bits(dtype):
    if dtype == "bool" or dtype in _FLOATS8.values():
        return _NUMBERS[dtype], 8
    kind = dtype.rstrip("0123456789")
    return _NUMBERS[kind], int(dtype[len(kind):])
