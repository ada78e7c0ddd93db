# SPDX-License-Identifier: Apache-2.0
"""Rank 1 may have no shared memory for the data: it says so, and the others hear it from it, at the start or in what they do
first."""

import os
import resource

import numpy as np

import horovod as hvd

REASON = "file size limit is 1073741824 bytes"

if os.environ["HOROVOD_RANK"] == "1":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    try:
        hvd.init()
    except MemoryError as error:
        assert REASON in str(error), error
    else:
        raise AssertionError("started without memory")
else:
    try:
        hvd.init()
        hvd.allreduce(np.ones(10, dtype=np.float32), name="first")
    except hvd.HorovodPeerLostError as error:
        assert error.rank == 1 and ") could not start: " in str(error) and REASON in str(error), (error.rank, error)
    else:
        raise AssertionError("an operation without rank 1")
print("start_without_memory: ok", flush=True)
