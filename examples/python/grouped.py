# SPDX-License-Identifier: Apache-2.0
"""Reduces several arrays as one operation, and gathers arrays of different lengths:
`horovodrun -np 2 python examples/python/grouped.py`."""

import numpy as np

import horovod as hvd

hvd.init()
gradients = [np.full((rows, 3), hvd.rank(), dtype=np.float32) for rows in (1, 2, 5)]

# The group is reduced together or not at all, whatever the order in which the ranks submit other operations.
means = hvd.grouped_allreduce(gradients, name="gradients", op=hvd.Average)
print(f"rank {hvd.rank()}: mean of the ranks {means[0][0, 0]}, shapes {[mean.shape for mean in means]}")
assert all(np.allclose(mean, (hvd.size() - 1) / 2) for mean in means)

# Rank r brings r + 1 rows.
rows = hvd.allgather(np.full((hvd.rank() + 1, 2), hvd.rank()), name="rows")
print(f"rank {hvd.rank()}: gathered {len(rows)} rows, first column {rows[:, 0].tolist()}")
assert len(rows) == sum(range(1, hvd.size() + 1))

# Asynchronous: start, do something else, then wait.
handle = hvd.allreduce_async(np.arange(3.0), name="later", op=hvd.Sum)
print(f"rank {hvd.rank()}: later {hvd.synchronize(handle).tolist()}")
