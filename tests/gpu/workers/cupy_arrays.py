# SPDX-License-Identifier: Apache-2.0
"""CuPy arrays through `import horovod`, on a stream of CuPy's, without PyTorch in the process."""

import sys

import cupy
import numpy as np

import horovod as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
for dtype in (np.float32, np.float16, np.int64, np.uint8):
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            own = cupy.arange(30_000, dtype=np.int64).astype(dtype) % 5 + dtype(rank)
            wanted = cupy.arange(30_000, dtype=np.int64).astype(dtype) % 5 * dtype(size) + dtype(sum(range(size)))
            total = hvd.allreduce(own, op=hvd.Sum, name="total")
            assert isinstance(total, cupy.ndarray) and total.dtype == dtype and bool((total == wanted).all())
            assert hvd.allreduce_(own, op=hvd.Sum, name="here") is own and bool((own == wanted).all())
            rows = hvd.allgather(cupy.full((rank + 1, 2), rank, dtype), name="rows")
            assert isinstance(rows, cupy.ndarray)
            assert rows.get().tolist() == [[of] * 2 for of in range(size) for _row in range(of + 1)]
            assert bool((hvd.broadcast(own + dtype(rank), root_rank=0, name="root") == wanted).all())
assert "torch" not in sys.modules
hvd.shutdown()
print("cupy_arrays: ok", flush=True)
