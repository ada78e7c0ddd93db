# SPDX-License-Identifier: Apache-2.0
"""Collective communication for data-parallel programs, on NumPy arrays and everything that shares memory like one.

    import numpy as np
    import horovod as hvd

    hvd.init()
    total = hvd.allreduce(np.ones(3), op=hvd.Sum)

``horovod.torch`` is the same for PyTorch. Everything is imported when it is first used, so that ``import horovod``
costs nothing and works without NumPy or the library.
"""

import importlib

_WHERE = {
    "horovod.common.basics": (
        "init shutdown is_initialized rank size local_rank local_size cross_rank cross_size is_homogeneous "
        "Average Sum Adasum Min Max Product metrics records start_timeline stop_timeline options set_option"
    ),
    "horovod.common.features": (
        "mpi_enabled mpi_built mpi_threads_supported gloo_enabled gloo_built nccl_built ddl_built ccl_built cuda_built rocm_built"
    ),
    "horovod.common.process_sets": "ProcessSet add_process_set remove_process_set global_process_set",
    "horovod.common.exceptions": (
        "HorovodInternalError HorovodMismatchError HorovodTimeoutError HorovodPeerLostError HorovodShutDownError "
        "HorovodSetBrokenError HostsUpdatedInterrupt HorovodVersionMismatchError"
    ),
    "horovod._ops": (
        "allreduce allreduce_async allreduce_ allreduce_async_ grouped_allreduce grouped_allreduce_async "
        "grouped_allreduce_ grouped_allreduce_async_ allgather allgather_async grouped_allgather "
        "grouped_allgather_async broadcast broadcast_async broadcast_ broadcast_async_ alltoall alltoall_async "
        "gather gather_async "
        "reducescatter reducescatter_async grouped_reducescatter grouped_reducescatter_async barrier barrier_async "
        "join join_async poll synchronize"
    ),
    "horovod._objects": "broadcast_object allgather_object",
    "horovod._handles": "Handle",
    "horovod.runner": "run",
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}

__all__ = sorted([*_MODULE_OF, "__version__", "elastic"])


def __getattr__(name):
    if name == "__version__":
        from horovod._version import version

        value = version()
    elif name == "elastic":
        value = importlib.import_module("horovod.elastic")
    elif name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    else:
        raise AttributeError(f"module 'horovod' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
