# SPDX-License-Identifier: Apache-2.0
"""Horovod for PyTorch: ``import horovod.torch as hvd``."""

try:
    import torch
except ImportError as error:
    raise ImportError(f"horovod.torch: PyTorch cannot be imported ({error}); pip install torch") from error

from horovod.common.exceptions import (  # noqa: F401
    HorovodInternalError,
    HorovodMismatchError,
    HorovodPeerLostError,
    HorovodSetBrokenError,
    HorovodShutDownError,
    HorovodTimeoutError,
)
from horovod.common.process_sets import (  # noqa: F401
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.torch.codec import Codec, ErrorFeedback, PowerSGD, TopK  # noqa: F401
from horovod.torch.compression import Compression  # noqa: F401
from horovod.torch.functions import (  # noqa: F401
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from horovod.torch.mpi_ops import (  # noqa: F401
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
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
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    init,
    is_homogeneous,
    is_initialized,
    join,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    poll,
    rank,
    reducescatter,
    reducescatter_async,
    rocm_built,
    shutdown,
    size,
    sparse_allreduce_async,
    synchronize,
)
from horovod.torch.optimizer import DistributedOptimizer  # noqa: F401
from horovod.torch.sync_batch_norm import SyncBatchNorm  # noqa: F401

if torch.distributed.is_available():
    from horovod.torch import distributed  # noqa: F401 - registers the backend hvd of torch.distributed
