# SPDX-License-Identifier: Apache-2.0
"""Horovod for JAX: ``import horovod.jax as hvd``."""

try:
    import jax
except ImportError as error:
    raise ImportError(f"horovod.jax: JAX cannot be imported ({error}); pip install jax") from error

# Effects and lowering rules, which JAX has no public interface for, were others before.
if jax.__version_info__ < (0, 10):
    raise ImportError(f"horovod.jax: JAX {jax.__version__} is too old; pip install 'jax>=0.10'")

from horovod.common.basics import (  # noqa: F401
    Adasum,
    Average,
    Max,
    Min,
    Product,
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
from horovod.jax.compression import Compression  # noqa: F401
from horovod.jax.functions import (  # noqa: F401
    allgather_object,
    allreduce_gradients,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from horovod.jax.mpi_ops import (  # noqa: F401
    allgather,
    allgather_async,
    allreduce,
    allreduce_async,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_async,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_async,
    grouped_reducescatter,
    grouped_reducescatter_async,
    join,
    poll,
    reducescatter,
    reducescatter_async,
    synchronize,
)
from horovod.jax.optimizer import DistributedOptimizer  # noqa: F401
