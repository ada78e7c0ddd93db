# SPDX-License-Identifier: Apache-2.0
"""Operations on NDArrays: values, order, errors where results are read, broadcasts of parameters."""

import os
import time

import mxnet as mx
import numpy as np
from errors import check_no_set, operations, raises

import horovod.mxnet as hvd

NAIVE = os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine"  # which waits for each operation
DTYPES = ["float32", "float64", "float16", "uint8", "int8", "int32", "int64"]


def part(rank, shape, dtype):
    return (((np.arange(np.prod(shape)) * (rank + 1)) % 3) + rank % 2).reshape(shape).astype(dtype)


def nd(array):
    return mx.nd.array(array, dtype=array.dtype)


def same(found, wanted):
    assert isinstance(found, mx.nd.NDArray), type(found)
    array = found.asnumpy()
    assert array.dtype == wanted.dtype and array.shape == wanted.shape, (array.dtype, array.shape, wanted)
    assert np.array_equal(array, wanted), (array, wanted)


def check_values():
    rank, size = hvd.rank(), hvd.size()
    for dtype in DTYPES:
        for shape in [(4,), (3, 2), (1, 2, 3)]:
            own, total = nd(part(rank, shape, dtype)), sum(part(r, shape, "float64") for r in range(size)).astype(dtype)
            same(hvd.allreduce(own, op=hvd.Sum, name=f"{dtype}{shape}"), total)
            same(own, part(rank, shape, dtype))
            assert hvd.allreduce_(own, op=hvd.Sum) is own
            same(own, total)
        parts = [part(r, (r + 1, 2), dtype) for r in range(size)]
        same(hvd.allgather(nd(parts[rank])), np.concatenate(parts))
        same(hvd.gather(nd(parts[rank]), 0), np.concatenate(parts if rank == 0 else [parts[0][:0]]))
        same(hvd.broadcast(nd(part(rank, (3,), dtype)), size - 1), part(size - 1, (3,), dtype))
        mine = nd(part(rank, (3,), dtype))
        assert hvd.broadcast_(mine, 0) is mine
        same(mine, part(0, (3,), dtype))
        same(hvd.alltoall(nd(part(rank, (size,), dtype))), np.array([part(r, (size,), dtype)[rank] for r in range(size)], dtype))
        rows = sum(part(r, (2 * size,), "float64") for r in range(size)).astype(dtype)
        same(hvd.reducescatter(nd(part(rank, (2 * size,), dtype)), op=hvd.Sum), rows[2 * rank : 2 * rank + 2])
    every = [part(r, (4,), "float32") for r in range(size)]
    own = nd(every[rank])
    same(hvd.allreduce(own, op=hvd.Max), np.maximum.reduce(every))
    same(hvd.allreduce(own, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5), sum(every))
    np.testing.assert_allclose(hvd.allreduce(own).asnumpy(), sum(every) / size, rtol=1e-6)
    output, received = hvd.alltoall(mx.nd.arange(size), splits=mx.nd.ones(size, dtype="int32"))
    same(output, np.full(size, rank, "float32"))
    same(received, np.ones(size, "int32"))
    numpy_like = hvd.allreduce(mx.np.ones((2,)), op=hvd.Sum)
    assert isinstance(numpy_like, mx.np.ndarray) and numpy_like.tolist() == [size] * 2


def check_other_dtypes():
    rank, size = hvd.rank(), hvd.size()
    marks = [np.arange(3) % 2 == r % 2 for r in range(size)]
    same(hvd.broadcast(nd(marks[rank]), size - 1), marks[-1])
    same(hvd.allgather(nd(marks[rank])), np.concatenate(marks))
    same(hvd.allreduce(nd(marks[rank]), op=hvd.Max), np.logical_or.reduce(marks))
    short = [mx.nd.amp_cast(mx.nd.full((3,), r + 1), dtype=np.dtype([("bfloat16", np.uint16)])) for r in range(size)]
    summed, sent = hvd.allreduce(short[rank], op=hvd.Sum), hvd.broadcast(short[rank], size - 1)
    same(mx.nd.amp_cast(summed, dtype="float32"), np.full(3, size * (size + 1) / 2, "float32"))
    same(mx.nd.amp_cast(sent, dtype="float32"), np.full(3, size, "float32"))
    raises(NotImplementedError, "mxnet.nd.amp_cast(array, dtype='float32')", hvd.allgather, short[rank])
    wide = hvd.allgather(mx.nd.amp_cast(short[rank], dtype="float32"))
    same(wide, np.repeat(np.arange(1, size + 1, dtype="float32"), 3))


def check_groups():
    rank, size = hvd.rank(), hvd.size()
    arrays = [part(rank, (3,), "float32"), part(rank, (2, 2), "int64")]
    totals = [sum(part(r, (3,), "float32") for r in range(size)), sum(part(r, (2, 2), "int64") for r in range(size))]
    for found, wanted in zip(hvd.grouped_allreduce([nd(a) for a in arrays], op=hvd.Sum, name="g"), totals):
        same(found, wanted)
    tensors = [nd(a) for a in arrays]
    assert all(a is b for a, b in zip(hvd.grouped_allreduce_(tensors, op=hvd.Sum, name="g"), tensors))
    for found, wanted in zip(tensors, totals):
        same(found, wanted)
    same(hvd.grouped_allgather([nd(arrays[0])])[0], np.concatenate([part(r, (3,), "float32") for r in range(size)]))
    same(hvd.grouped_reducescatter([nd(np.ones((size, 2), "float32"))], op=hvd.Sum)[0], np.full((1, 2), size, "float32"))
    assert hvd.grouped_allreduce([]) == []


def check_order():
    """Reads and writes come in the program's order, and many are in flight, in opposite orders on the ranks."""
    rank, size = hvd.rank(), hvd.size()
    array = mx.nd.ones(1000)
    for _ in range(10):
        array = hvd.allreduce(array * 2, op=hvd.Average) + 1
        hvd.allreduce_(array, op=hvd.Average)
        array -= 1
    same(array, np.full(1000, 1024, "float32"))
    numbers = range(200) if rank % 2 or NAIVE else reversed(range(200))
    found = {i: hvd.allreduce(mx.nd.full((5,), i), op=hvd.Sum, name=f"many.{i}") for i in numbers}
    for i in range(200):
        same(found[i], np.full(5, i * size, "float32"))
    slow = mx.nd.dot(mx.nd.ones((400, 400)), mx.nd.ones((400, 400)))[0, :2] * 0 + 5
    inputs = [slow, mx.nd.ones(2)] if rank == 0 else [mx.nd.full(2, 5), mx.nd.ones(2)]
    pair = [hvd.allreduce(one, op=hvd.Sum, name="twice") for one in inputs]  # ready in opposite orders
    same(pair[0], np.full(2, 5 * size, "float32"))
    same(pair[1], np.full(2, size, "float32"))
    whole = mx.nd.arange(6).reshape((3, 2))
    hvd.allreduce_(whole[1:2], op=hvd.Sum)  # a view
    same(whole, np.array([[0, 1], [2 * size, 3 * size], [4, 5]], "float32"))
    image = mx.nd.Convolution(mx.nd.ones((1, 16, 8, 8)), mx.nd.ones((16, 16, 3, 3)), kernel=(3, 3), num_filter=16, no_bias=True)
    same(hvd.allreduce(image, op=hvd.Sum), image.asnumpy() * size)


def check_errors():
    rank, size = hvd.rank(), hvd.size()
    if size > 1:

        def wrong():
            return hvd.allreduce(mx.nd.ones(3 if rank == 1 else 2), name="wrong")

        read = wrong if NAIVE else (wrong() + 1).asnumpy
        error = raises(mx.base.MXNetError, "HorovodMismatchError", read)
        assert '"wrong"' in str(error) and "[3]" in str(error) and "[2]" in str(error), error
    same(hvd.allreduce(mx.nd.ones(2), op=hvd.Sum), np.full(2, size, "float32"))  # and on it goes
    raises(NotImplementedError, "row_sparse", hvd.allreduce, mx.nd.sparse.zeros("row_sparse", (3, 2)))
    for operation in operations(hvd):
        for wrong in ([1.0], 3.0, np.ones(2), None):
            raises(TypeError, type(wrong).__name__, operation, wrong)
    check_no_set(hvd, mx.nd.ones(4))
    raises(AssertionError, "Adasum", hvd.allreduce, mx.nd.ones(1), op=hvd.Adasum)
    raises(AssertionError, "reducescatter", hvd.reducescatter, mx.nd.ones(1), op=hvd.Max)


def check_sets():
    rank, size = hvd.rank(), hvd.size()
    if size < 2:
        return
    evens = hvd.add_process_set(range(0, size, 2))
    if rank % 2 == 0:
        same(hvd.allreduce(mx.nd.ones(2), op=hvd.Sum, process_set=evens), np.full(2, len(evens.ranks), "float32"))
    # Members of a set have made a call without a name that the others have not. Nobody removes it before they are done.
    same(hvd.allreduce(mx.nd.ones(2), op=hvd.Sum), np.full(2, size, "float32"))
    hvd.remove_process_set(evens)
    raises(ValueError, "not registered", hvd.allreduce, mx.nd.ones(1), process_set=evens)


def check_parameters():
    rank, size = hvd.rank(), hvd.size()
    arrays = {"b": mx.nd.full((2,), rank), "a": mx.nd.full((1,), rank)}
    hvd.broadcast_parameters(arrays, root_rank=size - 1)
    same(arrays["a"], np.full(1, size - 1, "float32"))
    mx.random.seed(rank)
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    net.add(mx.gluon.nn.Dense(3, in_units=2, prefix="known_"), mx.gluon.nn.Dense(2, prefix="later_"))
    net.initialize(mx.init.Normal(1.0))
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    net(mx.nd.ones((1, 2)))  # the second layer gets its shape here
    values = [p.data().asnumpy().tolist() for _key, p in sorted(net.collect_params().items())]
    assert all(one == values for one in hvd.allgather_object(values)) and len(values) == 4
    raises(ValueError, "neither", hvd.broadcast_parameters, [1])
    assert hvd.broadcast_object((rank, "x"), 0) == (0, "x")


raises(ValueError, "not been initialized", hvd.allreduce, mx.nd.ones(1))
hvd.init()
for check in (check_values, check_other_dtypes, check_groups, check_order, check_errors, check_sets, check_parameters):
    check()
# Rank 0 is in no hurry; the others leave without a look at their last result.
late, ranks = mx.nd.ones(1), hvd.size()
if hvd.rank() == 0:
    time.sleep(0.3)
hvd.allreduce_(late, op=hvd.Sum, name="late")
hvd.shutdown()
same(late, np.full(1, ranks, "float32"))
hvd.init()
same(hvd.allreduce(mx.nd.ones(1), op=hvd.Sum), np.full(1, hvd.size(), "float32"))
print("mxnet_ops: ok")
