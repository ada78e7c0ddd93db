# SPDX-License-Identifier: Apache-2.0
"""Which memory the library is given: the caller's wherever its layout allows."""

import array

import numpy as np
from errors import raises

import horovod as hvd
from horovod import _arrays
from horovod._native import native
from horovod.common import basics


def address(a):
    return a.__array_interface__["data"][0]


class Recorder:
    """Remembers the addresses of the last operation, whichever way it went to the native layer."""

    def __init__(self, session):
        self.inputs = self.outputs = None
        self._submit, session.submit = session.submit, self.submit
        self._submit_array, session.submit_array = session.submit_array, self.submit_array

    def submit(self, kind, grouped, inputs, outputs, *rest):
        self.inputs = [i[0] for i in inputs]
        self.outputs = None if outputs is None else [o[0] for o in outputs]
        return self._submit(kind, grouped, inputs, outputs, *rest)

    def submit_array(self, kind, given, out, *rest):
        operation = self._submit_array(kind, given, out, *rest)
        if operation is not None:
            self.inputs, self.outputs = [address(given)], [address(out)]
        return operation


hvd.init()
assert native().NAME
recorder = Recorder(basics.session())


def check_contiguous():
    x = np.arange(10.0)
    out = hvd.allreduce(x)
    assert recorder.inputs == [address(x)] and recorder.outputs == [address(out)] and out is not x
    assert hvd.allreduce_(x) is x
    assert recorder.inputs == recorder.outputs == [address(x)]
    view = x[3:7]
    hvd.allreduce_(view)
    assert recorder.inputs == [address(x) + 24]
    fixed = np.arange(3.0)
    fixed.setflags(write=False)
    hvd.allreduce(fixed)
    assert recorder.inputs == [address(fixed)]
    raises(ValueError, "read-only", hvd.allreduce_, fixed)
    raises(TypeError, "number", hvd.allreduce_, 3.0)
    several = [np.ones(2), np.ones(3)]
    hvd.grouped_allreduce_(several)
    assert recorder.inputs == recorder.outputs == [address(a) for a in several]


def check_strided():
    x = np.arange(12.0).reshape(3, 4)
    before = x.copy()
    column = x[:, 1]
    assert hvd.allreduce_(column, op=hvd.Sum, postscale_factor=2.0) is column
    assert recorder.inputs != [address(column)]
    before[:, 1] *= 2
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(hvd.allreduce(x.T), x.T)
    np.testing.assert_array_equal(hvd.allreduce(x[::-1, ::2]), x[::-1, ::2])
    np.testing.assert_array_equal(hvd.broadcast(np.asfortranarray(x), 0), x)


def check_other_kinds():
    for source in (bytearray(b"abcd"), memoryview(bytearray(b"abcd")), array.array("f", [1, 2]), array.array("q", [3])):
        mine = np.asarray(memoryview(source))
        assert (hvd.allreduce(source, op=hvd.Sum) == mine).all()
        assert recorder.inputs == [address(mine)]
        assert hvd.allreduce_(source, op=hvd.Sum) is source
    assert bytes(hvd.allreduce(b"xyz", op=hvd.Max)) == b"xyz"
    raises(ValueError, "read-only", hvd.allreduce_, b"xyz")

    class Interface:
        data = np.arange(4.0)
        __array_interface__ = data.__array_interface__

    assert (hvd.allreduce(Interface()) == Interface.data).all() and recorder.inputs == [address(Interface.data)]

    class Capsule:
        data = np.arange(5, dtype=np.int32)

        def __dlpack__(self, **options):
            return self.data.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.data.__dlpack_device__()

    assert (hvd.allreduce(Capsule(), op=hvd.Sum) == Capsule.data).all() and recorder.inputs == [address(Capsule.data)]

    class OnRocm(Capsule):
        def __dlpack_device__(self):
            return (10, 0)

    raises(TypeError, "device type 10", hvd.allreduce, OnRocm())

    class Locked(Capsule):
        def __dlpack_device__(self):
            return (3, 0)  # memory that a GPU can read, and the CPU as well

    assert (hvd.allreduce(Locked(), op=hvd.Sum) == Capsule.data).all() and recorder.inputs == [address(Capsule.data)]
    raises(TypeError, "complex256", hvd.allreduce, np.ones(2, np.clongdouble))
    raises(TypeError, "object", hvd.allreduce, np.array([None]))
    raises(TypeError, ">f4", hvd.allreduce, np.ones(2, ">f4"))
    raises(TypeError, "str is not", hvd.allreduce, "text")
    assert hvd.allreduce(np.float32(2)).dtype == np.float32
    assert hvd.allreduce(np.ones((0, 3))).shape == (0, 3)


def check_library_memory():
    """Results that the library allocates are not copied, and outlive their handle."""
    handle = hvd.allgather_async(np.arange(1000))
    found = handle.wait()
    kept = found[10:20]
    del handle, found
    for _ in range(20):
        hvd.allgather(np.zeros(1000, int))
    np.testing.assert_array_equal(kept, np.arange(10, 20))
    assert isinstance(_owner(kept), _arrays._LibraryMemory)


def _owner(a):
    while isinstance(a, np.ndarray):
        a = a.base
    return a


def check_bfloat16():
    try:
        import ml_dtypes
    except ImportError:
        print("zero_copy: bfloat16 not checked, ml_dtypes is not installed")
        return
    x = np.arange(4).astype(ml_dtypes.bfloat16)
    for found in (hvd.allreduce(x, op=hvd.Sum), hvd.allgather(x)):
        assert found.dtype == x.dtype and (found == x).all()


for check in (check_contiguous, check_strided, check_other_kinds, check_library_memory, check_bfloat16):
    check()
print("zero_copy: ok")
