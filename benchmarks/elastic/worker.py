# SPDX-License-Identifier: Apache-2.0
"""A rank of benchmarks/elastic/run.py: steps without an end, whose times it writes to a file of its own.

    worker.py FOLDER numpy|torch|gloo PAUSE

Rank and file have a name of their own, FOLDER/<name>, by which the process is found from outside of its host, too. The file has a line `ready SECONDS` from just before the rank joins the job, then `EPOCH STEP SECONDS` for every step.
Seconds are of the monotonic clock, which all processes of a machine share.
"""
import os
import sys
import time

import numpy as np

FOLDER, FLAVOUR, PAUSE = sys.argv[1], sys.argv[2], float(sys.argv[3])
if FLAVOUR != "numpy":
    import torch

NAME = os.urandom(6).hex()
with open("/proc/self/comm", "w") as comm:
    comm.write(NAME)
LOG = os.open(os.path.join(FOLDER, NAME), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
if FLAVOUR == "torch":
    import horovod.torch as hvd
elif FLAVOUR == "numpy":
    import horovod as hvd


def write(*words):
    os.write(LOG, (" ".join(map(str, words)) + "\n").encode())


def with_hvd():
    from horovod.common import basics

    write("ready", time.monotonic())
    hvd.init()

    @hvd.elastic.run
    def train(state):
        epoch = basics.membership()[1]
        while True:
            step(state)
            state.step += 1
            state.commit()
            write(epoch, state.step, time.monotonic())
            if PAUSE:
                time.sleep(PAUSE)

    if FLAVOUR == "numpy":

        def step(state):
            state.weights = hvd.allreduce(state.weights + 1, name="weights")

        train(hvd.elastic.ObjectState(weights=np.zeros(1000, np.float32), step=0))
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-4), model.named_parameters())
    rows = torch.randn(16, 32)

    def step(_state):
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()

    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0))


def with_gloo():
    """The same steps under torchrun, whose agent starts all processes anew."""
    import torch.distributed as dist

    write("ready", time.monotonic())
    dist.init_process_group("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    rows, epoch, step = torch.randn(16, 32), int(os.environ["TORCHELASTIC_RESTART_COUNT"]), 0
    while True:
        optimizer.zero_grad()
        parallel(rows).square().mean().backward()
        optimizer.step()
        step += 1
        write(epoch, step, time.monotonic())
        time.sleep(PAUSE)


torch_threads = FLAVOUR != "numpy" and torch.set_num_threads(1)
with_gloo() if FLAVOUR == "gloo" else with_hvd()
