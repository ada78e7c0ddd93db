# SPDX-License-Identifier: Apache-2.0
"""The operations of ``import horovod as hvd`` on NumPy arrays and everything that shares memory like one.

Every operation is written once, as a function that starts it and returns what :class:`Handle` is made of; the blocking and
the ``_async`` form are made from it.
"""

import functools
import inspect

import numpy as np

from horovod import _handles
from horovod._arrays import NUMPYS_OWN
from horovod._device_arrays import taken
from horovod._native import constants
from horovod._submit import checked_splits, reads, scattered_rows, submit, submit_array
from horovod.common.documentation import explain
from horovod.common.process_sets import global_process_set, joins
from horovod.common.util import listed, reduce_op_of


def _forms(name):
    """Makes the blocking and the asynchronous function from one that starts the operation."""

    def decorate(begin):
        def blocking(*args, **kwargs):
            return _handles.result(*begin(*args, **kwargs))

        def in_background(*args, **kwargs):
            return _handles.Handle(*begin(*args, **kwargs))

        asynchronous_name = f"{name[:-1]}_async_" if name.endswith("_") else f"{name}_async"
        for function, its_name in ((blocking, name), (in_background, asynchronous_name)):
            functools.update_wrapper(function, begin)
            function.__name__ = function.__qualname__ = its_name
            function.__signature__ = inspect.signature(begin)
        in_background.__doc__ = f"Starts :func:`{name}` and returns a :class:`Handle` at once.\n\n{begin.__doc__}"
        return blocking, in_background

    return decorate


# Plain arrays, which the native layer reads itself.
reads(np.ndarray, NUMPYS_OWN)


def _out_of_place(kind, tensor, name, process_set, reduce_op=1, root=0, prescale=1.0, postscale=1.0):
    if type(tensor) is np.ndarray:
        out = np.empty(tensor.shape, tensor.dtype)
        operation = submit_array(kind, tensor, out, name, process_set, reduce_op, root, prescale, postscale)
        if operation is not None:
            return operation, None, out
    options = {"reduce_op": reduce_op, "root": root, "prescale": prescale, "postscale": postscale}
    given = taken(tensor, constants.KIND_NAMES[kind])
    out = given.fresh()
    wanted = None if out is None else (out.described,)
    operation = submit(kind, (given.described,), wanted, (given, out), name, process_set, **options)
    if out is None:
        return operation, lambda ended: given.library_result(ended, 0)
    return operation, lambda _ended: out.array[()] if given.scalar else out.array


def _start_group(kind, given, out, name, process_set, **options):
    """Starts a grouped operation; ``out`` has an array for each result. The library allocates all if one is None."""
    wanted = None if None in out else tuple(one.described for one in out)
    described = tuple(one.described for one in given)
    operation = submit(kind, described, wanted, (given, out), name, process_set, grouped=True, **options)
    if wanted is None:
        return operation, lambda ended: [one.library_result(ended, index) for index, one in enumerate(given)]
    return operation, lambda _ended: [o.array[()] if i.scalar else o.array for i, o in zip(given, out)]


def _in_place(kind, tensor, name, process_set, reduce_op=1, root=0, prescale=1.0, postscale=1.0):
    operation = submit_array(kind, tensor, tensor, name, process_set, reduce_op, root, prescale, postscale)
    if operation is not None:
        return operation, None, tensor
    options = {"reduce_op": reduce_op, "root": root, "prescale": prescale, "postscale": postscale}
    given = taken(tensor, constants.KIND_NAMES[kind])
    given.check_writable(constants.KIND_NAMES[kind])
    operation = submit(kind, (given.described,), (given.described,), given, name, process_set, **options)

    def finish(_operation):
        given.write_back()
        return tensor

    return operation, finish


def _reduction(average, op, prescale_factor, postscale_factor):
    return {"reduce_op": reduce_op_of(op, average), "prescale": prescale_factor, "postscale": postscale_factor}


@_forms("allreduce")
def _allreduce(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """``postscale_factor * op(prescale_factor * tensor of every rank)`` as a new array; ``op`` defaults to Average."""
    op = reduce_op_of(op, average)
    return _out_of_place(constants.ALLREDUCE, tensor, name, process_set, op, 0, prescale_factor, postscale_factor)


@_forms("allreduce_")
def _allreduce_in_place(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """Like allreduce, but the result replaces the contents of ``tensor``, which is returned."""
    op = reduce_op_of(op, average)
    return _in_place(constants.ALLREDUCE, tensor, name, process_set, op, 0, prescale_factor, postscale_factor)


@_forms("grouped_allreduce")
def _grouped_allreduce(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """allreduce of several arrays as one operation: none starts before all are ready on every rank. A list."""
    given = [taken(tensor, "grouped_allreduce") for tensor in listed(tensors, "grouped_allreduce")]
    options = _reduction(average, op, prescale_factor, postscale_factor)
    return _start_group(constants.ALLREDUCE, given, [one.fresh() for one in given], name, process_set, **options)


@_forms("grouped_allreduce_")
def _grouped_allreduce_in_place(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """Like grouped_allreduce, but the results replace the contents of ``tensors``, which are returned as a list."""
    tensors = listed(tensors, "grouped_allreduce")
    given = [taken(tensor, "grouped_allreduce") for tensor in tensors]
    for one in given:
        one.check_writable("grouped_allreduce")
    described = tuple(one.described for one in given)
    options = _reduction(average, op, prescale_factor, postscale_factor)
    operation = submit(
        constants.ALLREDUCE, described, described, given, name, process_set, grouped=True, **options
    )

    def finish(_operation):
        for one in given:
            one.write_back()
        return tensors

    return operation, finish


@_forms("allgather")
def _allgather(tensor, name=None, process_set=global_process_set):
    """The arrays of all ranks one after another along the first dimension, which may differ between ranks."""
    given = taken(tensor, "allgather")
    operation = submit(constants.ALLGATHER, (given.described,), None, given, name, process_set)
    return operation, lambda ended: given.library_result(ended, 0)


@_forms("grouped_allgather")
def _grouped_allgather(tensors, name=None, process_set=global_process_set):
    """allgather of several arrays as one operation. A list."""
    given = [taken(tensor, "grouped_allgather") for tensor in listed(tensors, "grouped_allgather")]
    return _start_group(constants.ALLGATHER, given, [None] * len(given), name, process_set)


@_forms("broadcast")
def _broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """A new array with the contents that ``tensor`` has on ``root_rank``, which is a rank of the job, also in a set."""
    return _out_of_place(constants.BROADCAST, tensor, name, process_set, root=root_rank)


@_forms("broadcast_")
def _broadcast_in_place(tensor, root_rank, name=None, process_set=global_process_set):
    """Like broadcast, but the result replaces the contents of ``tensor``, which is returned."""
    return _in_place(constants.BROADCAST, tensor, name, process_set, root=root_rank)


@_forms("gather")
def _gather(tensor, root_rank, name=None, process_set=global_process_set):
    """On ``root_rank``, a rank of the job also in a set, the arrays of all ranks one after another along the first dimension,
    which may differ between ranks. The other ranks get an array without rows.
    """
    given = taken(tensor, "gather")
    operation = submit(constants.GATHER, (given.described,), None, given, name, process_set, root=root_rank)
    return operation, lambda ended: given.library_result(ended, 0)


@_forms("alltoall")
def _alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """``splits[i]`` rows of ``tensor`` go to the i-th rank of the set; the rows received, in the order of ranks.

    Without ``splits`` every rank gets an equal part and the result is the array; with ``splits`` it is the array and
    the rows received from each rank.
    """
    given = taken(tensor, "alltoall")
    rows = checked_splits(splits, process_set)
    operation = submit(constants.ALLTOALL, (given.described,), None, given, name, process_set, splits=rows)

    def finish(ended):
        output = given.library_result(ended, 0)
        if splits is None:
            return output
        return output, np.array(ended.received_splits(), dtype=np.int64)

    return operation, finish


def _scattered(given, process_set):
    """The array for this rank's part of a reducescatter, or None where the engine will say what is wrong."""
    shape = given.described[2]
    # What cannot be reduced the engine refuses, too.
    rows = scattered_rows(shape[0], process_set) if shape and given.code != constants.DTYPES["bytes"] else None
    return None if rows is None else given.fresh((rows, *shape[1:]))


@_forms("reducescatter")
def _reducescatter(
    tensor, name=None, op=constants.AVERAGE, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    """The reduction of allreduce, of which every rank gets its part of the rows; the first ranks one more if needed."""
    options = _reduction(None, op, prescale_factor, postscale_factor)
    given = taken(tensor, "reducescatter")
    out = _scattered(given, process_set)
    wanted = None if out is None else (out.described,)
    operation = submit(constants.REDUCESCATTER, (given.described,), wanted, (given, out), name, process_set, **options)
    return operation, lambda ended: given.library_result(ended, 0) if out is None else out.array


@_forms("grouped_reducescatter")
def _grouped_reducescatter(
    tensors, name=None, op=constants.AVERAGE, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    """reducescatter of several arrays as one operation. A list."""
    options = _reduction(None, op, prescale_factor, postscale_factor)
    given = [taken(tensor, "grouped_reducescatter") for tensor in listed(tensors, "grouped_reducescatter")]
    out = [_scattered(one, process_set) for one in given]
    return _start_group(constants.REDUCESCATTER, given, out, name, process_set, **options)


@_forms("barrier")
def _barrier(process_set=global_process_set, name=None):
    """Returns on no rank before every rank of the set has called it."""
    return submit(constants.BARRIER, None, None, None, name, process_set), lambda _operation: None


@_forms("join")
def _join(process_set=global_process_set):
    """This rank has no more data. It takes part in the others' allreduces without contributing until all have joined.

    Returns the rank that joined last.
    """
    operation = submit(constants.JOIN, None, None, None, None, process_set)
    joins[process_set].count += 1
    return operation, lambda ended: ended.last_joined_rank()


allreduce, allreduce_async = _allreduce
allreduce_, allreduce_async_ = _allreduce_in_place
grouped_allreduce, grouped_allreduce_async = _grouped_allreduce
grouped_allreduce_, grouped_allreduce_async_ = _grouped_allreduce_in_place
allgather, allgather_async = _allgather
grouped_allgather, grouped_allgather_async = _grouped_allgather
broadcast, broadcast_async = _broadcast
broadcast_, broadcast_async_ = _broadcast_in_place
gather, gather_async = _gather
alltoall, alltoall_async = _alltoall
reducescatter, reducescatter_async = _reducescatter
grouped_reducescatter, grouped_reducescatter_async = _grouped_reducescatter
barrier, barrier_async = _barrier
join, join_async = _join


def poll(handle):
    """Whether the operation of ``handle`` has ended, with success or not."""
    return _handles.checked(handle, "poll").poll()


def synchronize(handle):
    """The result of an operation, as ``handle.wait()``."""
    return _handles.checked(handle, "synchronize").wait()


explain(globals(), "a NumPy array or anything that shares memory like one", "np.ones(hvd.size())")
