# SPDX-License-Identifier: Apache-2.0
"""Rank 1 dies while the others wait for it; each of them writes what it was told to <folder>/<rank>.json."""

import json
import os
import signal
import sys
import time
from pathlib import Path

from common import delay, numbers, same, start, tensor, wait_for_device

import horovod.torch as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that the launcher gives everybody the time to write
folder = Path(sys.argv[1])
rank, size = start()
for step in range(3):
    same(hvd.allreduce(tensor(numbers(rank, (1000,))), op=hvd.Sum, name="before"), sum(numbers(of, (1000,)) for of in range(size)))
if rank == 1:
    (folder / "pid").write_text(str(os.getpid()))
    delay(100)
    hvd.allreduce_async(tensor(numbers(rank, (1000,))), name="first")  # its stream is still busy
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)

told = {}
began = time.monotonic()
handles = [hvd.allreduce_async(tensor(numbers(rank, (1000,))), name=name) for name in ("first", "second")]
for name, handle in zip(("first", "second"), handles):
    try:
        hvd.synchronize(handle)
        told[name] = "no error"
    except hvd.HorovodPeerLostError as error:
        told[name] = [error.rank, error.pid, str(error)]
wait_for_device()  # no stream hangs
told["seconds"] = time.monotonic() - began
unfinished = folder / f"{os.getpid()}.part"
unfinished.write_text(json.dumps(told))
unfinished.rename(folder / f"{rank}.json")
hvd.shutdown()
