# SPDX-License-Identifier: Apache-2.0
"""The operations on tensors. The blocking out-of-place forms can be differentiated.

Tensors on CUDA devices stay there, in the order of the current stream; those on other devices are staged through host memory,
see ``_tensors.py``.
"""

from horovod import _handles, _ops, _submit
from horovod._native import constants
from horovod._handles import poll, synchronize  # noqa: F401 - part of the module's interface
from horovod.common.documentation import explain
from horovod.common.flavour import *  # noqa: F403 - part of the module's interface
from horovod.common.util import listed, reduce_op_of
from horovod.torch import _graph, _start, _tensors, autograd
from horovod.torch._sparse import sparse_allreduce_async  # noqa: F401 - part of the module's interface
from horovod.torch.compression import Compression

handle_average_backwards_compatibility = reduce_op_of
_run = autograd.run


def _handle(started):
    return _handles.numbered(*started)


def _reduction(average, op, prescale_factor, postscale_factor):
    return {"reduce_op": reduce_op_of(op, average), "prescale": prescale_factor, "postscale": postscale_factor}


def allreduce(
    tensor,
    average=None,
    name=None,
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
):
    """``postscale_factor * op(prescale_factor * tensor of every rank)`` as a new tensor; ``op`` defaults to Average."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    sent, context = compression.compress(tensor)
    if _graph.tracing():
        reduced = _graph.allreduce(sent, name, process_set, options)
    elif autograd.wanted(sent):
        reduced = autograd.Allreduce.apply(sent, name, process_set, options)
    else:
        reduced = _run(_start.out_of_place(constants.ALLREDUCE, sent, name, process_set, **options))
    return compression.decompress(reduced, context)


def allreduce_async(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """Starts an allreduce into a new tensor; the handle is for :func:`synchronize` and :func:`poll`."""
    options = (reduce_op_of(op, average), 0, prescale_factor, postscale_factor)
    return _handle(_start.out_of_place(constants.ALLREDUCE, tensor, name, process_set, *options))


def allreduce_(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """allreduce that replaces the contents of ``tensor``, which is returned. Autograd does not see it."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    if _graph.tracing():
        return _graph.allreduce_(tensor, name, process_set, options)
    return _run(_start.in_place(constants.ALLREDUCE, tensor, name, process_set, **options))


def allreduce_async_(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """Starts :func:`allreduce_`."""
    options = (reduce_op_of(op, average), 0, prescale_factor, postscale_factor)
    return _handle(_start.in_place(constants.ALLREDUCE, tensor, name, process_set, *options))


def grouped_allreduce(
    tensors,
    average=None,
    name=None,
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
):
    """allreduce of several tensors as one operation: none starts before all are ready on every rank. A list."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    sent = [compression.compress(tensor) for tensor in listed(tensors, "grouped_allreduce")]
    parts = [tensor for tensor, _context in sent]
    if _graph.tracing():
        reduced = _graph.grouped_allreduce(parts, name, process_set, options)
    elif autograd.wanted(*parts):
        reduced = autograd.GroupedAllreduce.apply(name, process_set, options, *parts)
    else:
        reduced = _run(_start.grouped_allreduce(parts, name, process_set, **options))
    return [compression.decompress(tensor, context) for tensor, (_sent, context) in zip(reduced, sent)]


def grouped_allreduce_async(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """Starts a grouped allreduce into new tensors; its result is a tuple."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    return _handle(_start.grouped_allreduce(tensors, name, process_set, **options))


def grouped_allreduce_(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """grouped_allreduce that replaces the contents of ``tensors``, which are returned as a tuple."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    if _graph.tracing():
        return _graph.grouped_allreduce_(tensors, name, process_set, options)
    return _run(_start.grouped_allreduce_in_place(tensors, name, process_set, **options))


def grouped_allreduce_async_(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """Starts :func:`grouped_allreduce_`."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    return _handle(_start.grouped_allreduce_in_place(tensors, name, process_set, **options))


def allgather(tensor, name=None, process_set=global_process_set):
    """The tensors of all ranks one after another along the first dimension, which may differ between ranks."""
    if _graph.tracing():
        return _graph.allgather(tensor, name, process_set)
    if autograd.wanted(tensor):
        return autograd.Allgather.apply(tensor, name, process_set)
    return _run(_start.allgather(tensor, name, process_set))


def allgather_async(tensor, name=None, process_set=global_process_set):
    """Starts an allgather."""
    return _handle(_start.allgather(tensor, name, process_set))


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """allgather of several tensors as one operation. A tuple."""
    tensors = listed(tensors, "grouped_allgather")
    if _graph.tracing():
        return _graph.grouped_allgather(tensors, name, process_set)
    if autograd.wanted(*tensors):
        return autograd.GroupedAllgather.apply(name, process_set, *tensors)
    return _run(_start.grouped_allgather(tensors, name, process_set))


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """Starts a grouped allgather."""
    return _handle(_start.grouped_allgather(tensors, name, process_set))


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """A new tensor with the contents ``tensor`` has on ``root_rank``, which is a rank of the job, also in a set."""
    if _graph.tracing():
        return _graph.broadcast(tensor, root_rank, name, process_set)
    if autograd.wanted(tensor):
        return autograd.Broadcast.apply(tensor, root_rank, name, process_set)
    return _run(_start.out_of_place(constants.BROADCAST, tensor, name, process_set, root=root_rank))


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Starts a broadcast into a new tensor."""
    return _handle(_start.out_of_place(constants.BROADCAST, tensor, name, process_set, root=root_rank))


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """broadcast that replaces the contents of ``tensor``, which is returned. Autograd does not see it."""
    if _graph.tracing():
        return _graph.broadcast_(tensor, root_rank, name, process_set)
    return _run(_start.in_place(constants.BROADCAST, tensor, name, process_set, root=root_rank))


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """Starts :func:`broadcast_`."""
    return _handle(_start.in_place(constants.BROADCAST, tensor, name, process_set, root=root_rank))


def gather(tensor, root_rank, name=None, process_set=global_process_set):
    """On ``root_rank``, a rank of the job also in a set, the tensors of all ranks one after another along the first dimension,
    which may differ between ranks. The other ranks get a tensor without rows, whose backward pass they must run, too.
    """
    if _graph.tracing():
        return _graph.gather(tensor, root_rank, name, process_set)
    if autograd.wanted(tensor):
        return autograd.Gather.apply(tensor, root_rank, name, process_set)
    output, _received = _run(_start.gather(tensor, root_rank, name, process_set))
    return output


def gather_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Starts a gather."""
    operation, finish = _start.gather(tensor, root_rank, name, process_set)
    return _handle((operation, lambda ended: finish(ended)[0]))


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """``splits[i]`` rows go to the i-th rank of the set; the rows received, in the order of ranks.

    With ``splits`` the result is ``(output, received_splits)``, without it (equal parts) the output alone.
    """
    if _graph.tracing():
        output, received = _graph.alltoall(tensor, splits, name, process_set)
    elif autograd.wanted(tensor):
        output, received = autograd.Alltoall.apply(tensor, splits, name, process_set)
    else:
        output, received = _run(_start.alltoall(tensor, splits, name, process_set))
    return output if splits is None else (output, received)


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """Starts an alltoall; its result is always ``(output, received_splits)``."""
    return _handle(_start.alltoall(tensor, splits, name, process_set))


def reducescatter(
    tensor,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """The reduction of allreduce, of which every rank gets its part of the rows; the first ranks one more if needed."""
    options = _reduction(None, op, prescale_factor, postscale_factor)
    sent, context = compression.compress(tensor)
    if _graph.tracing():
        reduced = _graph.reducescatter(sent, name, process_set, options)
    elif autograd.wanted(sent):
        reduced = autograd.Reducescatter.apply(sent, name, process_set, options)
    else:
        reduced = _run(_start.reducescatter(sent, name, process_set, **options))
    return compression.decompress(reduced, context)


def reducescatter_async(
    tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    """Starts a reducescatter."""
    options = _reduction(None, op, prescale_factor, postscale_factor)
    return _handle(_start.reducescatter(tensor, name, process_set, **options))


def grouped_reducescatter(
    tensors,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """reducescatter of several tensors as one operation. A tuple."""
    options = _reduction(None, op, prescale_factor, postscale_factor)
    sent = [compression.compress(tensor) for tensor in listed(tensors, "grouped_reducescatter")]
    parts = [tensor for tensor, _context in sent]
    if _graph.tracing():
        reduced = _graph.grouped_reducescatter(parts, name, process_set, options)
    elif autograd.wanted(*parts):
        reduced = autograd.GroupedReducescatter.apply(name, process_set, options, *parts)
    else:
        reduced = _run(_start.grouped_reducescatter(parts, name, process_set, **options))
    return tuple(compression.decompress(tensor, context) for tensor, (_sent, context) in zip(reduced, sent))


def grouped_reducescatter_async(
    tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    """Starts a grouped reducescatter."""
    options = _reduction(None, op, prescale_factor, postscale_factor)
    return _handle(_start.grouped_reducescatter(tensors, name, process_set, **options))


def join(device=-1):
    """This rank has no more data: it takes part in the others' allreduces without contributing until all have joined.

    Returns the rank that joined last. ``device`` is accepted for Horovod's sake; contributions need no device.
    """
    return _ops.join()


def barrier(process_set=global_process_set, name=None):
    """Returns on no rank before every rank of the set has called it."""
    return _ops.barrier(process_set, name)


explain(globals(), "a dense torch.Tensor on any device", "torch.ones(hvd.size())")
_graph.outside(_start, _tensors, _submit, _handles)
