# SPDX-License-Identifier: Apache-2.0
"""The operations on arrays, which are the same functions outside and inside of ``jax.jit``, ``jax.grad`` and ``jax.vmap``.

Inside of jit every rank's array must have the same shape, because programs are compiled for the shapes of their results.
"""

from horovod import _ops
from horovod._native import constants
from horovod._handles import poll, synchronize  # noqa: F401 - part of the module's interface
from horovod.common.basics import Average
from horovod.common.documentation import explain
from horovod.common.process_sets import checked, global_process_set
from horovod.common.util import listed, reduce_op_of
from horovod.jax import _eager, _keys
from horovod.jax._exchange import Call, settle
from horovod.jax._gradients import exchange
from horovod.jax.compression import Compression


def _call(kind, name, process_set, **options):
    return Call(kind, name, checked(process_set, constants.KIND_NAMES[kind]), **options)


def _results(call, values):
    data, keys_again = _keys.taken(call, values)
    if _eager.traced(*data):
        return keys_again(exchange(call, tuple(data)))
    settle()
    return keys_again(_eager.run(call, data))


def _handle(call, values, finish=list, splits=None):
    if _eager.traced(*values):
        raise TypeError(f"{call.label}: handles do not exist under jit; operations of one program are in flight together")
    data, keys_again = _keys.taken(call, values)
    settle()
    return _eager.handle(call, data, lambda arrays: finish(keys_again(arrays)), splits)


def _reduction(average, op, prescale_factor, postscale_factor):
    return {"reduce_op": reduce_op_of(op, average), "prescale": float(prescale_factor), "postscale": float(postscale_factor)}


def _first(arrays):
    return arrays[0]


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
    """``postscale_factor * op(prescale_factor * tensor of every rank)``; ``op`` defaults to Average."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    sent, context = compression.compress(tensor)
    return compression.decompress(_results(_call(constants.ALLREDUCE, name, process_set, **options), [sent])[0], context)


def allreduce_async(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """Starts an allreduce; the handle is for :func:`synchronize` and :func:`poll`."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    return _handle(_call(constants.ALLREDUCE, name, process_set, **options), [tensor], _first)


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
    """allreduce of several arrays as one operation: none starts before all are ready on every rank. A list."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    sent = [compression.compress(tensor) for tensor in listed(tensors, "grouped_allreduce")]
    call = _call(constants.ALLREDUCE, name, process_set, grouped=True, **options)
    reduced = _results(call, [tensor for tensor, _context in sent])
    return [compression.decompress(tensor, context) for tensor, (_sent, context) in zip(reduced, sent)]


def grouped_allreduce_async(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    """Starts a grouped allreduce; its result is a list."""
    options = _reduction(average, op, prescale_factor, postscale_factor)
    return _handle(_call(constants.ALLREDUCE, name, process_set, grouped=True, **options), listed(tensors, "grouped_allreduce"))


def allgather(tensor, name=None, process_set=global_process_set):
    """The arrays of all ranks one after another along the first dimension, which may differ between ranks outside of jit."""
    return _results(_call(constants.ALLGATHER, name, process_set), [tensor])[0]


def allgather_async(tensor, name=None, process_set=global_process_set):
    """Starts an allgather."""
    return _handle(_call(constants.ALLGATHER, name, process_set), [tensor], _first)


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """allgather of several arrays as one operation. A list."""
    return _results(_call(constants.ALLGATHER, name, process_set, grouped=True), listed(tensors, "grouped_allgather"))


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """Starts a grouped allgather."""
    return _handle(_call(constants.ALLGATHER, name, process_set, grouped=True), listed(tensors, "grouped_allgather"))


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """The array of ``root_rank``, which is a rank of the job, also in a set."""
    return _results(_call(constants.BROADCAST, name, process_set, root=int(root_rank)), [tensor])[0]


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Starts a broadcast."""
    return _handle(_call(constants.BROADCAST, name, process_set, root=int(root_rank)), [tensor], _first)


def gather(tensor, root_rank, name=None, process_set=global_process_set):
    """On ``root_rank``, a rank of the job also in a set, the arrays of all ranks one after another along the first dimension,
    which may differ between ranks outside of jit. The other ranks get an array without rows.
    """
    return _results(_call(constants.GATHER, name, process_set, root=int(root_rank)), [tensor])[0]


def gather_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Starts a gather."""
    return _handle(_call(constants.GATHER, name, process_set, root=int(root_rank)), [tensor], _first)


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """``splits[i]`` rows go to the i-th rank of the set; the rows received, in the order of ranks.

    Without ``splits`` every rank gets an equal part and the result is the array; with ``splits``, which do not work under
    jit, it is the array and the rows received from each rank.
    """
    call = _call(constants.ALLTOALL, name, process_set)
    if splits is None:
        return _results(call, [tensor])[0]
    if _eager.traced(tensor, splits):
        raise NotImplementedError(f"{call.label}: splits do not work under jit: the result has no shape to compile for")
    return tuple(_handle(call, [tensor], splits=splits).wait())


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """Starts an alltoall; its result is as that of :func:`alltoall`."""
    call = _call(constants.ALLTOALL, name, process_set)
    return _handle(call, [tensor], _first if splits is None else tuple, splits)


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
    reduced = _results(_call(constants.REDUCESCATTER, name, process_set, **options), [sent])[0]
    return compression.decompress(reduced, context)


def reducescatter_async(
    tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    """Starts a reducescatter."""
    options = _reduction(None, op, prescale_factor, postscale_factor)
    return _handle(_call(constants.REDUCESCATTER, name, process_set, **options), [tensor], _first)


def grouped_reducescatter(
    tensors,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """reducescatter of several arrays as one operation. A list."""
    options = _reduction(None, op, prescale_factor, postscale_factor)
    sent = [compression.compress(tensor) for tensor in listed(tensors, "grouped_reducescatter")]
    call = _call(constants.REDUCESCATTER, name, process_set, grouped=True, **options)
    reduced = _results(call, [tensor for tensor, _context in sent])
    return [compression.decompress(tensor, context) for tensor, (_sent, context) in zip(reduced, sent)]


def grouped_reducescatter_async(
    tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    """Starts a grouped reducescatter."""
    options = _reduction(None, op, prescale_factor, postscale_factor)
    return _handle(_call(constants.REDUCESCATTER, name, process_set, grouped=True, **options), listed(tensors, "grouped_reducescatter"))


def barrier(process_set=global_process_set, name=None):
    """Returns on no rank before every rank of the set has called it, and its programs in flight have ended."""
    settle()
    return _ops.barrier(process_set, name)


def join():
    """This rank has no more data: it takes part in the others' allreduces without contributing until all have joined.

    Returns the rank that joined last.
    """
    settle()
    return _ops.join()


explain(globals(), "an array of JAX", "jnp.ones(hvd.size())")
