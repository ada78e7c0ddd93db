# SPDX-License-Identifier: Apache-2.0
"""Even and odd ranks reduce apart, at the same time: `horovodrun -np 4 python examples/python/process_sets.py`."""

import numpy as np

import horovod as hvd

hvd.init(process_sets="dynamic")
if hvd.size() < 2:
    raise SystemExit("start this with at least 2 ranks: horovodrun -np 4 python examples/python/process_sets.py")

# Every rank creates every set, also those it is not in, in the same order.
even = hvd.add_process_set(range(0, hvd.size(), 2))
odd = hvd.add_process_set(range(1, hvd.size(), 2))
mine = even if even.included() else odd

total = hvd.allreduce(np.array([hvd.rank()]), name="total", op=hvd.Sum, process_set=mine)
print(f"rank {hvd.rank()} is {mine.rank()} of {mine.size()} in {mine.ranks}: sum of the ranks {total[0]}")
assert total[0] == sum(mine.ranks)

hvd.remove_process_set(odd)
hvd.remove_process_set(even)
