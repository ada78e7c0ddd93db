# SPDX-License-Identifier: Apache-2.0
"""Operations on TensorFlow tensors, eager and inside tf.function: values, shapes, names, and gradients by their formulas."""

import os

import numpy as np
import tensorflow as tf
from errors import check_no_set, operations, raises

import horovod.tensorflow as hvd
from horovod.tensorflow import _library

REDUCED = [
    tf.uint8, tf.int8, tf.uint16, tf.int16, tf.uint32, tf.int32, tf.uint64, tf.int64, tf.float16, tf.bfloat16, tf.float32, tf.float64,
    tf.complex64, tf.complex128,
]  # fmt: skip
# Not every version has the latter.
OF_SOME = [
    getattr(tf.dtypes.experimental, name)
    for name in "float8_e5m2 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2fnuz int4 uint4".split()
    if hasattr(tf.dtypes.experimental, name)
]
MOVED = [*REDUCED, tf.bool, *OF_SOME]


def part(rank, shape, dtype):
    count = int(np.prod(shape))
    numbers = ((np.arange(count) * (rank + 1)) % 3 + rank % 2).reshape(shape)
    if dtype in OF_SOME:  # TensorFlow has few operations for them
        return tf.constant(numbers.astype(dtype.as_numpy_dtype))
    return tf.cast(numbers * (1 + 2j) if dtype.is_complex else numbers, dtype)


def same(found, wanted):
    found, wanted = tf.convert_to_tensor(found), tf.convert_to_tensor(wanted)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found, wanted)
    assert np.array_equal(found.numpy(), wanted.numpy()), (found, wanted)


def total(shape, dtype):
    return tf.cast(sum(part(r, shape, tf.complex128 if dtype.is_complex else tf.float64) for r in range(hvd.size())), dtype)


def joined(parts):
    return tf.constant(np.concatenate([np.asarray(one) for one in parts]))


def both_ways(function):
    """The function, and the function as a graph whose inputs have no known shape."""

    def in_graph(*tensors):
        unknown = [tf.TensorSpec(None, tensor.dtype) for tensor in tensors]
        return tf.function(function, input_signature=unknown)(*tensors)

    return function, in_graph


def check_values(way):
    rank, size = hvd.rank(), hvd.size()
    for dtype in REDUCED:
        summed = both_ways(lambda x: hvd.allreduce(x, op=hvd.Sum, name="t"))[way]
        for shape in [(), (4,), (3, 2), (0, 2)]:
            same(summed(part(rank, shape, dtype)), total(shape, dtype))
        scattered = both_ways(lambda x: hvd.reducescatter(x, op=hvd.Sum))[way]
        rows = 2 * size + 1
        start = rank * 2 + min(rank, 1)
        same(scattered(part(rank, (rows, 2), dtype)), total((rows, 2), dtype)[start : start + 2 + (rank == 0)])
    for dtype in MOVED:
        parts = [part(r, (r + 1, 2), dtype) for r in range(size)]
        same(both_ways(hvd.allgather)[way](parts[rank]), joined(parts))
        on_root = both_ways(lambda x: hvd.gather(x, size - 1))[way]
        same(on_root(parts[rank]), joined(parts if rank == size - 1 else [part(0, (0, 2), dtype)]))
        last = both_ways(lambda x: hvd.broadcast(x, size - 1))[way]
        same(last(part(rank, (3,), dtype)), part(size - 1, (3,), dtype))
        wanted = joined([part(r, (size,), dtype).numpy()[rank : rank + 1] for r in range(size)])
        same(both_ways(hvd.alltoall)[way](part(rank, (size,), dtype)), wanted)
    splits = tf.ones(size, tf.int32)
    output, received = both_ways(lambda x, s: hvd.alltoall(x, splits=s))[way](tf.range(float(size)), splits)
    same(output, tf.fill([size], float(rank)))
    same(received, splits)
    for op, wanted in ((hvd.Min, 1.0), (hvd.Max, float(size)), (hvd.Product, float(np.prod(np.arange(1, size + 1))))):
        same(both_ways(lambda x: hvd.allreduce(x, op=op))[way](tf.fill([2], rank + 1.0)), tf.fill([2], wanted))
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        compressed = both_ways(lambda x: hvd.allreduce(x, op=hvd.Sum, compression=compression))[way]
        same(compressed(tf.fill([3], rank + 1.0)), tf.fill([3], size * (size + 1) / 2.0))
    thirds = both_ways(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=1 / 3, postscale_factor=0.7))[way]
    found = thirds(tf.ones(1, tf.float64))
    assert abs(found[0] - size * 0.7 / 3) < 1e-15, found


def check_groups(way):
    rank, size = hvd.rank(), hvd.size()
    totals = [total((3,), tf.float32), total((2, 2), tf.int64)]
    grouped = both_ways(lambda a, b: hvd.grouped_allreduce([a, b], op=hvd.Sum))[way]
    for found, wanted in zip(grouped(part(rank, (3,), tf.float32), part(rank, (2, 2), tf.int64)), totals):
        same(found, wanted)
    gathered = both_ways(lambda a, b: hvd.grouped_allgather([a, b]))[way]
    found = gathered(tf.fill([rank + 1], rank), tf.fill([1, 2], float(rank)))
    same(found[0], tf.concat([tf.fill([r + 1], r) for r in range(size)], 0))
    same(found[1], tf.concat([tf.fill([1, 2], float(r)) for r in range(size)], 0))
    scattered = both_ways(lambda a, b: hvd.grouped_reducescatter([a, b], op=hvd.Average))[way]
    found = scattered(tf.range(float(size)), tf.range(2.0 * size))
    same(found[0], tf.constant([float(rank)]))
    same(found[1], tf.constant([2.0 * rank, 2.0 * rank + 1]))
    assert hvd.grouped_allreduce([]) == []


def check_slices(way):
    rank, size = hvd.rank(), hvd.size()

    def reduced(values, indices):
        slices = tf.IndexedSlices(values, indices, dense_shape=tf.constant([10, 2]))
        one = hvd.allreduce(slices, op=hvd.Average)
        mixed = hvd.grouped_allreduce([values[0], slices, values[0] * 2], op=hvd.Sum)
        return one.values, one.indices, mixed[0], mixed[1].values, mixed[2]

    found = both_ways(reduced)[way](tf.fill([rank + 1, 2], rank + 1.0), tf.range(rank + 1))
    rows = tf.concat([tf.fill([r + 1, 2], r + 1.0) for r in range(size)], 0)
    same(found[0], rows / size)
    same(found[1], tf.concat([tf.range(r + 1) for r in range(size)], 0))
    same(found[2], tf.fill([2], size * (size + 1) / 2.0))
    same(found[3], rows)
    same(found[4], tf.fill([2], size * (size + 1.0)))
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]))
    raises(NotImplementedError, "sparse_as_dense", hvd.allreduce, slices, op=hvd.Adasum)
    raises(NotImplementedError, "factors", hvd.allreduce, slices, prescale_factor=2.0)
    raises(NotImplementedError, "op", hvd.allreduce, slices, op=hvd.Max)


def gradient(function, tensor, upstream, way):
    def step(tensor, upstream):
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            loss = tf.reduce_sum(function(tensor) * upstream)
        return tape.gradient(loss, tensor)

    return (step if way == 0 else tf.function(step))(tensor, upstream)


def check_gradients(way):
    rank, size = hvd.rank(), hvd.size()
    mine = tf.constant([1.0, 2.0]) * (rank + 1.0)
    sum_of_ranks = size * (size + 1) / 2.0
    for op, factor in ((hvd.Sum, 1.0), (hvd.Average, 1.0 / size)):
        found = gradient(lambda x: hvd.allreduce(x, op=op, prescale_factor=0.5), mine, rank + 1.0, way)
        same(found, tf.fill([2], np.float32(sum_of_ranks * factor * 0.5)))
        found = gradient(lambda x: tf.add_n(hvd.grouped_allreduce([x, 2 * x], op=op)), mine, rank + 1.0, way)
        same(found, tf.fill([2], np.float32(3 * sum_of_ranks * factor)))
        found = gradient(lambda x: hvd.grouped_allreduce([x, 2 * x], op=op)[1], mine, rank + 1.0, way)
        same(found, tf.fill([2], np.float32(2 * sum_of_ranks * factor)))
        rows = tf.ones([2 * size, 1])
        found = gradient(lambda x: hvd.reducescatter(x, op=op), rows, rank + 1.0, way)
        wanted = tf.concat([tf.fill([2, 1], r + 1.0) for r in range(size)], 0) * (size if op == hvd.Sum else 1.0)
        same(found, wanted)
    own = tf.ones([2 * size, 1]) * (rank + 1.0)
    wanted = tf.concat([tf.fill([2, 1], r + 1.0) for r in range(size)], 0)
    found = gradient(lambda x: hvd.reducescatter(x, op=hvd.Max), own, rank + 1.0, way)
    same(found, wanted * float(rank == size - 1))
    found = gradient(lambda x: tf.add_n(hvd.grouped_reducescatter([x, x], op=hvd.Min)), own, rank + 1.0, way)
    same(found, wanted * 2.0 * float(rank == 0))
    found = gradient(lambda x: hvd.allreduce(x, op=hvd.Max), mine, rank + 1.0, way)
    same(found, tf.fill([2], sum_of_ranks if rank == size - 1 else 0.0))
    found = gradient(lambda x: hvd.allreduce(x, op=hvd.Product), tf.fill([1], rank + 1.0), 1.0, way)
    assert abs(found[0] - size * np.prod(np.arange(1, size + 1)) / (rank + 1)) < 1e-4, found
    gathered = tf.range(size * (size + 1) / 2.0)  # the upstream gradient of all rows
    start = rank * (rank + 1) // 2
    found = gradient(hvd.allgather, tf.ones([rank + 1]), gathered, way)
    same(found, gathered[start : start + rank + 1])
    rows = tf.ones([rank + 1])
    found = gradient(lambda x: hvd.gather(x, 0), rows, gathered if rank == 0 else gathered[:0], way)
    same(found, gathered[start : start + rank + 1])
    found = gradient(lambda x: hvd.broadcast(x, 0), mine, rank + 1.0, way)
    same(found, tf.fill([2], np.float32(sum_of_ranks / size) if rank == 0 else np.float32(0)))
    splits = tf.ones(size, tf.int32)
    found = gradient(lambda x: hvd.alltoall(x, splits)[0], tf.ones([size + 1]), rank + 1.0, way)
    same(found, tf.concat([tf.range(1.0, size + 1.0), [0.0]], 0))


def check_shapes():
    @tf.function(input_signature=[tf.TensorSpec([4, None, 3], tf.float32)])
    def shapes(x):
        assert hvd.allreduce(x).shape.as_list() == [4, None, 3]
        assert hvd.grouped_allreduce([x, x])[1].shape.as_list() == [4, None, 3]
        # Results of a node that waits for other ranks would be handed to threads one by one.
        handed = hvd.grouped_allgather([x, x])[0]
        assert handed.shape.as_list() == [None, None, 3] and (handed.op.type == "HorovodGroupedResults") == _library.native
        assert hvd.broadcast(x, 0).shape.as_list() == [4, None, 3]
        assert hvd.allgather(x).shape.as_list() == [None, None, 3]
        assert hvd.gather(x, 0).shape.as_list() == [None, None, 3]
        assert hvd.allgather(x[0, 0, 0]).shape.as_list() == [None]
        assert hvd.reducescatter(x).shape.as_list() == [None, None, 3]
        assert [y.shape.as_list() for y in hvd.alltoall(x, [4])] == [[None, None, 3], [None]]
        return tf.constant(0)

    shapes.get_concrete_function()


def check_facts():
    @tf.function
    def facts():
        return hvd.size_op(), hvd.rank_op(), hvd.local_size_op(), hvd.local_rank_op(), hvd.process_set_included_op()

    wanted = [hvd.size(), hvd.rank(), hvd.local_size(), hvd.local_rank(), 1]
    assert [int(fact) for fact in facts()] == wanted
    assert int(hvd.size_op()) == hvd.size() and facts()[0].dtype == tf.int32


def check_names():
    raises(ValueError, "both", hvd.allreduce, tf.ones(1), average=True, op=hvd.Sum)
    raises(ValueError, "not registered", hvd.allreduce, tf.ones(1), process_set=hvd.ProcessSet([0]))
    raises((TypeError, ValueError, tf.errors.InvalidArgumentError), "", hvd.allreduce, tf.constant("text"))

    @tf.function
    def scoped(x):
        with tf.name_scope("outer"):
            return hvd.allreduce(x, op=hvd.Sum, name="inner"), hvd.allreduce(x, op=hvd.Sum, ignore_name_scope=True)

    for found in scoped(tf.ones(2)):
        same(found, tf.fill([2], float(hvd.size())))


def check_what_is_not_sent():
    text = tf.constant(["text"])
    for operation in (hvd.allgather, hvd.alltoall, lambda tensor: hvd.broadcast(tensor, 0), lambda tensor: hvd.grouped_allgather([tensor])):
        raises(TypeError, "tensors of string cannot be sent", operation, text)
        raises(TypeError, "tensors of string cannot be sent", tf.function(operation, autograph=False), text)
    same(hvd.allreduce(tf.ones(2), op=hvd.Sum), tf.fill([2], float(hvd.size())))


def check_wrong_arguments():
    for operation in operations(hvd):
        raises(TypeError, "object is not a ", operation, object())
    for operation in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
        raises(TypeError, "float is not a list of tensors", operation, 3.0)
    check_no_set(hvd, tf.ones(4))
    raises(TypeError, "not a ProcessSet", hvd.DistributedGradientTape, tf.GradientTape(), process_set=0)
    sgd = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    raises(TypeError, "not a ProcessSet", hvd.DistributedOptimizer, sgd, process_set=0)
    same(hvd.allreduce(3.0, op=hvd.Sum), tf.constant(3.0 * hvd.size()))


def check_loop():
    """One node that runs several times; and it runs even if its result is not used."""

    @tf.function
    def loop(x):
        for _ in tf.range(5):
            x = hvd.allreduce(x, op=hvd.Average) + 1.0
            hvd.barrier()
        return x

    same(loop(tf.zeros(2)), tf.fill([2], 5.0))


def check_xla():
    """XLA has no way to wait for other ranks; TensorFlow says which operation it cannot compile."""
    compiled = tf.function(lambda x: hvd.allreduce(x * 2), jit_compile=True)
    raises(tf.errors.OpError, "HorovodAllreduce", compiled, tf.ones(2))


def check_sets():
    if hvd.size() < 2:
        return
    pair = hvd.add_process_set([0, 1]) if hvd.size() > 2 else hvd.global_process_set

    @tf.function
    def summed(x):
        return hvd.allreduce(x, op=hvd.Average, process_set=pair), hvd.size_op(pair.process_set_id)

    if hvd.rank() < 2:
        found, size = summed(tf.fill([2], float(hvd.rank())))
        same(found, tf.fill([2], 0.5))
        assert int(size) == 2
        same(hvd.reducescatter(tf.ones([2, 1]), op=hvd.Sum, process_set=pair), tf.fill([1, 1], 2.0))
        same(hvd.broadcast(tf.fill([1], hvd.rank()), 1, process_set=pair), tf.constant([1]))
    assert int(hvd.process_set_included_op(pair.process_set_id)) == (hvd.rank() < 2)
    assert hvd.remove_process_set(pair) == (hvd.size() > 2)


def check_join():
    rank, size = hvd.rank(), hvd.size()
    for _ in range(rank + 1):
        hvd.allreduce(tf.ones(2), op=hvd.Sum, name="uneven")
    assert int(hvd.join()) == size - 1


def check_objects():
    rank, size = hvd.rank(), hvd.size()
    assert hvd.broadcast_object({"rank": rank}, size - 1) == {"rank": size - 1}
    assert hvd.broadcast_object_fn(0, name="fn")([rank]) == [0]
    assert hvd.allgather_object("x" * rank) == ["x" * r for r in range(size)]
    variables = [tf.Variable(tf.fill([2], float(rank + i))) for i in range(3)] + [tf.Variable(rank == 0)]
    hvd.broadcast_variables(variables, size - 1)
    same(variables[2], tf.fill([2], size + 1.0))
    same(variables[3], size == 1)
    variables[0].assign(tf.fill([2], float(rank)))
    tf.function(lambda: hvd.broadcast_variables(variables, 0))()
    same(variables[0], tf.fill([2], 0.0))
    same(hvd.broadcast_([tf.Variable(rank)], size - 1)[0], size - 1)
    raises(RuntimeError, "broadcast_variables", hvd.broadcast_global_variables, 0)
    assert hvd.refs_to_vars(hvd.vars_to_refs(variables))[0] is variables[0]


if __name__ == "__main__":
    assert _library.native == (os.environ.get("HVD_TENSORFLOW_OPS") != "python"), "the library does not load; the log says why"
    raises(ValueError, "init", hvd.allreduce, tf.ones(1))
    hvd.init()
    for way in (0, 1):
        check_values(way)
        check_groups(way)
        check_slices(way)
        check_gradients(way)
    check_shapes()
    check_facts()
    check_names()
    check_what_is_not_sent()
    check_wrong_arguments()
    check_loop()
    if _library.native:
        check_xla()
    check_sets()
    check_objects()
    check_join()
    hvd.shutdown()
    raises(ValueError, "init", hvd.allreduce, tf.ones(1))
    error = raises(tf.errors.OpError, "hvd.init()", tf.function(lambda: hvd.rank_op()))
    hvd.init()
    same(hvd.allreduce(tf.ones(1), op=hvd.Sum), tf.fill([1], float(hvd.size())))
    hvd.shutdown()
    print("tensorflow_ops: ok")
