# SPDX-License-Identifier: Apache-2.0
"""The program as users have it: Horovod first, without a word about MPI, and mpi4py imported afterwards."""

import numpy as np

import horovod as hvd

# Initialize Horovod
hvd.init()

# Verify that MPI multi-threading is supported.
assert hvd.mpi_threads_supported()

from mpi4py import MPI  # noqa: E402  as in the program

assert hvd.size() == MPI.COMM_WORLD.Get_size()

assert hvd.mpi_built() and hvd.mpi_enabled() and hvd.rank() == MPI.COMM_WORLD.Get_rank()
mine = np.full(3, hvd.rank() + 1.0)
total = np.empty_like(mine)
MPI.COMM_WORLD.Allreduce(mine, total)
assert (hvd.allreduce(mine, op=hvd.Sum) == total).all()
hvd.shutdown()
print("launched: ok", flush=True)
