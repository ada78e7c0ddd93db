# SPDX-License-Identifier: Apache-2.0
"""Horovod for JAX: ``import horovod.jax as hvd``."""

try:
    import jax
except ImportError as error:
    raise ImportError(f"horovod.jax: JAX cannot be imported ({error}); pip install jax") from error

# Effects and lowering rules, which JAX has no public interface for, were others before.
if jax.__version_info__ < (0, 10):
    raise ImportError(f"horovod.jax: JAX {jax.__version__} is too old; pip install 'jax>=0.10'")

from horovod.common.documentation import explain as _explain
from horovod.common.flavour import *  # noqa: F403 - part of the module's interface
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
    gather,
    gather_async,
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

from horovod.jax import elastic  # noqa: E402, F401

_explain(globals())
