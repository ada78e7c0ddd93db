# SPDX-License-Identifier: Apache-2.0
"""The operations on NDArrays.

allreduce and broadcast are asynchronous as everything in MXNet: they return at once, and whoever reads the result waits for
it, and gets its error as an ``MXNetError``. The others, whose results have no shape before, wait.
"""

import itertools

import mxnet as mx
import numpy as np

from horovod import _ops
from horovod._native import constants
from horovod.common import basics
from horovod.common.basics import Adasum, Average, Sum
from horovod.common.documentation import explain
from horovod.common.process_sets import ByRegistration, checked, global_process_set
from horovod.common.util import reduce_op_of
from horovod.mxnet._engine import Operation, on_host

_unnamed = ByRegistration(lambda: itertools.count(1))


@basics.at_shutdown
def _count_anew(_session):
    _unnamed.clear()


def _name(kind, name, process_set):
    """MXNet runs operations in any order, so those of a set without a name are numbered where they are called."""
    checked(process_set, kind)
    return f"noname.{next(_unnamed[process_set])}" if name is None else name


def _fresh(array, kind):
    on_host(array, kind)
    module = mx.np if isinstance(array, mx.np.ndarray) else mx.nd
    return module.empty(array.shape, ctx=array.context, dtype=array.dtype)


def _run(kind, pairs, name, process_set, priority, **options):
    basics.session()
    for source, target in pairs:
        on_host(source, constants.KIND_NAMES[kind])
        if source is not target and source.ndim > 2:
            # A result of MXNet's own kernels may be in another order than its shape says until it is asked for.
            _in_plain_order(source)
    Operation(kind, pairs, _name(constants.KIND_NAMES[kind], name, process_set), process_set, priority, **options)
    return [target for _source, target in pairs]


def _in_plain_order(array):
    from horovod.mxnet._engine import _address

    array.wait_to_read()
    _address(array)


def _reduction(average, op, prescale_factor, postscale_factor):
    chosen = reduce_op_of(op, average)
    assert chosen != Adasum, "allreduce: Adasum is not supported with MXNet"
    return {"reduce_op": chosen, "prescale": prescale_factor, "postscale": postscale_factor}


def allreduce(
    tensor,
    average=None,
    name=None,
    priority=0,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
    op=None,
):
    """``postscale_factor * op(prescale_factor * tensor of every rank)`` as a new array; ``op`` defaults to Average.

    ``priority`` is MXNet's: work with a higher one is done first.
    """
    options = _reduction(average, op, prescale_factor, postscale_factor)
    return _run(constants.ALLREDUCE, [(tensor, _fresh(tensor, "allreduce"))], name, process_set, priority, **options)[0]


def allreduce_(
    tensor,
    average=None,
    name=None,
    priority=0,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
    op=None,
):
    """Like allreduce, but the result replaces the contents of ``tensor``, which is returned."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    return _run(constants.ALLREDUCE, [(tensor, tensor)], name, process_set, priority, **options)[0]


def grouped_allreduce(
    tensors,
    average=None,
    name=None,
    priority=0,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
    op=None,
):
    """allreduce of several arrays as one operation: none starts before all are ready on every rank. A list."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    if not tensors:
        return tensors
    pairs = [(tensor, _fresh(tensor, "grouped_allreduce")) for tensor in tensors]
    return _run(constants.ALLREDUCE, pairs, name, process_set, priority, grouped=True, **options)


def grouped_allreduce_(
    tensors,
    average=None,
    name=None,
    priority=0,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
    op=None,
):
    """Like grouped_allreduce, but the results replace the contents of ``tensors``, which are returned."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    if not tensors:
        return tensors
    pairs = [(tensor, tensor) for tensor in tensors]
    return _run(constants.ALLREDUCE, pairs, name, process_set, priority, grouped=True, **options)


def broadcast(tensor, root_rank, name=None, priority=0, process_set=global_process_set):
    """A new array with the contents that ``tensor`` has on ``root_rank``, which is a rank of the job, also in a set."""
    return _run(constants.BROADCAST, [(tensor, _fresh(tensor, "broadcast"))], name, process_set, priority, root=root_rank)[0]


def broadcast_(tensor, root_rank, name=None, priority=0, process_set=global_process_set):
    """Like broadcast, but the result replaces the contents of ``tensor``, which is returned."""
    return _run(constants.BROADCAST, [(tensor, tensor)], name, process_set, priority, root=root_rank)[0]


def _values(tensor, kind):
    values = on_host(tensor, kind).asnumpy()
    if values.dtype.names is not None:  # MXNet's bfloat16
        raise NotImplementedError(f"{kind}: bfloat16 is not supported here; pass mxnet.nd.amp_cast(array, dtype='float32')")
    return values


def _like(array, tensor):
    module = mx.np if isinstance(tensor, mx.np.ndarray) else mx.nd
    return module.array(array, ctx=tensor.context, dtype=array.dtype)


def allgather(tensor, name=None, priority=0, process_set=global_process_set):
    """The arrays of all ranks one after another along the first dimension, which may differ between ranks. Waits."""
    return _like(_ops.allgather(_values(tensor, "allgather"), _name("allgather", name, process_set), process_set), tensor)


def grouped_allgather(tensors, name=None, priority=0, process_set=global_process_set):
    """allgather of several arrays as one operation. A list. Waits."""
    if not tensors:
        return tensors
    values = [_values(tensor, "allgather") for tensor in tensors]
    found = _ops.grouped_allgather(values, _name("allgather", name, process_set), process_set)
    return [_like(one, tensor) for one, tensor in zip(found, tensors)]


def gather(tensor, root_rank, name=None, priority=0, process_set=global_process_set):
    """On ``root_rank``, a rank of the job also in a set, the arrays of all ranks one after another along the first dimension,
    which may differ between ranks. The other ranks get an array without rows. Waits.
    """
    found = _ops.gather(_values(tensor, "gather"), root_rank, _name("gather", name, process_set), process_set)
    return _like(found, tensor)


def alltoall(tensor, splits=None, name=None, priority=0, process_set=global_process_set):
    """``splits[i]`` rows go to the i-th rank of the set; the rows received, in the order of ranks. Waits.

    With ``splits`` the result is the array and the rows received from each rank, without it (equal parts) the array alone.
    """
    rows = splits.asnumpy() if isinstance(splits, mx.nd.NDArray) else splits
    if isinstance(rows, np.ndarray):
        rows = [int(row) if row == int(row) else row for row in rows.tolist()]
    found = _ops.alltoall(_values(tensor, "alltoall"), rows, _name("alltoall", name, process_set), process_set)
    if splits is None:
        return _like(found, tensor)
    return _like(found[0], tensor), _like(found[1].astype(np.int32), tensor)


def _scattered(op, tensors):
    assert op in (Average, Sum), "reducescatter: op must be Average or Sum"
    for tensor in tensors:
        if on_host(tensor, "reducescatter").ndim == 0:
            raise ValueError("reducescatter: a scalar has no rows to deal out")


def reducescatter(
    tensor,
    op=Average,
    name=None,
    priority=0,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """The reduction of allreduce, of which every rank gets its part of the rows; the first ranks one more if needed. Waits."""
    _scattered(op, [tensor])
    values, name = _values(tensor, "reducescatter"), _name("reducescatter", name, process_set)
    return _like(_ops.reducescatter(values, name, op, process_set, prescale_factor, postscale_factor), tensor)


def grouped_reducescatter(
    tensors,
    op=Average,
    name=None,
    priority=0,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """reducescatter of several arrays as one operation. A list. Waits."""
    _scattered(op, tensors)
    if not tensors:
        return tensors
    values, name = [_values(tensor, "reducescatter") for tensor in tensors], _name("reducescatter", name, process_set)
    found = _ops.grouped_reducescatter(values, name, op, process_set, prescale_factor, postscale_factor)
    return [_like(one, tensor) for one, tensor in zip(found, tensors)]


explain(
    globals(),
    "a dense NDArray",
    "mx.nd.ones((hvd.size(),))",
    "hvd.HorovodMismatchError, or MXNetError where the result is read",
    "MXNetError",
)
