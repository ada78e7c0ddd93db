# SPDX-License-Identifier: Apache-2.0
"""Trains a small model until a file appears, so that somebody can look at the metrics meanwhile.

watched_training.py FILE [late]: with `late`, rank 1 computes 20 ms longer than the others.
"""

import os
import sys
import time

import numpy as np

import horovod as hvd

FILE, LATE = sys.argv[1], "late" in sys.argv[2:]
hvd.init()
random = np.random.default_rng(hvd.rank())
inputs = random.normal(size=(64, 256)).astype(np.float32)
weights = np.zeros((256, 256), np.float32)
targets = inputs @ np.ones_like(weights)
began = time.monotonic()
while True:
    error = inputs @ weights - targets
    if LATE and hvd.rank() == 1:
        time.sleep(0.02)
    gradient = hvd.allreduce_async(inputs.T @ error / len(inputs), name="weights")
    loss = hvd.allreduce_async(np.mean(error**2, keepdims=True), name="loss")
    weights -= 0.01 * gradient.wait()
    loss.wait()
    ends = os.path.exists(FILE) or time.monotonic() - began > 100
    if hvd.allreduce(np.array([ends], np.float32), op=hvd.Max, name="ends")[0]:
        break
print("watched_training: ok", flush=True)
