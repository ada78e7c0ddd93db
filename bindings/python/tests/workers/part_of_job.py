# SPDX-License-Identifier: Apache-2.0
"""init(comm=[...]): some of the launched ranks form a job of their own, others another."""

import os

import numpy as np
from errors import raises

import horovod as hvd

launched = int(os.environ["HOROVOD_RANK"])
mine = [0, 1] if launched < 2 else [3, 2]
raises(ValueError, f"this is rank {launched}", hvd.init, comm=[rank for rank in range(4) if rank != launched])
hvd.init(comm=mine)
assert (hvd.rank(), hvd.size()) == (sorted(mine).index(launched), 2)
for count in (1, 50_000):
    result = hvd.allreduce(np.full(count, float(launched)), op=hvd.Sum, name=f"sum{count}")
    assert (result == sum(mine)).all(), result
hvd.shutdown()
print("part_of_job: ok", flush=True)
