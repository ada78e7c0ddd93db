# SPDX-License-Identifier: Apache-2.0
"""Horovod for the package ``keras``, on any of its backends: ``import horovod.keras as hvd``."""

try:
    import keras as _keras
except ImportError as error:
    raise ImportError(f"horovod.keras: Keras cannot be imported ({error}); pip install keras") from error

from horovod._keras import state, values
from horovod._keras.optimizer import wrap
from horovod._keras.versions import backend_of as _backend_of
from horovod._objects import allgather_object, broadcast_object  # noqa: F401
from horovod.common.basics import (  # noqa: F401
    Adasum,
    Average,
    Sum,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
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
    rocm_built,
    shutdown,
    size,
)
from horovod.common.process_sets import global_process_set

if _backend_of(_keras) == "tensorflow":
    from horovod.tensorflow.compression import Compression
else:
    from horovod._keras.compression import Compression


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer,
    name=None,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    gradient_predivide_factor=1.0,
    op=Average,
    num_groups=0,
    groups=None,
    backward_passes_per_step=1,
    average_aggregated_gradients=False,
    process_set=global_process_set,
    scale_local_gradients=True,
):
    """An optimizer of Keras that reduces gradients over the ranks; see horovod.tensorflow.keras.DistributedOptimizer.

    The arguments from ``backward_passes_per_step`` on are not Horovod's.
    """
    if op not in (Average, Sum):
        raise ValueError(f"DistributedOptimizer: op {op} is not Average or Sum, which Keras optimizers can use")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("DistributedOptimizer: gradient_predivide_factor needs op=Average")
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
        groups=_checked_groups(groups, num_groups),
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def _checked_groups(groups, num_groups):
    if _backend_of(_keras) == "tensorflow":
        from horovod.tensorflow._reduction import checked_groups
    else:
        from horovod._keras.reduction import checked_groups
    return checked_groups("DistributedOptimizer", groups, num_groups)


def PartialDistributedOptimizer(optimizer, *args, local_layers=None, **kwargs):  # noqa: N802 - Horovod's name
    """A :func:`DistributedOptimizer` that leaves the gradients of the weights of ``local_layers`` to this rank.

    ``local_layers``: a layer of Keras or a collection of them, anything else is a ValueError.
    """
    single = isinstance(local_layers, _keras.layers.Layer)
    layers = [local_layers] if single else list(local_layers or ())
    for layer in layers:
        if not isinstance(layer, _keras.layers.Layer):
            raise ValueError(f"PartialDistributedOptimizer: local_layers: {type(layer).__name__} is not a layer of Keras")
    wrapped = DistributedOptimizer(optimizer, *args, **kwargs)
    for layer in layers:
        for variable in layer.trainable_weights:
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


def broadcast_global_variables(root_rank):
    """In a graph of TensorFlow 1, an operation that gives every rank the root's values of all global variables."""
    from horovod.tensorflow.functions import broadcast_global_variables as in_tensorflow

    return in_tensorflow(root_rank)


def broadcast_variables(variables, root_rank, process_set=global_process_set):
    """Gives every rank the values that the variables have on ``root_rank``."""
    state.broadcast_variables(list(variables), root_rank, process_set)


def load_model(
    filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, legacy_opts=False
):
    """The model of a file, with its optimizer, and the optimizer's state, as a :func:`DistributedOptimizer`."""
    return state.load_model(
        _keras, filepath, custom_optimizers, custom_objects, legacy_opts, compression=compression, sparse_as_dense=False
    )


from horovod.keras import callbacks  # noqa: E402, F401
