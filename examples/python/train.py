# SPDX-License-Identifier: Apache-2.0
"""Trains a logistic regression, alone or with several ranks, to the same weights: `horovodrun -np 2 python examples/python/train.py`.

Every rank has each size-th sample. In each step the ranks sum up their gradients, so that all go the same way; at the end
rank 0 trains on all samples alone and compares.
"""

import numpy as np

import horovod as hvd

SAMPLES, FEATURES, STEPS, RATE = 600, 8, 200, 2.0


def samples(numbers):
    """Inputs between -1 and 1 and a label for each: whether a plane that the training must find has it above."""
    i, j = np.meshgrid(numbers, np.arange(FEATURES), indexing="ij")
    inputs = ((i * i * 7 + i * (j + 1) * 31 + j * 57) % 199) / 99 - 1
    return inputs, (inputs @ (np.arange(FEATURES) - 2.5) > 0.5).astype(np.float64)


def step(weights, inputs, labels):
    """Gradient, loss and correct answers, each summed over these samples, in one array."""
    scores = inputs @ weights[:-1] + weights[-1]
    likely = 1 / (1 + np.exp(-scores))
    loss = np.logaddexp(0, scores) - labels * scores
    off = likely - labels
    return np.concatenate([off @ inputs, [off.sum(), loss.sum(), ((scores > 0) == labels).sum()]])


def train(numbers, start, together):
    """The weights after all steps, with loss and accuracy over all samples before the last one."""
    inputs, labels = samples(numbers)
    weights = start.copy()
    for _ in range(STEPS):
        sums = together(step(weights, inputs, labels))
        weights -= RATE * sums[:-2] / SAMPLES
    return weights, sums[-2] / SAMPLES, sums[-1] / SAMPLES


hvd.init()
rank, size = hvd.rank(), hvd.size()

# The ranks begin differently; then all have what rank 0 has.
start = np.full(FEATURES + 1, 0.01 * (rank + 1))
hvd.broadcast_(start, root_rank=0, name="start")

weights, loss, accuracy = train(
    np.arange(rank, SAMPLES, size), start, lambda sums: hvd.allreduce(sums, op=hvd.Sum, name="step")
)

if rank == 0:
    print(f"{size} rank{'s' if size > 1 else ''}: loss {loss:.6f}, accuracy {accuracy:.1%}")
    alone_weights, alone, _accuracy = train(np.arange(SAMPLES), start, lambda sums: sums)
    print(f"alone: loss {alone:.6f}")
    assert abs(loss - alone) < 1e-9 and np.allclose(weights, alone_weights, rtol=0, atol=1e-9)
assert accuracy > 0.95
