# SPDX-License-Identifier: Apache-2.0
"""Horovod for the package ``keras``, on any of its backends: ``import horovod.keras as hvd``."""

try:
    import keras as _keras
except ImportError as error:
    raise ImportError(f"horovod.keras: Keras cannot be imported ({error}); pip install keras") from error

from horovod._keras import state
from horovod._keras.interface import Interface
from horovod._keras.versions import backend_of as _backend_of
from horovod._objects import allgather_object, broadcast_object  # noqa: F401
from horovod.common.documentation import explain as _explain
from horovod.common.flavour import *  # noqa: F403 - part of the module's interface

if _backend_of(_keras) == "tensorflow":
    from horovod.tensorflow.compression import Compression
else:
    from horovod._keras.compression import Compression

_interface = Interface(_keras)
PartialDistributedOptimizer = _interface.PartialDistributedOptimizer
allreduce = _interface.allreduce
allgather = _interface.allgather
broadcast = _interface.broadcast
reducescatter = _interface.reducescatter
load_model = _interface.load_model


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
    return _interface.distributed(
        optimizer,
        name,
        backward_passes_per_step,
        average_aggregated_gradients,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def broadcast_global_variables(root_rank):
    """In a graph of TensorFlow 1, an operation that gives every rank the root's values of all global variables."""
    from horovod.tensorflow.functions import broadcast_global_variables as in_tensorflow

    return in_tensorflow(root_rank)


def broadcast_variables(variables, root_rank, process_set=global_process_set):
    """Gives every rank the values that the variables have on ``root_rank``."""
    state.broadcast_variables(list(variables), root_rank, process_set)


from horovod.keras import callbacks, elastic  # noqa: E402, F401

_explain(globals())
