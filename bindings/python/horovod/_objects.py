# SPDX-License-Identifier: Apache-2.0
"""Any Python object, as bytes of horovod._codec, through the operations on bytes."""

import numpy as np

from horovod import _codec, _ops
from horovod.common import basics
from horovod.common.documentation import explain
from horovod.common.process_sets import global_process_set


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """The object that ``root_rank`` (a rank of the job) passes, on every rank of the set. Others may pass None.

    An object that cannot be sent is an error on every rank. HOROVOD_SAFE_OBJECTS=1 allows plain values and arrays only.
    """
    is_root, error = basics.rank() == root_rank, None
    if is_root:
        payload, error = _payload(obj, "broadcast_object")
        size = np.array([payload.size], dtype=np.int64)
    else:
        payload, size = None, np.zeros(1, dtype=np.int64)
    size = _ops.broadcast(size, root_rank, _named(name, "sz"), process_set)
    if payload is None:
        payload = np.empty(int(size[0]), dtype=np.uint8)
    received = _ops.broadcast(payload, root_rank, _named(name, "t"), process_set)
    if error is not None:
        raise error
    return obj if is_root else _codec.loads(received, f"broadcast_object: object of rank {root_rank}")


def allgather_object(obj, name=None, process_set=global_process_set):
    """The objects of all ranks of the set as a list, in the order of ranks.

    An object that cannot be sent is an error on every rank. HOROVOD_SAFE_OBJECTS=1 allows plain values and arrays only.
    """
    payload, error = _payload(obj, "allgather_object")
    sizes = _ops.allgather(np.array([payload.size], dtype=np.int64), _named(name, "sz"), process_set)
    everything = _ops.allgather(payload, _named(name, "t"), process_set)
    if error is not None:
        raise error
    parts = np.split(everything, np.cumsum(sizes)[:-1])
    return [_codec.loads(part, f"allgather_object: object {index}") for index, part in enumerate(parts)]


def _payload(obj, operation):
    """(bytes to send, None), or what tells the others, who wait for bytes, about the error, and the error."""
    try:
        return np.frombuffer(_codec.dumps(obj, f"{operation}: object"), dtype=np.uint8), None
    except Exception as error:
        text = f"{operation}: rank {basics.rank()} cannot send its object: {type(error).__name__}: {error}"
        return np.frombuffer(_codec.failure(text), dtype=np.uint8), error


def _named(name, suffix):
    return None if name is None else f"{name}.{suffix}"


explain(globals())
