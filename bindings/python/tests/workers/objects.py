# SPDX-License-Identifier: Apache-2.0
"""broadcast_object and allgather_object with HOROVOD_SAFE_OBJECTS as the environment has it, and with ranks that disagree."""

import os

import numpy as np
from errors import raises

import horovod as hvd


def fails(text, function, *args):
    """Every rank gets an error, each its own; the next operation works."""
    found = type(raises(Exception, text, function, *args)).__name__
    assert hvd.broadcast_object(hvd.rank(), hvd.size() - 1) == hvd.size() - 1
    return found


def check_values():
    value = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": [(1, None), {"x"}, b"y"], "rank": hvd.rank()}
    found = hvd.broadcast_object(value, hvd.size() - 1)
    assert found["rank"] == hvd.size() - 1 and found["b"] == value["b"] and (found["a"] == value["a"]).all()
    many = hvd.allgather_object([hvd.rank()] * hvd.rank(), name="lists")
    assert many == [[rank] * rank for rank in range(hvd.size())]
    large = hvd.broadcast_object(np.ones(300_000) if hvd.rank() == 0 else None, 0)
    assert large.sum() == 300_000


def check_refusals(setting):
    """A generator cannot be pickled, and a class cannot be sent where only plain values can."""
    value = (n for n in ()) if setting is None else {"state": [1, hvd.Handle]}
    fault = "TypeError: " if setting is None else "object['state'][1] is a type; HOROVOD_SAFE_OBJECTS=1 allows None"
    own = "generator" if setting is None else fault
    root = hvd.size() - 1
    kind = fails(own if hvd.rank() == root else fault, hvd.broadcast_object, value if hvd.rank() == root else None, root)
    assert kind == ("TypeError" if hvd.rank() == root else "NoObjectError"), kind
    fails(own if hvd.rank() == root else fault, hvd.allgather_object, value if hvd.rank() == root else 1)


def check_disagreement():
    """A rank that must not unpickle says so; one that may also reads what the others send."""
    is_safe = hvd.rank() == hvd.size() - 1
    os.environ["HOROVOD_SAFE_OBJECTS"] = "1" if is_safe else "0"
    if is_safe:
        try:
            hvd.broadcast_object(None, 0)
        except ValueError as error:
            assert "object of rank 0: was pickled by its sender, and HOROVOD_SAFE_OBJECTS is on here" in str(error), error
        else:
            raise AssertionError("unpickled")
    else:
        assert hvd.broadcast_object([hvd.rank()], 0) == [0]
    assert hvd.broadcast_object([hvd.rank()], hvd.size() - 1) == [hvd.size() - 1]


hvd.init()
mode = os.environ.get("HOROVOD_SAFE_OBJECTS")
check_values()
check_refusals(mode)
if hvd.size() > 1:
    check_disagreement()
print("objects: ok")
