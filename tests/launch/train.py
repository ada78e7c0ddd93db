# SPDX-License-Identifier: Apache-2.0
"""The program that every launcher starts, unchanged: checks the operations, trains a little, and does so twice, because
a process may leave a job and join again. Each rank writes what it saw into the folder given as the first argument."""

import ctypes
import json
import os
import sys
from pathlib import Path

import numpy as np

import horovod as hvd


def check_operations():
    rank, size = hvd.rank(), hvd.size()
    ranks = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(
        hvd.allreduce(np.full(3, rank + 1, np.int64), op=hvd.Sum, name="sum"), size * (size + 1) // 2
    )
    np.testing.assert_array_equal(
        hvd.allgather(np.full(rank + 1, rank, np.float32), name="gather"), np.repeat(ranks, np.arange(1, size + 1))
    )
    np.testing.assert_array_equal(
        hvd.broadcast(np.full(5, rank, np.float64), root_rank=size - 1, name="root"), size - 1
    )
    received, splits = hvd.alltoall(np.full(size, rank, np.float32), splits=np.ones(size, np.int32), name="all")
    np.testing.assert_array_equal(received, ranks)
    np.testing.assert_array_equal(splits, 1)
    np.testing.assert_array_equal(hvd.reducescatter(np.ones((size, 2), np.float32), op=hvd.Sum, name="scatter"), size)
    hvd.barrier()


def train():
    """Linear regression; every rank has other data. Returns the loss over all data before and after."""
    random = np.random.default_rng(hvd.rank())
    inputs = random.normal(size=(64, 3))
    targets = inputs @ np.array([1.0, -2.0, 3.0])
    weights = hvd.broadcast(random.normal(size=3), root_rank=0, name="weights")
    losses = []
    for step in range(30):
        error = inputs @ weights - targets
        losses.append(float(hvd.allreduce(np.mean(error**2, keepdims=True), op=hvd.Average, name=f"loss.{step}")[0]))
        weights -= 0.2 * hvd.allreduce(2 * inputs.T @ error / len(error), op=hvd.Average, name=f"gradient.{step}")
    return losses[0], losses[-1]


def start_and_end_mpi(library):
    """As another part of a user's program may do."""
    mpi = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    started = ctypes.c_int()
    assert mpi.MPI_Initialized(ctypes.byref(started)) == 0
    if not started.value:
        assert mpi.MPI_Init(None, None) == 0
        assert mpi.MPI_Finalize() == 0


def main():
    for _ in range(2):
        hvd.init()
        check_operations()
        before, after = train()
        seen = {
            "rank": hvd.rank(),
            "size": hvd.size(),
            "local_rank": hvd.local_rank(),
            "local_size": hvd.local_size(),
            "before": before,
            "after": after,
            "LOCAL_RANK": os.environ.get("LOCAL_RANK"),
        }
        hvd.shutdown()
    if len(sys.argv) > 2:
        start_and_end_mpi(sys.argv[2])
    (Path(sys.argv[1]) / f"rank.{seen['rank']}").write_text(json.dumps(seen))


main()
