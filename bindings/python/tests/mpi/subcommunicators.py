# SPDX-License-Identifier: Apache-2.0
"""Communicators as worlds and as process sets."""

import numpy as np
from mpi4py import MPI

import horovod as hvd

world = MPI.COMM_WORLD

# Split COMM_WORLD into subcommunicators; each trains on its own.
subcomm = world.Split(color=world.rank % 2, key=world.rank)
hvd.init(comm=subcomm)
print(f"COMM_WORLD rank: {world.rank}, Horovod rank: {hvd.rank()}", flush=True)
assert (hvd.rank(), hvd.size()) == (subcomm.Get_rank(), subcomm.Get_size())
expected = sum(rank for rank in range(world.size) if rank % 2 == world.rank % 2)
for count in (1, 100_000):
    result = hvd.allreduce(np.full(count, float(world.rank)), op=hvd.Sum, name=f"sum{count}")
    assert (result == expected).all(), result
hvd.shutdown()

# One job of all, with a process set for each half; each rank describes its own half only.
halves = hvd.ProcessSet(subcomm)
hvd.init(comm=world, process_sets=[halves])
assert halves.ranks == [rank for rank in range(world.size) if rank % 2 == world.rank % 2], halves
assert halves.size() == subcomm.Get_size() and halves.rank() == subcomm.Get_rank()
for count in (1, 100_000):
    result = hvd.allreduce(np.full(count, float(world.rank)), op=hvd.Sum, name=f"half{count}", process_set=halves)
    assert (result == expected).all(), result
assert hvd.remove_process_set(halves) and halves.process_set_id is None
again = hvd.add_process_set(hvd.ProcessSet(subcomm))
assert hvd.allreduce(np.ones(5), op=hvd.Sum, process_set=again)[0] == subcomm.Get_size()
hvd.barrier()  # who shuts down ends the job, also for sets without him
hvd.shutdown()

for wrong in (3, "world", [0, 0], [-1], [0, "a"], object()):
    try:
        hvd.init(comm=wrong)
    except ValueError as error:
        assert "comm" in str(error), error
    else:
        raise AssertionError(f"init(comm={wrong!r}) is accepted")
assert not hvd.is_initialized()
print("subcommunicators: ok", flush=True)
