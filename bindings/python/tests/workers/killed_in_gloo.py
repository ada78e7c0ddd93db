# SPDX-License-Identifier: Apache-2.0
"""Rank 1 dies while Gloo moves data; every other rank says how soon it was told, and what."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import horovod as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that a slow machine has time to speak, see the guardian
clock = Path(sys.argv[1]) / "clock"
hvd.init(cpu_operations="gloo")
assert hvd.gloo_enabled() and not hvd.mpi_enabled()
data = np.ones(1 << 21, np.float32)
try:
    for step in range(1000):
        handle = hvd.allreduce_async(data, op=hvd.Sum, name="data")
        if step == 3 and hvd.rank() == 1:
            clock.write_text(repr(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)
        assert handle.wait()[-1] == hvd.size()
except hvd.HorovodPeerLostError as error:
    late = time.monotonic() - float(clock.read_text())
    assert error.rank == 1, error
    assert late < 2, late
    began = time.monotonic()
    hvd.shutdown()
    assert time.monotonic() - began < 2
    print(f"killed_in_gloo: ok, told after {late:.3f} s", flush=True)
