# SPDX-License-Identifier: Apache-2.0
"""Keeps a ledger of the samples that the committed steps of an elastic job have used, whatever becomes of its ranks.

    elastic_ledger.py EPOCHS

Each epoch must use each sample once. Only the last step of an epoch may use samples again, fewer than there are ranks.
"""

import collections
import os
import sys
import time

import torch

import horovod.torch as hvd

print(f"worker {os.environ['HOROVOD_WORKER']} pid {os.getpid()}", flush=True)
SAMPLES, BATCH = 157, 2
hvd.init()


@hvd.elastic.run
def train(state):
    print(f"begins at step {len(state.ledger)}", flush=True)
    while state.epoch < int(sys.argv[1]):
        own = list(state.sampler)  # what is left of the epoch
        for part in (own[at : at + BATCH] for at in range(0, len(own), BATCH)):
            state.ledger.append((state.epoch, hvd.size(), hvd.allgather(torch.tensor(part), name="samples").tolist()))
            state.sampler.record_batch(state.batch, BATCH)
            state.batch += 1
            time.sleep(0.02)
            state.commit()
        state.epoch, state.batch = state.epoch + 1, 0
        state.sampler.set_epoch(state.epoch)
        state.commit()


def check(ledger):
    for epoch in range(int(sys.argv[1])):
        steps = [(size, samples) for number, size, samples in ledger if number == epoch]
        used = collections.Counter(sample for _size, samples in steps for sample in samples)
        assert set(used) == set(range(SAMPLES)), f"epoch {epoch}: {sorted(set(range(SAMPLES)) - set(used))} were not used"
        assert used.total() - SAMPLES < steps[-1][0], f"epoch {epoch}: {[sample for sample in used if used[sample] > 1]} were used again"


state = hvd.elastic.TorchState(sampler=hvd.elastic.ElasticSampler(range(SAMPLES)), ledger=[], epoch=0, batch=0)
train(state)
check(state.ledger)
print(f"came to 1 as rank {hvd.rank()} of {hvd.size()}", flush=True)
