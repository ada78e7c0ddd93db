# SPDX-License-Identifier: Apache-2.0
"""Gradients of the operations.

The convention is Horovod's: the loss of the job is the mean of the ranks' losses where an operation averages. So the gradient of
an allgather is averaged over the ranks, not summed.
"""

import tensorflow as tf

from horovod.common import basics
from horovod.common.process_sets import set_with_number
from horovod.tensorflow import _rules, mpi_ops

_SMOOTH = (basics.Average, basics.Sum, basics.Adasum)


def _attributes(op, names):
    return {name: _plain(op.get_attr(name)) for name in (*names, "process_set_id")}


def _plain(value):
    return value.decode() if isinstance(value, bytes) else value


def _reduction(attributes):
    factors = [float.fromhex(part) for part in attributes["exact_factors"].split()]
    prescale, postscale = factors or (attributes["prescale_factor"], attributes["postscale_factor"])
    return {
        "op": attributes["reduce_op"],
        "prescale_factor": prescale,
        "postscale_factor": postscale,
        "process_set": set_with_number(attributes["process_set_id"]),
    }


def _given(gradients, tensors):
    """Zeros where no gradient arrives: the other ranks wait for this one's part."""
    return [tf.zeros_like(tensor) if gradient is None else gradient for gradient, tensor in zip(gradients, tensors)]


def _of_choice(tensor, total, options):
    """The gradient of Min, Max and Product for this rank's tensor, where the loss is the sum of the ranks' losses, so that
    ``total``, the gradient of the result, is the sum of theirs.

    Min and Max pass it to the rank that had the extremum; ranks that had it together share it.
    """
    op, process_set = options["op"], options["process_set"]
    scaled = tensor * tf.cast(options["prescale_factor"], tensor.dtype)

    def reduced(value, reduce_op):
        return mpi_ops._allreduce(value, op=reduce_op, process_set=process_set)

    if op == basics.Product:
        zero = tf.equal(scaled, 0)
        zeros = reduced(tf.cast(zero, tf.int32), basics.Sum)
        nonzero = tf.where(zero, tf.ones_like(scaled), scaled)
        product = reduced(nonzero, basics.Product)
        others = tf.where(zero, product, product / nonzero)
        factor = tf.where(tf.equal(zeros, tf.cast(zero, tf.int32)), others, tf.zeros_like(others))
    else:
        chosen = tf.cast(tf.equal(scaled, reduced(scaled, op)), tensor.dtype)
        factor = chosen / tf.maximum(reduced(chosen, basics.Sum), tf.ones_like(chosen))
    return total * factor * tf.cast(options["prescale_factor"] * options["postscale_factor"], tensor.dtype)


def allreduce(attributes, inputs, gradients):
    """The gradient goes through the same reduction, for Min, Max and Product to the values that made the result."""
    options = _reduction(attributes)
    gradients = _given(gradients, inputs)
    if options["op"] not in _SMOOTH:
        totals = _all_reduced(gradients, {"op": basics.Sum, "process_set": options["process_set"]})
        return [_of_choice(tensor, total, options) for tensor, total in zip(inputs, totals)]
    return _all_reduced(gradients, options)


def _all_reduced(gradients, options):
    if len(gradients) == 1:
        return [mpi_ops._allreduce(gradients[0], **options)]
    return mpi_ops._grouped_allreduce(gradients, **options)


def allgather(attributes, inputs, gradients):
    """Average of the gradient over the ranks, of which this rank takes its own rows."""
    process_set = set_with_number(attributes["process_set_id"])
    rows = [tf.shape(tensor, tf.int64)[0] if tensor.shape.rank else tf.constant(1, tf.int64) for tensor in inputs]
    every = tf.reshape(mpi_ops.allgather(tf.stack(rows), process_set=process_set), [-1, len(inputs)])
    place = process_set.ranks.index(basics.rank())
    averaged = mpi_ops._grouped_allreduce(gradients, op=basics.Average, process_set=process_set)
    starts = tf.reduce_sum(every[:place], axis=0)
    parts = [part[starts[i] : starts[i] + rows[i]] for i, part in enumerate(averaged)]
    return [tf.reshape(part, tf.shape(tensor)) for part, tensor in zip(parts, inputs)]


def broadcast(attributes, inputs, gradients):
    """Average over the ranks at the root, nothing elsewhere."""
    process_set = set_with_number(attributes["process_set_id"])
    averaged = mpi_ops._allreduce(gradients[0], op=basics.Average, process_set=process_set)
    return [averaged if basics.rank() == attributes["root_rank"] else averaged * 0]


def gather(attributes, inputs, gradients):
    """The root's rows go back to where they came from."""
    process_set = set_with_number(attributes["process_set_id"])
    rows = tf.shape(inputs[0])[:1] if inputs[0].shape.rank else tf.constant([1])
    every = mpi_ops.allgather(rows, process_set=process_set)
    splits = every if basics.rank() == attributes["root_rank"] else tf.zeros_like(every)
    back, _splits = mpi_ops.alltoall(gradients[0], splits, process_set=process_set)
    return [tf.reshape(back, tf.shape(inputs[0]))]


def alltoall(attributes, inputs, gradients, received):
    """The rows go back to where they came from."""
    process_set = set_with_number(attributes["process_set_id"])
    back, _splits = mpi_ops.alltoall(gradients[0], received, process_set=process_set)
    missing = tf.shape(inputs[0])[:1] - tf.shape(back)[:1]  # rows that were not sent
    return [tf.concat([back, tf.zeros(tf.concat([missing, tf.shape(back)[1:]], 0), back.dtype)], 0), None]


def reducescatter(attributes, inputs, gradients):
    """allgather of the parts; of a sum it is the sum of all ranks' losses, hence times their number. Of Min, Max and Product it
    goes to the values that made the result."""
    options = _reduction(attributes)
    if options["op"] not in _SMOOTH:
        totals = mpi_ops.grouped_allgather(gradients, process_set=options["process_set"])
        return [_of_choice(tensor, total, options) for tensor, total in zip(inputs, totals)]
    factor = options["prescale_factor"] * options["postscale_factor"]
    if options["op"] == basics.Sum:
        factor *= len(options["process_set"].ranks)
    parts = mpi_ops.grouped_allgather(gradients, process_set=options["process_set"])
    return [part if factor == 1.0 else part * tf.cast(factor, part.dtype) for part in parts]


_OF_REDUCTION = ("reduce_op", "prescale_factor", "postscale_factor", "exact_factors")


for _rule in (allreduce, allgather, broadcast, gather, alltoall, reducescatter):
    _rules.add(_rule.__name__, _rule)


def _register(name, function, attributes=()):
    tf.RegisterGradient(name)(
        lambda op, *gradients: function(_attributes(op, attributes), list(op.inputs), list(gradients))
    )


def register():
    """Tells TensorFlow the gradients of the library's operations."""
    for group in ("", "Grouped"):
        _register(f"Horovod{group}Allreduce", allreduce, _OF_REDUCTION)
        _register(f"Horovod{group}Reducescatter", reducescatter, _OF_REDUCTION)
        _register(f"Horovod{group}Allgather", allgather)
    _register("HorovodBroadcast", broadcast, ("root_rank",))
    _register("HorovodGather", gather, ("root_rank",))
    tf.RegisterGradient("HorovodAlltoall")(
        lambda op, *gradients: alltoall(_attributes(op, ()), list(op.inputs), gradients[:1], op.outputs[1])
    )
    tf.RegisterGradient("HorovodGroupedResults")(lambda _op, *gradients: list(gradients))
    for kind in ("Size", "ProcessSetIncluded", "LocalSize", "Rank", "LocalRank", "Join", "Barrier"):
        tf.no_gradient(f"Horovod{kind}")
