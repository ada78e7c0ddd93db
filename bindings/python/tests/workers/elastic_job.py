# SPDX-License-Identifier: Apache-2.0
"""A training program for an elastic job, whose result does not depend on how many ranks there are, nor on which of them die.

    elastic_job.py numpy|torch STEPS

Every process says its number and pid, so that a test can kill it, and at its end what it has come to.
"""

import os
import sys
import time

import numpy as np

print(f"worker {os.environ['HOROVOD_WORKER']} pid {os.getpid()}", flush=True)
FLAVOUR, STEPS = sys.argv[1], int(sys.argv[2])
PAUSE = 0.02  # so that a step lasts as long as what is tested takes

if FLAVOUR == "torch":
    import torch

    import horovod.torch as hvd
else:
    import horovod as hvd

hvd.init()


def numpy_state():
    return hvd.elastic.ObjectState(weights=np.zeros(3), step=0)


def numpy_step(state):
    gradient = (state.weights - np.arange(3.0)) * (1 + state.step % 3)
    state.weights = state.weights - 0.05 * hvd.allreduce(gradient, name="gradient")


def torch_state():
    model = torch.nn.Linear(3, 1, bias=False).double()
    torch.nn.init.zeros_(model.weight)
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    optimizer = hvd.DistributedOptimizer(sgd, model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(range(1000), shuffle=False)
    return hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, step=0)


def torch_step(state):
    state.optimizer.zero_grad()
    ((state.model.weight - torch.arange(3.0)) ** 2).sum().mul(0.5 * (1 + state.step % 3)).backward()
    state.optimizer.step()
    state.sampler.record_batch(state.step, 1)


make, step = (torch_state, torch_step) if FLAVOUR == "torch" else (numpy_state, numpy_step)


@hvd.elastic.run
def train(state):
    print(f"begins at step {state.step}", flush=True)
    while state.step < STEPS:
        step(state)
        state.step += 1
        time.sleep(PAUSE)
        state.commit()
    return state.model.weight.detach().numpy().ravel() if FLAVOUR == "torch" else state.weights


found = train(make())
print(f"came to {' '.join(f'{number:.9f}' for number in found)} as rank {hvd.rank()} of {hvd.size()}", flush=True)
