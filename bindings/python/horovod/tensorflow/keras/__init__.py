# SPDX-License-Identifier: Apache-2.0
"""Horovod for ``tf.keras``: ``import horovod.tensorflow.keras as hvd``."""

import horovod.tensorflow  # noqa: F401 - says what is missing if TensorFlow is
from horovod._keras import state, values
from horovod._keras.optimizer import wrap
from horovod._keras.versions import tf_keras
from horovod.tensorflow import (  # noqa: F401
    Average,
    Compression,
    ProcessSet,
    Sum,
    add_process_set,
    allgather_object,
    broadcast_object,
    broadcast_variables,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    global_process_set,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    remove_process_set,
    rocm_built,
    shutdown,
    size,
)
from horovod.tensorflow._reduction import check_op, checked_groups
from horovod.tensorflow.functions import broadcast_global_variables  # noqa: F401
from horovod.tensorflow.gradient_tape import layer_weights

_keras = tf_keras()


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer,
    name=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    gradient_predivide_factor=1.0,
    op=Average,
    backward_passes_per_step=1,
    average_aggregated_gradients=False,
    num_groups=0,
    groups=None,
    process_set=global_process_set,
    scale_local_gradients=True,
):
    """An optimizer of Keras that reduces gradients over the ranks before it uses them.

    It has the class name of ``optimizer`` and shares all state with it, so what is saved needs no Horovod to load.
    ``backward_passes_per_step``: gradients of so many steps are summed locally before they are reduced, or averaged with
    ``average_aggregated_gradients``. ``groups``: how many groups, or lists of variables, are reduced as one operation each;
    without it small gradients travel together. ``gradient_predivide_factor`` f: gradients are divided by f before and by size/f
    after the sum. ``sparse_as_dense``: IndexedSlices are made dense before. ``process_set``: the ranks to reduce over.
    ``scale_local_gradients``: gradients of variables given to ``register_local_var`` are divided by the number of ranks.
    """
    if op not in (Average, Sum):
        raise ValueError(f"DistributedOptimizer: op {op} is not Average or Sum, which Keras optimizers can use")
    check_op("DistributedOptimizer", op, gradient_predivide_factor)
    return wrap(
        _keras,
        optimizer,
        name,
        backward_passes_per_step,
        average_aggregated_gradients,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        groups=checked_groups("DistributedOptimizer", groups, num_groups),
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def PartialDistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer,
    name=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    gradient_predivide_factor=1.0,
    op=Average,
    backward_passes_per_step=1,
    average_aggregated_gradients=False,
    groups=None,
    process_set=global_process_set,
    local_layers=None,
    scale_local_gradients=True,
):
    """A :func:`DistributedOptimizer` that leaves the gradients of the weights of ``local_layers`` to this rank."""
    weights = layer_weights("PartialDistributedOptimizer", local_layers)
    wrapped = DistributedOptimizer(
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step,
        average_aggregated_gradients,
        0,
        groups,
        process_set,
        scale_local_gradients,
    )
    for variable in weights:
        wrapped.register_local_var(variable)
    return wrapped


def allreduce(
    value, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0, op=None, compression=Compression.none
):
    """allreduce of a tensor, array or number; ``op`` is Average or Sum, Average if not given."""
    return values.allreduce(_keras, value, name, op, average, prescale_factor, postscale_factor, compression)


def allgather(value, name=None):
    """The values of all ranks one after another along the first dimension."""
    return values.allgather(_keras, value, name)


def broadcast(value, root_rank, name=None):
    """The value that ``root_rank`` has."""
    return values.broadcast(_keras, value, root_rank, name)


def reducescatter(value, name=None, op=Average):
    """The reduction of allreduce, of which every rank gets its part of the rows."""
    return values.reducescatter(_keras, value, name, op)


def load_model(
    filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, legacy_opts=False
):
    """The model of a file, with its optimizer, and the optimizer's state, as a :func:`DistributedOptimizer`.

    ``legacy_opts`` is accepted for Horovod's sake: optimizers of either kind are wrapped.
    """
    return state.load_model(_keras, filepath, custom_optimizers, custom_objects, legacy_opts, compression=compression)


from horovod.tensorflow.keras import callbacks  # noqa: E402, F401
