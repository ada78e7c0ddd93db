# SPDX-License-Identifier: Apache-2.0
"""Horovod for ``tf.keras``: ``import horovod.tensorflow.keras as hvd``."""

from horovod._keras.interface import Interface
from horovod._keras.versions import tf_keras
from horovod.common.documentation import explain as _explain
from horovod.common.flavour import *  # noqa: F403 - part of the module's interface
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.functions import (  # noqa: F401
    allgather_object,
    broadcast_global_variables,
    broadcast_object,
    broadcast_variables,
)

_interface = Interface(tf_keras())
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


from horovod.tensorflow.keras import callbacks, elastic  # noqa: E402, F401

_explain(globals())
