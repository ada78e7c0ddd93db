# SPDX-License-Identifier: Apache-2.0
"""The operations on dense tensors, eager and in graphs: one node each.

In a graph an operation is called as its node, so ranks agree on names without being told. Eager operations without a name are
matched by their order.
"""

import re

import numpy as np
import tensorflow as tf

from horovod.common import basics
from horovod.common.flavour import *  # noqa: F403 - part of the module's interface
from horovod.common.process_sets import checked
from horovod.common.util import listed
from horovod.tensorflow._library import operations


def _number(process_set, kind):
    number = checked(process_set, kind).process_set_id
    return 0 if number is None else number


def _place(kind, op_name, tensors, name, process_set, ignore_name_scope=False):
    """The arguments that say how an operation is called and where it runs."""
    number = _number(process_set, kind)
    if tf.executing_eagerly():
        if basics._session is None:
            basics.session()  # says that init is missing
        return {"tensor_name": name or "", "use_node_name": False, "process_set_id": number}
    return {
        "use_node_name": True,
        "ignore_name_scope": ignore_name_scope,
        "process_set_id": number,
        "name": _node_name(name) if name else f"{op_name}_{_of_tensors(tensors)}",
    }


def _node_name(name):
    """The name as TensorFlow accepts it."""
    name = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name)
    return name if re.match(r"[A-Za-z0-9.]", name) else f"hvd{name}"


def _of_tensors(tensors):
    ends = tensors if len(tensors) < 2 else (tensors[0], tensors[-1])
    return "_".join(re.sub(r"[^A-Za-z0-9_]", "_", tensor.name) for tensor in ends)


def _reduction(op, prescale_factor, postscale_factor):
    factors = float(prescale_factor), float(postscale_factor)
    given = {"reduce_op": int(op), "prescale_factor": factors[0], "postscale_factor": factors[1]}
    if any(float(np.float32(factor)) != factor for factor in factors):
        given["exact_factors"] = " ".join(factor.hex() for factor in factors)
    return given


def _results(tensors):
    """The results of a grouped operation, in a graph such that whatever needs them need not be handed to threads one by one."""
    tensors = list(tensors)
    return tensors if tf.executing_eagerly() else list(operations.horovod_grouped_results(tensors))


def _tensor(value, kind):
    if tf.is_tensor(value) and not isinstance(value, tf.Variable):
        return value
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{kind}: {type(value).__name__} is not a tensor, and cannot be made one: {error}") from None


def _tensors(values, kind):
    return [_tensor(value, kind) for value in listed(values, kind)]


# Nodes of operations that only move take every type, because some of these have no name that they could be told apart by.
_MOVABLE = frozenset(
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e5m2 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2fnuz int4 uint4".split()
)


def _movable(value, kind):
    """The value as a tensor of bytes that mean the same on every rank."""
    tensor = _tensor(value, kind)
    if tensor.dtype.base_dtype.name not in _MOVABLE:
        raise TypeError(f"{kind}: tensors of {tensor.dtype.name} cannot be sent; broadcast_object and allgather_object send any object")
    return tensor


def _allreduce(
    tensor,
    name=None,
    op=Sum,
    prescale_factor=1.0,
    postscale_factor=1.0,
    ignore_name_scope=False,
    process_set=global_process_set,
):
    """allreduce of one dense tensor."""
    tensor = _tensor(tensor, "allreduce")
    place = _place("allreduce", "HorovodAllreduce", [tensor], name, process_set, ignore_name_scope)
    return operations.horovod_allreduce(tensor, **_reduction(op, prescale_factor, postscale_factor), **place)


def _grouped_allreduce(
    tensors,
    name=None,
    op=Sum,
    prescale_factor=1.0,
    postscale_factor=1.0,
    ignore_name_scope=False,
    process_set=global_process_set,
):
    """allreduce of several dense tensors as one operation. A list."""
    tensors = _tensors(tensors, "grouped_allreduce")
    if not tensors:
        return []
    place = _place("grouped_allreduce", "HorovodGroupedAllreduce", tensors, name, process_set, ignore_name_scope)
    reduction = _reduction(op, prescale_factor, postscale_factor)
    return _results(operations.horovod_grouped_allreduce(tensors, **reduction, **place))


def allgather(tensor, name=None, ignore_name_scope=False, process_set=global_process_set):
    """The tensors of all ranks one after another along the first dimension, which may differ between ranks."""
    tensor = _movable(tensor, "allgather")
    place = _place("allgather", "HorovodAllgather", [tensor], name, process_set, ignore_name_scope)
    return operations.horovod_allgather(tensor, **place)


def grouped_allgather(tensors, name=None, ignore_name_scope=False, process_set=global_process_set):
    """allgather of several tensors as one operation. A list."""
    tensors = [_movable(tensor, "grouped_allgather") for tensor in listed(tensors, "grouped_allgather")]
    if not tensors:
        return []
    place = _place("grouped_allgather", "HorovodGroupedAllgather", tensors, name, process_set, ignore_name_scope)
    return _results(operations.horovod_grouped_allgather(tensors, **place))


def broadcast(tensor, root_rank, name=None, ignore_name_scope=False, process_set=global_process_set):
    """The tensor that ``root_rank`` has, which is a rank of the job, also in a set."""
    tensor = _movable(tensor, "broadcast")
    place = _place("broadcast", "HorovodBroadcast", [tensor], name, process_set, ignore_name_scope)
    return operations.horovod_broadcast(tensor, root_rank=root_rank, **place)


def broadcast_(variables, root_rank, name=None, process_set=global_process_set):
    """Gives variables the values that they have on ``root_rank``; returns what they hold then."""
    checked(process_set, "broadcast")
    variables = listed(variables, "broadcast")
    for variable in variables:
        if not hasattr(variable, "assign"):
            raise TypeError(f"broadcast: {type(variable).__name__} is not a variable")
    received = [
        broadcast(variable, root_rank, f"{name}_{index}" if name else None, process_set=process_set)
        for index, variable in enumerate(variables)
    ]
    return [variable.assign(value) for variable, value in zip(variables, received)]


def gather(tensor, root_rank, name=None, ignore_name_scope=False, process_set=global_process_set):
    """On ``root_rank``, a rank of the job also in a set, the tensors of all ranks one after another along the first dimension,
    which may differ between ranks. The other ranks get a tensor without rows.
    """
    tensor = _movable(tensor, "gather")
    place = _place("gather", "HorovodGather", [tensor], name, process_set, ignore_name_scope)
    return operations.horovod_gather(tensor, root_rank=root_rank, **place)


def alltoall(tensor, splits=None, name=None, ignore_name_scope=False, process_set=global_process_set):
    """``splits[i]`` rows go to the i-th rank of the set; the rows received, in the order of ranks.

    With ``splits`` the result is ``(output, received_splits)``, without it (equal parts) the output alone.
    """
    tensor = _movable(tensor, "alltoall")
    place = _place("alltoall", "HorovodAlltoall", [tensor], name, process_set, ignore_name_scope)
    rows = tf.constant([], tf.int32) if splits is None else tf.cast(tf.convert_to_tensor(splits), tf.int32)
    output, received = operations.horovod_alltoall(tensor, rows, **place)
    return output if splits is None else (output, received)


def _reducescatter(
    tensor,
    name=None,
    op=Sum,
    ignore_name_scope=False,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """reducescatter of one dense tensor."""
    tensor = _tensor(tensor, "reducescatter")
    place = _place("reducescatter", "HorovodReducescatter", [tensor], name, process_set, ignore_name_scope)
    return operations.horovod_reducescatter(tensor, **_reduction(op, prescale_factor, postscale_factor), **place)


def _grouped_reducescatter(
    tensors,
    name=None,
    op=Sum,
    ignore_name_scope=False,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """reducescatter of several dense tensors as one operation. A list."""
    tensors = _tensors(tensors, "grouped_reducescatter")
    if not tensors:
        return []
    place = _place("grouped_reducescatter", "HorovodGroupedReducescatter", tensors, name, process_set, ignore_name_scope)
    reduction = _reduction(op, prescale_factor, postscale_factor)
    return _results(operations.horovod_grouped_reducescatter(tensors, **reduction, **place))


def join():
    """This rank has no more data: it takes part in the others' allreduces without contributing until all have joined.

    Returns the rank that joined last.
    """
    basics.session()
    return operations.horovod_join()


def barrier(process_set=global_process_set, name=None):
    """Returns on no rank before every rank of the set has called it. In a graph: the operation."""
    return operations.horovod_barrier(**_place("barrier", "HorovodBarrier", [], name, process_set))


def size_op(process_set_id=0, name=None):
    """Number of ranks of the set, as known when the operation runs."""
    return operations.horovod_size(process_set_id=process_set_id, name=name)


def process_set_included_op(process_set_id=0, name=None):
    """1 if this rank is in the set, else 0, as known when the operation runs."""
    return operations.horovod_process_set_included(process_set_id=process_set_id, name=name)


def local_size_op(name=None):
    """Number of ranks on this host, as known when the operation runs."""
    return operations.horovod_local_size(name=name)


def rank_op(name=None):
    """This rank, as known when the operation runs."""
    return operations.horovod_rank(name=name)


def local_rank_op(name=None):
    """This rank's number on its host, as known when the operation runs."""
    return operations.horovod_local_rank(name=name)
