# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer for every kind of optimizer of TensorFlow."""

import tensorflow as tf

from horovod.common import basics
from horovod.common.process_sets import checked, global_process_set
from horovod.tensorflow._reduction import check_op
from horovod.tensorflow.compression import Compression


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer,
    name=None,
    use_locking=False,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    backward_passes_per_step=1,
    op=basics.Average,
    gradient_predivide_factor=1.0,
    average_aggregated_gradients=False,
    num_groups=0,
    groups=None,
    process_set=global_process_set,
    scale_local_gradients=True,
):
    """The optimizer itself, which from now on reduces gradients over the ranks before it uses them.

    It may be a ``tf.compat.v1.train.Optimizer`` or an optimizer of Keras. ``horovod.tensorflow.keras`` explains the arguments.
    ``op=Adasum`` needs an optimizer of TensorFlow 1. ``use_locking`` is not used: the optimizer has its own.
    """
    check_op("DistributedOptimizer", op, gradient_predivide_factor)
    checked(process_set, "DistributedOptimizer")
    if op == basics.Adasum and average_aggregated_gradients:
        raise ValueError("DistributedOptimizer: average_aggregated_gradients is not for op=Adasum")
    arguments = {
        "compression": compression,
        "sparse_as_dense": sparse_as_dense,
        "backward_passes_per_step": backward_passes_per_step,
        "op": op,
        "gradient_predivide_factor": gradient_predivide_factor,
        "average_aggregated_gradients": average_aggregated_gradients,
        "num_groups": num_groups,
        "groups": groups,
        "process_set": process_set,
        "scale_local_gradients": scale_local_gradients,
    }
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        from horovod.tensorflow import _v1_optimizer

        return _v1_optimizer.distributed(optimizer, name, **arguments)
    from horovod.tensorflow.keras import DistributedOptimizer as of_keras

    return of_keras(optimizer, name, **arguments)
