# SPDX-License-Identifier: Apache-2.0
"""Rank 1 dies in the middle of a collective; every other rank writes what it was told to <folder>/<rank>.json."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import horovod as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that a slow machine has time to write, see the guardian
folder = Path(sys.argv[1])
hvd.init()
assert hvd.allreduce(np.ones(1), op=hvd.Sum)[0] == hvd.size()
if hvd.rank() == 1:
    (folder / "pid").write_text(str(os.getpid()))
    handle = hvd.allreduce_async(np.ones(4), name="first")
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)

told = {}
started = time.monotonic()
handles = [hvd.allreduce_async(np.ones(4), name=name) for name in ("second", "third")]
for name, handle in zip(("second", "third"), handles):
    try:
        handle.wait()
        told[name] = "no error"
    except hvd.HorovodPeerLostError as error:
        told[name] = [error.rank, error.pid, error.host, error.status_name, error.operation, str(error)]
told["seconds"] = time.monotonic() - started
hvd.shutdown()
told["initialized"] = hvd.is_initialized()
temporary = folder / f"{os.getpid()}.tmp"
temporary.write_text(json.dumps(told))
temporary.rename(folder / f"{os.environ['HOROVOD_RANK']}.json")
