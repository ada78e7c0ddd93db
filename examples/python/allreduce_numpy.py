# SPDX-License-Identifier: Apache-2.0
"""Sums an array over all ranks, then averages it in place: `horovodrun -np 2 python examples/python/allreduce_numpy.py`."""

import numpy as np

import horovod as hvd

hvd.init()
mine = np.full(4, hvd.rank() + 1.0, dtype=np.float32)

total = hvd.allreduce(mine, name="total", op=hvd.Sum)
print(f"rank {hvd.rank()} of {hvd.size()}: sum {total.tolist()}")

hvd.allreduce_(mine, name="mean", op=hvd.Average)
print(f"rank {hvd.rank()} of {hvd.size()}: mean {mine.tolist()}")

expected = sum(range(1, hvd.size() + 1))
assert total.tolist() == [expected] * 4
assert np.allclose(mine, expected / hvd.size())
