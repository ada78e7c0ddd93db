# SPDX-License-Identifier: Apache-2.0
"""Every NumPy operation and dtype against NumPy, on any number of ranks."""

import numpy as np
from errors import raises

import horovod as hvd

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

COMPLEX = ["complex64", "complex128"]
REDUCED = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", *COMPLEX]
# Byte strings, and what the package ml_dtypes has, where it is installed and new enough.
OF_OTHERS = (
    "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
    "float4_e2m1fn int2 uint2 int4 uint4"
).split()
MOVED = [*REDUCED, "bool", "S1", "S7", *(getattr(ml_dtypes, name) for name in OF_OTHERS if hasattr(ml_dtypes, name))]
OPS = {
    hvd.Sum: lambda parts: sum(parts[1:], parts[0].copy()),
    hvd.Average: lambda parts: (sum(parts[1:], parts[0].copy()) / len(parts)).astype(parts[0].dtype),
    hvd.Min: lambda parts: np.minimum.reduce(parts),
    hvd.Max: lambda parts: np.maximum.reduce(parts),
    hvd.Product: lambda parts: np.multiply.reduce(parts),
}


def part(rank, shape, dtype):
    """The input of a rank: small whole numbers, so that every sum and product up to 4 ranks is exact."""
    numbers = (np.arange(int(np.prod(shape))) * (rank + 1)) % 3 + rank % 2
    if dtype in COMPLEX:
        numbers = numbers + 1j * numbers[::-1]
    return numbers.reshape(shape).astype(dtype)


def same(found, wanted):
    found = np.asarray(found)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found.dtype, found.shape, wanted.dtype, wanted.shape)
    if wanted.dtype.isbuiltin == 1:
        np.testing.assert_array_equal(found, wanted)
    else:  # not all of them can be compared
        assert found.tobytes() == wanted.tobytes(), (found, wanted)


def operations(dtype):
    """Those that can reduce elements of a dtype."""
    return {op: reduce for op, reduce in OPS.items() if dtype not in COMPLEX or op in (hvd.Sum, hvd.Average)}


def check_allreduce():
    for dtype in REDUCED:
        for op, reduce in operations(dtype).items():
            for shape in [(), (1,), (5, 3), (0, 4)]:
                parts = [part(r, shape, dtype) for r in range(hvd.size())]
                own = parts[hvd.rank()]
                wanted = np.asarray(reduce(parts), dtype=dtype).reshape(shape)
                name = f"{dtype}.{op}.{len(shape)}.{own.size}"
                same(hvd.allreduce(own, op=op, name=name), wanted)
                mine = own.copy()
                assert hvd.allreduce_(mine, op=op, name=name) is mine
                same(mine, wanted)
    scaled = hvd.allreduce(np.full(3, 4.0), op=hvd.Sum, prescale_factor=0.5, postscale_factor=10)
    same(scaled, np.full(3, 20.0 * hvd.size()))
    n = hvd.size()
    assert hvd.allreduce(hvd.rank() + 0.0) == (n - 1) / 2 and isinstance(hvd.allreduce(1.5), np.float64)
    assert hvd.allreduce(True, op=hvd.Max)
    same(hvd.allreduce(np.array([hvd.rank() == 0, False]), op=hvd.Sum), np.array([True, False]))


def check_moves():
    rank, size = hvd.rank(), hvd.size()
    for dtype in MOVED:
        parts = [part(r, (r + 1, 2), dtype) for r in range(size)]
        same(hvd.allgather(parts[rank], name=f"gather.{dtype}"), np.concatenate(parts))
        root = size - 1
        found = hvd.gather(parts[rank], root, name=f"gather.{dtype}")
        same(found, np.concatenate(parts if rank == root else [parts[0][:0]]))
        same(hvd.broadcast(part(rank, (4,), dtype), root, name=f"cast.{dtype}"), part(root, (4,), dtype))
        mine = part(rank, (4,), dtype)
        assert hvd.broadcast_(mine, 0) is mine
        same(mine, part(0, (4,), dtype))
        equal = [part(r, (2 * size, 3), dtype) for r in range(size)]
        wanted = np.concatenate([p[2 * rank : 2 * rank + 2] for p in equal])
        same(hvd.alltoall(equal[rank], name=f"all.{dtype}"), wanted)
        # Rank r sends d + 1 rows to rank d, and keeps one row for itself that is not sent.
        splits = np.arange(1, size + 1)
        rows = int(splits.sum()) + 1
        output, received = hvd.alltoall(part(rank, (rows,), dtype), splits=splits)
        start = int(splits[:rank].sum())
        same(output, np.concatenate([part(r, (rows,), dtype)[start : start + rank + 1] for r in range(size)]))
        same(received, np.full(size, rank + 1, dtype=np.int64))
    same(hvd.allgather(np.empty((0, 3), np.float32)), np.empty((0, 3), np.float32))


def check_wide_numbers():
    """Integers that no signed one of their size holds."""
    n = hvd.size()
    for dtype in ("uint32", "uint64"):
        highest = np.iinfo(dtype).max
        same(hvd.allreduce(np.array([highest - hvd.rank()], dtype), op=hvd.Max), np.array([highest], dtype))
        same(hvd.allreduce(np.array([highest // n], dtype), op=hvd.Average), np.array([highest // n], dtype))


def check_advice():
    """What cannot be sent is refused with what to send instead, and that can be sent."""
    text, days = np.array(["a\u00e9", "b"]), np.array(["2020-01-02", "NaT"], "M8[D]")
    pairs, raw = np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), np.zeros(2, "V3")
    raises(TypeError, "numpy.char.encode", hvd.broadcast, text, 0)
    assert list(np.char.decode(hvd.broadcast(np.char.encode(text, "utf-8"), 0), "utf-8")) == list(text)
    for times in (days, days - days[0]):
        raises(TypeError, 'send array.view("int64")', hvd.allgather, times)
        same(hvd.broadcast(times.view("int64"), 0), times.view("int64"))
    raises(TypeError, "send its fields", hvd.alltoall, pairs)
    assert hvd.broadcast(pairs["b"], 0) == [2.0]
    raises(TypeError, 'send array.view("uint8")', hvd.broadcast, raw, 0)
    same(hvd.broadcast(raw.view("uint8"), 0), raw.view("uint8"))
    foreign = np.arange(3, dtype=">i4")
    raises(TypeError, "array.astype(array.dtype.newbyteorder())", hvd.broadcast, foreign, 0)
    same(hvd.broadcast(foreign.astype(foreign.dtype.newbyteorder()), 0), np.arange(3, dtype="i4"))
    raises(TypeError, "broadcast_object", hvd.broadcast, np.array([{}]), 0)
    assert hvd.broadcast_object(np.array([{}]), 0).tolist() == [{}]
    raises(TypeError, np.dtype(np.longdouble).name, hvd.broadcast, np.ones(2, np.longdouble), 0)
    raises(NotImplementedError, "min is not defined for complex128", hvd.allreduce, np.array([1j]), op=hvd.Min)
    for reduce in (hvd.allreduce, hvd.reducescatter):
        raises(NotImplementedError, "dtype bytes can be moved, not reduced", reduce, np.array([b"a"]), op=hvd.Sum)
    if ml_dtypes is not None:
        low = np.ones(2, ml_dtypes.float8_e5m2)
        raises(NotImplementedError, "convert the input, for example to float32", hvd.allreduce, low, op=hvd.Sum)
        same(hvd.allreduce(low.astype("float32"), op=hvd.Sum), np.full(2, hvd.size(), "float32"))
    if hvd.size() > 1:
        mixed = np.zeros(2, "uint32" if hvd.rank() else "S4")
        raises(hvd.HorovodMismatchError, "differs: rank 0 bytes, rank 1 uint32", hvd.broadcast, mixed, 0)
    same(hvd.broadcast(np.bytes_(b"r%d" % hvd.rank()), 0), np.array(b"r0"))


def check_reducescatter():
    rank, size = hvd.rank(), hvd.size()
    for dtype in REDUCED:
        for rows in (size * 2, size * 2 + 1, 1, 0):
            for op in operations(dtype):
                parts = [part(r, (rows, 2), dtype) for r in range(size)]
                total = np.asarray(OPS[op](parts), dtype=dtype)
                wanted = np.array_split(total, size)[rank]
                same(hvd.reducescatter(parts[rank], op=op), wanted)


def check_grouped():
    rank, size = hvd.rank(), hvd.size()
    tensors = [part(rank, (3,), "float32"), part(rank, (2, 2), "int64"), part(rank, (), "float64")]
    totals = [sum(part(r, t.shape, t.dtype) for r in range(size)) for t in tensors]
    for found, wanted in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum, name="g"), totals):
        same(found, np.asarray(wanted, dtype=found.dtype).reshape(found.shape))
    mine = [tensor.copy() for tensor in tensors]
    back = hvd.grouped_allreduce_(mine, op=hvd.Sum, name="g")
    assert all(a is b for a, b in zip(back, mine))
    for found, wanted in zip(mine, totals):
        np.testing.assert_array_equal(found, wanted)
    gathered = hvd.grouped_allgather([part(rank, (rank + 1,), "int32"), part(rank, (2, 1), "float64")])
    same(gathered[0], np.concatenate([part(r, (r + 1,), "int32") for r in range(size)]))
    same(gathered[1], np.concatenate([part(r, (2, 1), "float64") for r in range(size)]))
    scattered = hvd.grouped_reducescatter([part(rank, (size,), "float32"), part(rank, (2 * size,), "int32")], op=hvd.Sum)
    same(scattered[0], sum(part(r, (size,), "float32") for r in range(size))[rank : rank + 1])
    same(scattered[1], sum(part(r, (2 * size,), "int32") for r in range(size))[2 * rank : 2 * rank + 2])


def check_handles():
    handles = [hvd.allreduce_async(np.full(2, i + hvd.rank()), op=hvd.Sum, name=f"h{i}") for i in range(20)]
    order = range(20) if hvd.rank() % 2 else reversed(range(20))
    base = sum(range(hvd.size()))
    for i in order:
        assert handles[i].wait()[0] == i * hvd.size() + base
        assert handles[i].poll() and handles[i].wait()[0] == i * hvd.size() + base
    assert len({int(h) for h in handles}) == 20 and len(set(handles)) == 20


def check_objects():
    assert hvd.broadcast_object({"rank": hvd.rank()}, hvd.size() - 1) == {"rank": hvd.size() - 1}
    assert hvd.broadcast_object(None if hvd.rank() else "x" * 100_000, 0) == "x" * 100_000
    assert hvd.allgather_object(["r"] * hvd.rank()) == [["r"] * r for r in range(hvd.size())]
    hvd.barrier()
    assert hvd.join() in range(hvd.size())


hvd.init()
for check in (check_allreduce, check_wide_numbers, check_moves, check_advice, check_reducescatter, check_grouped, check_handles, check_objects):
    check()
print("numpy_ops: ok")
