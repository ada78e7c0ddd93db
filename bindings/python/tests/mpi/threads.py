# SPDX-License-Identifier: Apache-2.0
"""MPI beside Horovod: the program asks whether it may use MPI from its own threads, and does."""

import sys

from mpi4py import MPI

if "torch" in sys.argv:
    import horovod.torch as hvd
else:
    import horovod as hvd

# Initialize Horovod
if "communicator" in sys.argv:
    hvd.init(comm=MPI.COMM_WORLD)
else:
    hvd.init()

# Verify that MPI multi-threading is supported.
assert hvd.mpi_threads_supported()
assert hvd.size() == MPI.COMM_WORLD.Get_size()
assert hvd.mpi_built() and hvd.mpi_enabled()
assert hvd.size() == 1 or hvd.rank() == MPI.COMM_WORLD.Get_rank()

total = hvd.allgather_object(hvd.rank())
assert total == MPI.COMM_WORLD.allgather(hvd.rank()), total
hvd.shutdown()
print("threads: ok", flush=True)
