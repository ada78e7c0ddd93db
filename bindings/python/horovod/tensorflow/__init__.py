# SPDX-License-Identifier: Apache-2.0
"""Horovod for TensorFlow: ``import horovod.tensorflow as hvd``."""

import importlib

try:
    import tensorflow
except ImportError as error:
    raise ImportError(
        f"horovod.tensorflow: TensorFlow cannot be imported ({error}); pip install tensorflow, or tensorflow-cpu"
    ) from error

from horovod.common.flavour import *  # noqa: F403 - part of the module's interface
from horovod.common.documentation import explain as _explain
from horovod.common.util import is_version_greater_equal_than as _is_at_least
from horovod.common.util import num_rank_is_power_2 as check_num_rank_power_of_2  # noqa: F401
from horovod.common.util import reduce_op_of as handle_average_backwards_compatibility  # noqa: F401
from horovod.common.util import split_list  # noqa: F401
from horovod.tensorflow import gradients as _gradients
from horovod.tensorflow._collectives import (  # noqa: F401
    allreduce,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from horovod.tensorflow._library import native as _native
from horovod.tensorflow.compression import Compression  # noqa: F401
from horovod.tensorflow.functions import (  # noqa: F401
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from horovod.tensorflow.gradient_tape import DistributedGradientTape, PartialDistributedGradientTape  # noqa: F401
from horovod.tensorflow.mpi_ops import (  # noqa: F401
    allgather,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    gather,
    grouped_allgather,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)

if not _is_at_least(tensorflow.__version__, "2.13.0"):
    raise ImportError(
        f"horovod.tensorflow: TensorFlow {tensorflow.__version__} is too old, 2.13 is the oldest: its C interface is the first that has "
        "asynchronous kernels, without which all operations in graphs would run in Python"
    )

if _native:
    _gradients.register()


def gpu_available(ext_base_name="tensorflow", verbose=False):
    """Whether TensorFlow sees a GPU."""
    return bool(tensorflow.config.list_physical_devices("GPU"))


def vars_to_refs(variables):
    """The variables as what can stand in sets and dicts."""
    if isinstance(variables, list):
        return tuple(vars_to_refs(variable) for variable in variables)
    return variables.ref()


def refs_to_vars(refs):
    """The variables that :func:`vars_to_refs` was given."""
    if isinstance(refs, tuple):
        return [refs_to_vars(ref) for ref in refs]
    return refs.deref()


def __getattr__(name):
    # What needs Keras is imported when it is used: programs without it start faster.
    if name == "DistributedOptimizer":
        from horovod.tensorflow.optimizer import DistributedOptimizer as value
    elif name == "LocalGradientAggregationHelper":
        from horovod.tensorflow._aggregation import LocalGradientAggregationHelper as value
    elif name == "SyncBatchNormalization":
        from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization as value
    elif name == "elastic":
        value = importlib.import_module("horovod.tensorflow.elastic")
    else:
        raise AttributeError(f"module 'horovod.tensorflow' has no attribute {name!r}")
    _explain({name: value})
    globals()[name] = value
    return value


_explain(
    globals(), "a tf.Tensor", "tf.ones(hvd.size())", "tf.errors.FailedPreconditionError, or InvalidArgumentError", "tf.errors.UnknownError"
)
