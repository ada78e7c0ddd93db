# SPDX-License-Identifier: Apache-2.0
"""Arrays on a CUDA device through every operation of ``import horovod``, against NumPy, on the driver's stand-in."""

import contextlib
import sys
import types

import numpy as np
from stand_in_card import Array, Card, host

import horovod as hvd

card = Card()
hvd.init()
rank, size = hvd.rank(), hvd.size()
assert hvd.cuda_built() is True


class Foreign(Array):
    """Of a package that is not known: results are the library's DeviceArray."""


class OfCupy(Array):
    """Results are made by its package."""


OfCupy.__module__ = "cupy"


def as_cupy():
    """As much of CuPy as results need."""

    class View(OfCupy):
        def __init__(self, result):
            self.card, self.base = card, result
            self.__cuda_array_interface__ = result.__cuda_array_interface__

    View.__module__ = "cupy"
    return types.SimpleNamespace(
        empty=lambda shape, dtype: OfCupy(card, np.zeros(shape, dtype)),
        asarray=View,
        cuda=types.SimpleNamespace(Device=lambda _device: contextlib.nullcontext()),
    )


sys.modules["cupy"] = as_cupy()


def values(of, shape, dtype=np.float32):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7 + of).astype(dtype)


def total(shape, dtype=np.float32):
    return sum(values(of, shape, dtype) for of in range(size))


def same(result, expected):
    assert hasattr(result, "__cuda_array_interface__"), result
    found = host(card, result)
    assert found.dtype == expected.dtype and found.shape == expected.shape and (found == expected).all(), (found, expected)


def check_reductions(make):
    for dtype in (np.float16, np.float32, np.float64, np.int32, np.int64, np.uint8, np.uint64, np.complex64):
        for shape in ((5,), (3, 4), (), (0, 2), (300_000,)):
            own = make(card, values(rank, shape, dtype))
            same(hvd.allreduce(own, op=hvd.Sum), total(shape, dtype))
            same(own, values(rank, shape, dtype))
            assert hvd.allreduce_(own, op=hvd.Sum) is own
            same(own, total(shape, dtype))
    group = [make(card, values(rank, shape)) for shape in ((4,), (2, 2))]
    for result, shape in zip(hvd.grouped_allreduce(group, op=hvd.Sum), ((4,), (2, 2))):
        same(result, total(shape))
    hvd.grouped_allreduce_(group, op=hvd.Sum)
    same(group[1], total((2, 2)))
    rows = np.array_split(total((5, 2)), size)[rank]
    same(hvd.reducescatter(make(card, values(rank, (5, 2))), op=hvd.Sum), rows)
    same(hvd.grouped_reducescatter([make(card, values(rank, (5, 2)))], op=hvd.Sum)[0], rows)


def check_moves(make):
    own = make(card, values(rank, (rank + 1, 2)))
    everything = np.concatenate([values(of, (of + 1, 2)) for of in range(size)])
    same(hvd.allgather(own), everything)
    same(hvd.gather(own, root_rank=0), everything if rank == 0 else everything[:0])
    same(hvd.grouped_allgather([own, own])[1], everything)
    handle = hvd.broadcast_async(make(card, values(rank, (6,))), root_rank=size - 1)
    same(handle.wait(), values(size - 1, (6,)))
    same(hvd.broadcast_(make(card, values(rank, (6,))), root_rank=0), values(0, (6,)))
    received, splits = hvd.alltoall(make(card, values(rank, (size,))), splits=[1] * size)
    same(received, np.array([values(of, (size,))[rank] for of in range(size)]))
    assert splits.tolist() == [1] * size


def refused(kind, text, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


def check_errors():
    matrix = values(rank, (4, 4))
    refused(ValueError, "not in row-major order", hvd.allreduce, Foreign(card, matrix, strides=(4, 16)), name="strides")
    refused(ValueError, "per-thread default stream", hvd.allreduce, Foreign(card, matrix, stream=2), name="stream")
    refused(ValueError, "mask", hvd.allreduce, Foreign(card, matrix, mask=object()), name="mask")
    data = (Foreign(card, matrix).__cuda_array_interface__["data"][0], True)
    refused(ValueError, "read-only", hvd.allreduce_, Foreign(card, matrix, data=data), name="read-only")
    refused(ValueError, "data is host memory", hvd.allreduce, Foreign(card, matrix, data=(matrix.ctypes.data, False)), name="host")
    wide = np.dtype(np.longdouble)
    refused(TypeError, wide.name, hvd.allreduce, Foreign(card, matrix.astype(wide)), name="wide")
    complex_matrix = Foreign(card, matrix.astype(np.complex64))
    refused(NotImplementedError, "average and sum are", hvd.allreduce, complex_matrix, op=hvd.Max, name="complex")
    given = Foreign(card, matrix) if rank else matrix
    if size > 1:
        refused(hvd.HorovodMismatchError, "device differs: rank 0 cpu, rank 1 cuda", hvd.allreduce, given, name="mixed")
    same(hvd.allreduce(Foreign(card, matrix), op=hvd.Sum), total((4, 4)))


for check in (check_reductions, check_moves):
    for package in (Foreign, OfCupy):
        check(package)
assert type(hvd.allgather(Foreign(card, values(rank, (2,))))).__name__ == "DeviceArray"
check_errors()
hvd.shutdown()
print("device_arrays: ok", flush=True)
