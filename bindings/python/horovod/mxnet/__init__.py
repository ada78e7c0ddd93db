# SPDX-License-Identifier: Apache-2.0
"""Horovod for MXNet: ``import horovod.mxnet as hvd``."""

try:
    import mxnet  # noqa: F401
except (ImportError, AttributeError) as error:  # with NumPy 1.24 or newer MXNet looks for names that are gone
    raise ImportError(
        f"horovod.mxnet: MXNet cannot be imported ({error}); pip install mxnet==1.9.1 numpy==1.23.5"
    ) from error

from horovod.common.documentation import explain as _explain
from horovod.common.flavour import *  # noqa: F403 - part of the module's interface
from horovod.mxnet.compression import Compression  # noqa: F401
from horovod.mxnet.functions import allgather_object, broadcast_object, broadcast_parameters  # noqa: F401
from horovod.mxnet.mpi_ops import (  # noqa: F401
    allgather,
    allreduce,
    allreduce_,
    alltoall,
    broadcast,
    broadcast_,
    gather,
    grouped_allgather,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_reducescatter,
    reducescatter,
)
from horovod.mxnet.optimizer import DistributedOptimizer, DistributedTrainer  # noqa: F401

_explain(globals())
