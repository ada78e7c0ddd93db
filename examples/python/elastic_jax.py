# SPDX-License-Identifier: Apache-2.0
"""Trains a perceptron on handwritten digits with JAX and optax while ranks come and go.

    python examples/python/elastic_jax.py
    horovodrun -np 3 --min-np 2 python examples/python/elastic_jax.py --fail

With --fail worker 1 is killed in the middle: the others go back to the latest commit and go on at once, and a new process takes
the place of worker 1. The images are the 1,797 digits that come with scikit-learn.
"""

import argparse
import os
import signal

import jax
import numpy as np
import optax
from jax import numpy as jnp
from sklearn.datasets import load_digits

import horovod.jax as hvd

BATCH = 96  # images of all ranks together


def loss_of(params, images, labels):
    logits = jax.nn.relu(images @ params["w1"]) @ params["w2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def make_state(optimizer):
    """All that changes in training."""
    first, second = jax.random.split(jax.random.key(1))
    params = {"w1": jax.random.normal(first, (64, 64)) * 0.1, "w2": jax.random.normal(second, (64, 10)) * 0.1}
    return hvd.elastic.JaxState(params=params, optimizer_state=optimizer.init(params), step=0)


@hvd.elastic.run
def train(state, optimizer, images, labels, arguments):
    gradient = jax.jit(jax.grad(loss_of))
    while state.step < arguments.steps:
        if arguments.fail and state.step == 20 and os.environ.get("HOROVOD_WORKER") == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        # The rows depend on the step alone; each rank takes its share of them.
        rows = np.random.default_rng(state.step).choice(len(labels), BATCH, replace=False)[hvd.rank() :: hvd.size()]
        gradients = gradient(state.params, images[rows], labels[rows])
        updates, state.optimizer_state = optimizer.update(gradients, state.optimizer_state, state.params)
        state.params = optax.apply_updates(state.params, updates)
        state.step += 1
        if state.step % 5 == 0:
            state.commit()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--fail", action="store_true", help="worker 1 of an elastic job is killed")
    arguments = parser.parse_args()
    digits = load_digits()  # before hvd.init(), because from there on the other ranks wait for a process that is new
    images, labels = digits.data.astype(np.float32) / 16, digits.target
    hvd.init()
    optimizer = hvd.DistributedOptimizer(optax.adam(0.01))
    state = make_state(optimizer)
    train(state, optimizer, images, labels, arguments)
    logits = jnp.asarray(jax.nn.relu(images @ state.params["w1"]) @ state.params["w2"])
    right = float((logits.argmax(1) == labels).mean())
    if hvd.rank() == 0:
        print(f"{100 * right:.1f} % of the images are recognized; {hvd.size()} ranks at the end")
    assert right > 0.95, right


if __name__ == "__main__":
    main()
