# SPDX-License-Identifier: Apache-2.0
"""The Python rank of an elastic job whose ranks are of several languages: the training of examples/*/elastic.*, which the other ranks
run, with the same operations under the same names.

    elastic.py [STEPS]
"""

import os
import sys
import time

import numpy as np

import horovod as hvd

print(f"worker {os.environ.get('HOROVOD_WORKER', '-')} pid {os.getpid()}", flush=True)
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
hvd.init()


class Model(hvd.elastic.State):
    """Arrays, which ranks of every language can send, where hvd.elastic.ObjectState would send what only Python reads."""

    def __init__(self):
        super().__init__(lambda commits: int(hvd.broadcast(np.array([commits]), 0, name="hvd.elastic.commits")[0]), hvd.rank)
        self.weights, self.step = np.zeros(3), 0
        self.save()

    def save(self):
        self._saved = self.weights, self.step  # a step makes new ones

    def restore(self):
        self.weights, self.step = self._saved

    def sync(self):
        self.weights = hvd.broadcast(self.weights, 0, name="weights")
        self.step = int(hvd.broadcast(np.array([self.step]), 0, name="step")[0])
        self.save()

    def train(self):
        gradient = (np.arange(3.0) * self.weights - 1) * (1 + self.step % 3)
        self.weights = self.weights - 0.05 * hvd.allreduce(gradient, name="gradient")
        self.step += 1


@hvd.elastic.run
def train(state):
    print(f"begins at step {state.step}", flush=True)
    while state.step < STEPS:
        state.train()
        time.sleep(0.02)
        state.commit()


model = Model()
train(model)
numbers = " ".join(f"{weight:.9f}" for weight in model.weights)
bits = " ".join(f"{weight:016x}" for weight in model.weights.view(np.uint64))
print(f"came to {numbers}, bits {bits}, as rank {hvd.rank()} of {hvd.size()}", flush=True)
