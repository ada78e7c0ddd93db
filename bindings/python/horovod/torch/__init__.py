# SPDX-License-Identifier: Apache-2.0
"""Horovod for PyTorch: ``import horovod.torch as hvd``."""

try:
    import torch
except ImportError as error:
    raise ImportError(f"horovod.torch: PyTorch cannot be imported ({error}); pip install torch") from error

from horovod.common.documentation import explain as _explain
from horovod.common.flavour import *  # noqa: F403 - part of the module's interface
from horovod.torch import elastic  # noqa: F401
from horovod.torch.codec import Codec, ErrorFeedback, PowerSGD, TopK  # noqa: F401
from horovod.torch.compression import Compression  # noqa: F401
from horovod.torch.functions import (  # noqa: F401
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from horovod.torch.mpi_ops import (  # noqa: F401
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    gather,
    gather_async,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    join,
    poll,
    reducescatter,
    reducescatter_async,
    sparse_allreduce_async,
    synchronize,
)
from horovod.torch.optimizer import DistributedOptimizer  # noqa: F401
from horovod.torch.sync_batch_norm import SyncBatchNorm  # noqa: F401

if torch.distributed.is_available():
    from horovod.torch import distributed  # noqa: F401 - registers the backend hvd of torch.distributed

_explain(globals())
