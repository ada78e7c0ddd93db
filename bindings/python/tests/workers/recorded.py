# SPDX-License-Identifier: Apache-2.0
"""recorded.py CAUSE RANK: a training of 40 steps of which RANK is slowed by CAUSE."""

import sys
import time

import numpy as np

import horovod as hvd

STEPS = 40


def work(seconds):
    """The same amount of processor time on each core, however busy the core is."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def train(cause):
    gradients = [np.ones(4096, np.float32) for _ in range(3)]
    for _ in range(STEPS):
        if cause == "compute":
            work(0.03)
        if cause == "sleep":
            time.sleep(0.03)
        work(0.002)
        time.sleep(0.004)
        handles = [hvd.allreduce_async(gradient, name=f"gradient.{number}") for number, gradient in enumerate(gradients)]
        for handle in handles:
            hvd.synchronize(handle)


hvd.init()
train(sys.argv[1] if hvd.rank() == int(sys.argv[2]) else None)
hvd.shutdown()
