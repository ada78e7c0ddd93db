# SPDX-License-Identifier: Apache-2.0
"""allreduce, reducescatter and their groups as users call them: with compression, and on IndexedSlices."""

import tensorflow as tf

from horovod.common.basics import Adasum, Average, Sum
from horovod.common.process_sets import global_process_set
from horovod.common.util import listed, reduce_op_of
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.compression import Compression


def _set_size(process_set, dtype):
    """Number of ranks of the set when the operation runs, as a tensor."""
    number = mpi_ops._number(process_set, "size")
    return tf.cast(mpi_ops.size_op(number), dtype)


def _check_sparse(kind, op, prescale_factor, postscale_factor):
    if op == Adasum:
        raise NotImplementedError(f"{kind}: op Adasum of IndexedSlices is not supported; pass sparse_as_dense=True")
    if op not in (Average, Sum):
        raise NotImplementedError(f"{kind}: op {op} of IndexedSlices is not supported, only Average and Sum are")
    if prescale_factor != 1.0 or postscale_factor != 1.0:
        raise NotImplementedError(f"{kind}: factors are not supported for IndexedSlices")


def _divided(values, op, process_set):
    return values / _set_size(process_set, values.dtype) if op == Average else values


def _sparse_allreduce(slices, name, op, process_set, ignore_name_scope):
    """The entries of all ranks one after another, which is their sum; entries with the same index are not added."""
    options = {"ignore_name_scope": ignore_name_scope, "process_set": process_set}
    values = mpi_ops.allgather(slices.values, f"{name}.values" if name else None, **options)
    indices = mpi_ops.allgather(slices.indices, f"{name}.indices" if name else None, **options)
    return tf.IndexedSlices(_divided(values, op, process_set), indices, dense_shape=slices.dense_shape)


def allreduce(
    tensor,
    average=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    name=None,
    process_set=global_process_set,
    ignore_name_scope=False,
):
    """``postscale_factor * op(prescale_factor * tensor of every rank)``; ``op`` defaults to Average.

    Of ``tf.IndexedSlices`` the result is IndexedSlices with the entries of all ranks. ``device_dense`` and ``device_sparse`` are
    accepted for Horovod's sake: TensorFlow brings tensors to where the operation is.
    """
    op = reduce_op_of(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        _check_sparse("allreduce", op, prescale_factor, postscale_factor)
        return _sparse_allreduce(tensor, name, op, process_set, ignore_name_scope)
    sent, context = compression.compress(tensor)
    reduced = mpi_ops._allreduce(sent, name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
    return compression.decompress(reduced, context)


def grouped_allreduce(
    tensors,
    average=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
    ignore_name_scope=False,
    name=None,
):
    """allreduce of several tensors as one operation: none starts before all are ready on every rank. A list.

    Dense tensors and IndexedSlices may be mixed; dtypes may differ.
    """
    tensors = listed(tensors, "grouped_allreduce")
    if not tensors:
        return tensors
    op = reduce_op_of(op, average)
    results = tensors
    sparse = [i for i, tensor in enumerate(results) if isinstance(tensor, tf.IndexedSlices)]
    if sparse:
        _check_sparse("grouped_allreduce", op, prescale_factor, postscale_factor)
        parts = [part for i in sparse for part in (results[i].values, results[i].indices)]
        options = {"ignore_name_scope": ignore_name_scope, "process_set": process_set}
        gathered = mpi_ops.grouped_allgather(parts, f"{name}.sparse" if name else None, **options)
        for i, values, indices in zip(sparse, gathered[::2], gathered[1::2]):
            shape = results[i].dense_shape
            results[i] = tf.IndexedSlices(_divided(values, op, process_set), indices, dense_shape=shape)
    dense = [i for i in range(len(results)) if i not in set(sparse)]
    sent = [compression.compress(results[i]) for i in dense]
    reduced = mpi_ops._grouped_allreduce(
        [tensor for tensor, _context in sent], name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set
    )
    for i, tensor, (_sent, context) in zip(dense, reduced, sent):
        results[i] = compression.decompress(tensor, context)
    return results


def reducescatter(
    tensor,
    device_dense="",
    compression=Compression.none,
    op=Average,
    name=None,
    process_set=global_process_set,
    ignore_name_scope=False,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """The reduction of allreduce, of which every rank gets its part of the rows; the first ranks one more if needed."""
    sent, context = compression.compress(tensor)
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    part = mpi_ops._reducescatter(sent, name, op, ignore_name_scope, process_set, **factors)
    return compression.decompress(part, context)


def grouped_reducescatter(
    tensors,
    device_dense="",
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """reducescatter of several tensors as one operation. A list."""
    tensors = listed(tensors, "grouped_reducescatter")
    if not tensors:
        return tensors
    sent = [compression.compress(tensor) for tensor in tensors]
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    parts = [tensor for tensor, _context in sent]
    parts = mpi_ops._grouped_reducescatter(parts, op=op, process_set=process_set, **factors)
    return [compression.decompress(part, context) for part, (_sent, context) in zip(parts, sent)]
