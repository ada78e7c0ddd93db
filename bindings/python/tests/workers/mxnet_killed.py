# SPDX-License-Identifier: Apache-2.0
"""Rank 1 dies; whoever reads a result on another rank is told which one, and leaves in order."""

import os
import signal
import time

import mxnet as mx
from errors import raises

import horovod.mxnet as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that a slow machine has time to speak, see the guardian
hvd.init()
assert hvd.allreduce(mx.nd.ones(1), op=hvd.Sum).asscalar() == hvd.size()
if hvd.rank() == 1:
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
error = raises(mx.base.MXNetError, "HorovodPeerLostError", lambda: (hvd.allreduce(mx.nd.ones(4), name="step") * 2).asnumpy())
assert "rank 1 (host " in str(error) and "signal 9" in str(error), error
hvd.shutdown()
print("told of the killed rank")
