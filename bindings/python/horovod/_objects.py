# SPDX-License-Identifier: Apache-2.0
"""Any Python object, pickled, through the operations on bytes."""

import cloudpickle
import numpy as np

from horovod import _ops
from horovod.common import basics
from horovod.common.process_sets import global_process_set


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """The object that ``root_rank`` (a rank of the job) passes, on every rank of the set. Others may pass None."""
    if basics.rank() == root_rank:
        payload = np.frombuffer(cloudpickle.dumps(obj), dtype=np.uint8)
        size = np.array([payload.size], dtype=np.int64)
    else:
        payload, size = None, np.zeros(1, dtype=np.int64)
    size = _ops.broadcast(size, root_rank, _named(name, "sz"), process_set)
    if payload is None:
        payload = np.empty(int(size[0]), dtype=np.uint8)
    received = _ops.broadcast(payload, root_rank, _named(name, "t"), process_set)
    return obj if basics.rank() == root_rank else cloudpickle.loads(received.tobytes())


def allgather_object(obj, name=None, process_set=global_process_set):
    """The objects of all ranks of the set as a list, in the order of ranks."""
    payload = np.frombuffer(cloudpickle.dumps(obj), dtype=np.uint8)
    sizes = _ops.allgather(np.array([payload.size], dtype=np.int64), _named(name, "sz"), process_set)
    everything = _ops.allgather(payload, _named(name, "t"), process_set)
    ends = np.cumsum(sizes)
    return [cloudpickle.loads(everything[end - size : end].tobytes()) for end, size in zip(ends, sizes)]


def _named(name, suffix):
    return None if name is None else f"{name}.{suffix}"
