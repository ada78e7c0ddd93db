# SPDX-License-Identifier: Apache-2.0
"""Operations run to their end although nobody waits for them or asks."""

import time

import numpy as np

import horovod as hvd

# Far longer than an allreduce takes, also on a busy machine.
DEADLINE_S = 60

hvd.init()
rank, size = hvd.rank(), hvd.size()
for turn in range(24):
    # A wait at once makes the engine expect the same of what comes next; its thread falls asleep some milliseconds later.
    hvd.barrier()
    time.sleep((0, 0.001, 0.02)[turn % 3] + 0.002 * ((turn + rank) % size))
    ones = np.ones((1, 100_000)[turn % 2], np.float32)
    handle = hvd.allreduce_async_(ones, op=hvd.Sum, name="unattended")
    end = time.monotonic() + DEADLINE_S
    while ones[0] != size or ones[-1] != size:
        assert time.monotonic() < end, f"turn {turn}: not reduced after {DEADLINE_S} s"
        time.sleep(0.001)
    handle.wait()
hvd.shutdown()
print("unattended: ok")
