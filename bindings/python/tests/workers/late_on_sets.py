# SPDX-License-Identifier: Apache-2.0
"""Process sets that use the same names, or none, while one rank is late: nothing waits for anything but its own members."""

import time

import numpy as np

import horovod as hvd

# Longer than a rank waits before it asks what the missing ones are doing.
LATE_S = 1.5

hvd.init()
rank = hvd.rank()
even, odd = hvd.add_process_set([0, 2]), hvd.add_process_set([1, 3])
low, high = hvd.add_process_set([0, 1]), hvd.add_process_set([1, 2, 3])
mine = odd if rank % 2 else even


def mean(value, process_set, name):
    return float(hvd.allreduce(np.array([value], np.float32), process_set=process_set, name=name)[0])


for name in (None, "loss"):
    for late in (0, 3):
        if rank == late:
            time.sleep(LATE_S)
        assert mean(rank, mine, name) == 1 + rank % 2
        assert mean(rank, hvd.global_process_set, name) == 1.5
for late in (0, 1):
    if rank == late:
        time.sleep(LATE_S)
    hvd.barrier(mine)
    hvd.barrier()
if rank == 0:
    time.sleep(LATE_S)
if low.included():
    assert mean(rank, low, None) == 0.5
if high.included():
    assert mean(rank, high, None) == 2
hvd.shutdown()
print("late_on_sets: ok")
