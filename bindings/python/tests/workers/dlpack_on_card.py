# SPDX-License-Identifier: Apache-2.0
"""Arrays on a CUDA device that have DLPack and no other interface, through every operation, on the driver's stand-in."""

import ctypes
import functools
import gc
import sys
import time
import types
import weakref

import capsules
import numpy as np
from capsules import Lent, Taken, wide
from stand_in_card import Card, _call

import horovod as hvd
from horovod import _streams

card = Card()
hvd.init()
rank, size = hvd.rank(), hvd.size()


def values(of, shape):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7 + of).astype(np.float32)


def total(shape):
    return sum(values(of, shape) for of in range(size))


def result_of(result):
    """The values of a result, read as its user's stream finds them."""
    taken = Taken(result, stream=card.stream.value, max_version=(1, 0))
    assert taken.device == result.__dlpack_device__() == (2, 0) and taken.name == "dltensor_versioned"
    bfloat = taken.dtype == (4, 16, 1)
    assert bfloat or taken.dtype == (2, 32, 1), taken.dtype
    assert bfloat != hasattr(result, "__cuda_array_interface__")
    found = card.read(taken.address, taken.shape, np.uint16 if bfloat else np.float32, card.stream.value)
    taken.release()
    return wide(found) if bfloat else found


def same(result, expected):
    assert type(result).__name__ == "DeviceArray", result
    found = result_of(result)
    assert found.shape == expected.shape and (found == expected).all(), (found, expected)


def check_reductions(lend):
    for shape in ((5,), (3, 4), (), (0, 2), (300_000,)):
        own = lend(card, values(rank, shape))
        same(hvd.allreduce(own, op=hvd.Sum), total(shape))
        assert (own.now() == values(rank, shape)).all()
        assert hvd.allreduce_(own, op=hvd.Sum) is own
        assert (own.now() == total(shape)).all()
        assert own.asked == [1, 1]
    group = [lend(card, values(rank, shape)) for shape in ((4,), (2, 2))]
    for result, shape in zip(hvd.grouped_allreduce(group, op=hvd.Sum), ((4,), (2, 2))):
        same(result, total(shape))
    hvd.grouped_allreduce_(group, op=hvd.Max)
    assert (group[1].now() == values(size - 1, (2, 2))).all()
    rows = np.array_split(total((5, 2)), size)[rank]
    same(hvd.reducescatter(lend(card, values(rank, (5, 2))), op=hvd.Sum), rows)
    same(hvd.grouped_reducescatter([lend(card, values(rank, (5, 2)))], op=hvd.Sum)[0], rows)
    again = hvd.allreduce(hvd.allreduce(lend(card, values(0, (6,))), op=hvd.Sum))  # a result is an input too
    same(again, values(0, (6,)) * size)


def check_moves(lend):
    own = lend(card, values(rank, (rank + 1, 2)), offset=32)
    everything = np.concatenate([values(of, (of + 1, 2)) for of in range(size)])
    same(hvd.allgather(own), everything)
    same(hvd.grouped_allgather([own, own])[1], everything)
    handle = hvd.broadcast_async(lend(card, values(rank, (6,))), root_rank=size - 1)  # nobody else has the array
    same(handle.wait(), values(size - 1, (6,)))
    here = lend(card, values(rank, (6,)), offset=16)
    assert hvd.broadcast_async_(here, root_rank=0).wait() is here
    assert (here.now() == values(0, (6,))).all()
    hvd.allreduce_async_(lend(card, values(rank, (1000,))), name="dropped")
    gc.collect()
    received, splits = hvd.alltoall(lend(card, values(rank, (size,))), splits=[1] * size)
    same(received, np.array([values(of, (size,))[rank] for of in range(size)]))
    assert splits.tolist() == [1] * size


def check_memory_that_is_managed():
    """DLPack has no number of a device for it."""
    same(hvd.allreduce(Lent(card, values(rank, (3,)), says=(13, 0)), op=hvd.Sum), total((3,)))


def check_float8():
    """Each kind of it has a number of its own."""
    for code in range(7, 15):
        own = Lent(card, np.arange(5, dtype=np.uint8) + rank, code=code)
        taken = Taken(hvd.broadcast(own, size - 1), stream=card.stream.value)
        assert taken.dtype == (code, 8, 1)
        found = card.read(taken.address, taken.shape, np.uint8, card.stream.value)
        taken.release()
        assert (found == np.arange(5) + size - 1).all()


def refused(kind, text, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


def check_errors():
    lent = functools.partial(Lent, card, values(rank, (4, 4)))
    for versioned in (False, True):
        column_major = lent(versioned=versioned, strides=(1, 4))
        refused(ValueError, "not in row-major order", hvd.allreduce, column_major, name="strides")
        refused(TypeError, "dtype float32 in vectors of 4 is not one of", hvd.allreduce, lent(versioned=versioned, lanes=4), name="l")
        refused(NotImplementedError, "dtype complex32 can be moved", hvd.allreduce, lent(versioned=versioned, code=5), name="complex")
        refused(TypeError, "DLPack's code 17 and 32 bits", hvd.allreduce, lent(versioned=versioned, code=17), name="code")
    same(hvd.allreduce(lent(strides=(4, 1)), op=hvd.Sum), total((4, 4)))
    refused(TypeError, "DLPack device type 10; supported are 1 (CPU), 2 (CUDA)", hvd.allreduce, lent(says=(10, 0)), name="rocm")
    refused(TypeError, "its memory is on DLPack device type 1", hvd.allreduce, lent(device=(1, 0)), name="says")
    refused(BufferError, "version 2", hvd.allreduce, lent(version=(2, 0)), name="version")
    refused(ValueError, "allreduce_: the array is read-only", hvd.allreduce_, lent(flags=1), name="read-only")
    same(hvd.allreduce(lent(flags=1), op=hvd.Sum), total((4, 4)))
    refused(ValueError, "broadcast_: DLPack gives a copy", hvd.broadcast_, lent(flags=2), 0, name="copy")
    strange = lent()
    strange.__class__ = type("Strange", (Lent,), {"__dlpack__": lambda self, **_: self.capsule(1, "dltensor") and object()})
    refused(ValueError, "invalid PyCapsule", hvd.allreduce, strange, name="no capsule")
    capsules.given_back.update(list(capsules.made)[-1:])  # which nobody has read
    given = lent() if rank else values(rank, (4, 4))
    if size > 1:
        refused(hvd.HorovodMismatchError, "device differs: rank 0 cpu, rank 1 cuda", hvd.allreduce, given, name="mixed")


def check_results():
    """Whose memory lives as long as somebody has it, and which any stream can wait for."""
    result = hvd.allreduce(Lent(card, values(rank, (2, 3)), bfloat=True), op=hvd.Sum)
    assert repr(result) == "<DeviceArray of shape (2, 3), bfloat16, on CUDA device 0>"
    alive = weakref.ref(result)
    old = Taken(result)
    assert old.name == "dltensor" and old.strides == (3, 1) and old.shape == (2, 3)
    new = Taken(result, stream=-1, max_version=(1, 2), dl_device=(2, 0), copy=False)
    assert new.name == "dltensor_versioned" and tuple(new.managed.version) == (1, 0) and new.managed.flags == 0
    refused(ValueError, "stream 0 is ambiguous", result.__dlpack__, stream=0)
    refused(BufferError, "not copied", result.__dlpack__, copy=True)
    refused(BufferError, "is on CUDA device 0", result.__dlpack__, dl_device=(1, 0))
    result.__dlpack__()  # which nobody takes
    refused((BufferError, RuntimeError), "nsupported device", np.from_dlpack, result)  # NumPy's own words
    del result
    gc.collect()
    assert (wide(card.read(old.address, (2, 3), np.uint16, None)) == total((2, 3))).all()
    old.release()
    assert alive() is not None
    new.release()
    hvd.allreduce(Lent(card, values(rank, (1,))))  # also looks for what was lent and dropped
    gc.collect()
    assert alive() is None


def check_package_with_a_stream():
    """What CuPy has without the other interface is taken in the order of its stream, and results are CuPy's."""
    own = Lent(card, values(rank, (5,)), bfloat=True)
    own.__class__ = type("ndarray", (Lent,), {"__module__": "cupy"})
    stream = types.SimpleNamespace(ptr=card.stream.value)
    device = lambda _number: __import__("contextlib").nullcontext()  # noqa: E731
    cuda = types.SimpleNamespace(Device=device, get_current_stream=lambda: stream)
    sys.modules["cupy"] = types.SimpleNamespace(cuda=cuda, from_dlpack=lambda result: ("cupy's", result))
    whose, result = hvd.allreduce(own, op=hvd.Sum)
    assert whose == "cupy's"
    same(result, total((5,)))
    hvd.allreduce_(own, op=hvd.Sum)
    assert (own.now(card.stream.value) == total((5,))).all() and own.asked == [card.stream.value] * 2
    stream.ptr = 2
    refused(ValueError, "per-thread default stream", hvd.allreduce, own, name="per thread")
    del sys.modules["cupy"]


def not_given_back():
    gc.collect()
    _streams.collect()
    return len(capsules.made) - len(capsules.given_back)


def check_lifetime():
    """Owners have everything back, once, and not before the device is done with it."""
    limit = time.monotonic() + 20
    while not_given_back() and time.monotonic() < limit:
        time.sleep(0.01)
    own = Lent(card, values(rank, (5,)))
    handle = hvd.allgather_async(own)
    while not handle.poll():
        time.sleep(0.001)
    _call("cuLaunchHostFunc", None, ctypes.CDLL(None).usleep, ctypes.c_void_p(500_000))
    result = handle.wait()
    del handle
    assert not_given_back() == 1
    same(result, np.concatenate([values(of, (5,)) for of in range(size)]))
    while not_given_back() and time.monotonic() < limit:
        time.sleep(0.01)
    assert not_given_back() == 0
    assert set(capsules.given_back.values()) == {1}, capsules.given_back


for bfloat in (False, True):
    for versioned in (False, True):
        lend = functools.partial(Lent, bfloat=bfloat, versioned=versioned)
        check_reductions(lend)
        check_moves(lend)
check_memory_that_is_managed()
check_float8()
check_errors()
check_results()
check_package_with_a_stream()
check_lifetime()
hvd.shutdown()
print("dlpack_on_card: ok", flush=True)
