# SPDX-License-Identifier: Apache-2.0
"""init_process_group where rank 1 reaches rank 0's store late ("late") or not at all ("never")."""

import sys
import time

import torch.distributed as dist

import horovod.torch as hvd

how = sys.argv[1]
store = dist.TCPStore


def slow_store(*arguments, is_master, **named):
    if not is_master:
        time.sleep(1)  # by then rank 0's program would have ended, and its store with it
        if how == "never":
            raise dist.DistNetworkError("no route today")
    return store(*arguments, is_master=is_master, **named)


dist.TCPStore = slow_store
try:
    dist.init_process_group("hvd")
except RuntimeError as error:
    assert how == "never", error
    text = str(error)
    assert text.startswith("init_process_group: rank 1 cannot reach rank 0's store at 127.0.0.1:"), text
    assert text.endswith(": no route today"), text
    assert hvd.allgather_object(hvd.rank()) == [0, 1]  # the job goes on
    hvd.shutdown()
else:
    assert how == "late"
    dist.destroy_process_group()
print("torch_dist_store: ok")
