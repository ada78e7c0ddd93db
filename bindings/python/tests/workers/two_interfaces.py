# SPDX-License-Identifier: Apache-2.0
"""Arrays on a CUDA device that have both interfaces, as JAX's and PyTorch's: by DLPack there is a stream, the other names none."""

import ctypes
import gc
import sys
import time
import types

import capsules
import numpy as np
from capsules import Lent, Taken
from stand_in_card import Array, Card, _call

import horovod as hvd
from horovod import _streams

card = Card()
hvd.init()
rank, size = hvd.rank(), hvd.size()


def values(of, shape, dtype=np.float32):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7 + of).astype(dtype)


def total(shape):
    return sum(values(of, shape) for of in range(size))


class Both(Lent):
    """As JAX has it; ``interface`` are changes of that, ``refuses`` is DLPack's error."""

    def __init__(self, card, values, refuses=None, interface=(), **changes):
        super().__init__(card, values, **changes)
        self.refuses, strides = refuses, changes.get("strides")
        self.__cuda_array_interface__ = {
            "version": 2, "shape": self.values.shape, "typestr": self.values.dtype.str, "data": (self.memory + self.offset, False),
            "strides": strides and tuple(self.values.itemsize * stride for stride in strides), **dict(interface),
        }  # fmt: skip

    def __dlpack__(self, **options):
        if self.refuses is not None:
            raise self.refuses
        return super().__dlpack__(**options)


def of_package(name, own):
    own.__class__ = type("Array", (Both,), {"__module__": name, "device": "cuda:0", "detach": lambda self: self})
    return own


def same(result, expected):
    taken = Taken(result, stream=card.stream.value)
    found = card.read(taken.address, taken.shape, expected.dtype, card.stream.value)
    taken.release()
    assert found.shape == expected.shape and (found == expected).all(), (found, expected)


def refused(kind, text, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


def not_given_back():
    gc.collect()
    _streams.collect()
    return len(capsules.made) - len(capsules.given_back)


def check_borrowed():
    """DLPack is asked, for the legacy default stream, where the interface names none."""
    for versioned in (False, True):
        for interface in ({}, {"version": 3, "stream": None}):
            for shape in ((5,), (), (0, 2), (300_000,)):
                own = Both(card, values(rank, shape), versioned=versioned, interface=interface)
                same(hvd.allreduce(own, op=hvd.Sum), total(shape))
                assert hvd.allreduce_(own, op=hvd.Sum) is own and (own.now() == total(shape)).all()
                rows = np.broadcast_to(total(shape), (size, *shape)) if shape else None
                if rows is not None:
                    same(hvd.allgather(own), rows.reshape(-1, *shape[1:]))
                assert own.asked == [1] * (3 if shape else 2)


def check_lifetime():
    """The owner has it back when the device is done with it, not when the operation has ended."""
    limit = time.monotonic() + 20
    while not_given_back() and time.monotonic() < limit:
        time.sleep(0.01)
    assert not_given_back() == 0
    handle = hvd.allgather_async(Both(card, values(rank, (5,))))
    while not handle.poll():
        time.sleep(0.001)
    _call("cuLaunchHostFunc", None, ctypes.CDLL(None).usleep, ctypes.c_void_p(500_000))
    result = handle.wait()
    del handle
    assert not_given_back() == 1
    same(result, np.concatenate([values(of, (5,)) for of in range(size)]))
    while not_given_back() and time.monotonic() < limit:
        time.sleep(0.01)
    assert not_given_back() == 0 and set(capsules.given_back.values()) == {1}


def check_that_name_a_stream():
    own = Both(card, values(rank, (5,)), interface={"stream": card.stream.value})
    same(hvd.allreduce(own, op=hvd.Sum), total((5,)))
    assert hvd.allreduce_(own, op=hvd.Sum) is own and own.asked == []
    assert (own.now(card.stream.value) == total((5,))).all()


def check_errors():
    read_only = {"data": (card.allocate(64), True)}
    for versioned in (False, True):  # of which only one can say it in DLPack
        own = Both(card, values(rank, (4, 4)), versioned=versioned, interface=read_only)
        refused(ValueError, "allreduce_: the array is read-only", hvd.allreduce_, own, name="read-only")
    same(hvd.allreduce(own, op=hvd.Sum), total((4, 4)))
    refused(ValueError, "read-only", hvd.allreduce_, of_package("jaxlib", Both(card, values(rank, (4,)))), name="never changes")
    masked = Both(card, values(rank, (4,)), interface={"mask": object()})
    refused(ValueError, "mask", hvd.allreduce, masked, name="mask")
    column_major = Both(card, values(rank, (4, 4)), strides=(1, 4))
    refused(ValueError, "not in row-major order", hvd.allreduce, column_major, name="strides")
    wide = np.dtype(np.longdouble)
    refused(TypeError, wide.name, hvd.allreduce, Both(card, values(rank, (4,)).astype(wide)), name="wide")


def check_that_refuse():
    """The interface is what remains; of a package that is known, in the order of its stream."""
    for kind in (BufferError, RuntimeError, TypeError):
        own = Both(card, values(rank, (5,)), refuses=kind("not so"))
        own._make_wait(0)
        same(hvd.allreduce(own, op=hvd.Sum), total((5,)))
        assert hvd.allreduce_(own, op=hvd.Sum) is own and (own.now() == total((5,))).all()
    refused(ValueError, "not so", hvd.allreduce, Both(card, values(rank, (5,)), refuses=ValueError("not so")), name="other error")
    nothing = Both(card, values(rank, (5,)), refuses=BufferError("not so"))
    del nothing.__cuda_array_interface__
    refused(BufferError, "not so", hvd.allreduce, nothing, name="no interface")


def check_pytorch():
    """In the order of its current stream, results are its own, also for what its DLPack refuses."""
    stream = types.SimpleNamespace(cuda_stream=card.stream.value)
    sys.modules["torch"] = types.SimpleNamespace(
        cuda=types.SimpleNamespace(current_stream=lambda _device: stream), Tensor=Lent, bfloat16=None,
        from_dlpack=lambda result: ("by DLPack", result), as_tensor=lambda result: ("by the interface", result),
    )  # fmt: skip
    for refuses, way in ((None, "by DLPack"), (RuntimeError("Bool type is not supported by dlpack"), "by the interface")):
        own = of_package("torch", Both(card, values(rank, (300_000,)), refuses))
        how, result = hvd.allreduce(own, op=hvd.Sum)
        assert how == way, how
        same(result, total((300_000,)))
        assert hvd.allreduce_(own, op=hvd.Sum) is own and (own.now(card.stream.value) == total((300_000,))).all()
        assert own.asked == ([] if refuses else [card.stream.value] * 2)
        given = values(rank, (5,)) > 3
        _how, result = hvd.allreduce(of_package("torch", Both(card, given, refuses)), op=hvd.Max)
        same(result, np.max([values(of, (5,)) > 3 for of in range(size)], axis=0))
    del sys.modules["torch"]


def check_numba():
    """Old ones have no DLPack, and name no stream; results are Numba's either way."""
    cuda = types.SimpleNamespace(as_cuda_array=lambda result: ("Numba's", result))
    sys.modules["numba"] = types.SimpleNamespace(cuda=cuda)
    old = Array(card, values(rank, (5,)), stream=None)
    old.__class__ = type("DeviceNDArray", (Array,), {"__module__": "numba.cuda.cudadrv.devicearray"})
    _streams.follow(card.stream.value, 0, 0)
    for own in (old, of_package("numba.cuda", Both(card, values(rank, (5,))))):
        whose, result = hvd.allreduce(own, op=hvd.Sum)
        assert whose == "Numba's"
        same(result, total((5,)))
    del sys.modules["numba"]


for check in (check_borrowed, check_lifetime, check_that_name_a_stream, check_errors, check_that_refuse):
    check()
check_pytorch()
check_numba()
hvd.shutdown()
print("two_interfaces: ok", flush=True)
