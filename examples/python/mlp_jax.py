# SPDX-License-Identifier: Apache-2.0
"""Trains a perceptron on handwritten digits with JAX and optax, alone or with several ranks, to the same model.

    python examples/python/mlp_jax.py
    horovodrun -np 2 python examples/python/mlp_jax.py

The images are the 1,797 digits that come with scikit-learn. The global batch is the same for any number of ranks.
"""

import argparse
import time

import jax
import numpy as np
import optax
from jax import numpy as jnp
from sklearn.datasets import load_digits

import horovod.jax as hvd

TEST_IMAGES = 360
LAYERS = (64, 128, 64, 10)


def load_images(seed):
    """Training and test images with labels, shuffled alike on every rank."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images, labels = digits.data[order].astype(np.float32) / 16, digits.target[order]
    return (images[TEST_IMAGES:], labels[TEST_IMAGES:]), (images[:TEST_IMAGES], labels[:TEST_IMAGES])


def new_parameters(seed):
    """A list of layers, each a dict."""
    keys = jax.random.split(jax.random.key(seed), len(LAYERS) - 1)
    shapes = zip(keys, LAYERS, LAYERS[1:])
    return [{"w": jax.random.normal(key, (m, n)) * (2 / m) ** 0.5, "b": jnp.zeros(n)} for key, m, n in shapes]


def logits_of(params, images):
    for layer in params[:-1]:
        images = jax.nn.relu(images @ layer["w"] + layer["b"])
    return images @ params[-1]["w"] + params[-1]["b"]


def loss_of(params, images, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits_of(params, images), labels).mean()


def make_step(optimizer):
    """One compiled program: forward, backward, exchange of the gradients, update."""

    @jax.jit
    def step(params, state, images, labels):
        loss, gradients = jax.value_and_grad(loss_of)(params, images, labels)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, hvd.allreduce(loss, name="loss")

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=60, help="images per step, all ranks together; a multiple of their number")
    options = parser.parse_args()

    hvd.init()
    (images, labels), (test_images, test_labels) = load_images(seed=7)
    # Different on purpose: the broadcast makes the ranks alike.
    params = hvd.broadcast_parameters(new_parameters(seed=42 + hvd.rank()), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optax.sgd(0.1, momentum=0.9))
    state, step = optimizer.init(params), make_step(optimizer)
    share = options.batch // hvd.size()
    for epoch in range(1, options.epochs + 1):
        began, losses = time.perf_counter(), []
        order = np.random.default_rng(epoch).permutation(len(labels))
        for start in range(0, len(labels) - options.batch + 1, options.batch):
            mine = order[start + hvd.rank() * share : start + (hvd.rank() + 1) * share]
            params, state, loss = step(params, state, images[mine], labels[mine])
            losses.append(loss)
        mean = float(np.mean(losses))
        if hvd.rank() == 0:
            print(f"epoch {epoch:2d}/{options.epochs}  loss {mean:.4f}  {time.perf_counter() - began:.2f} s", flush=True)

    mine = slice(hvd.rank(), None, hvd.size())
    correct = np.sum(np.argmax(logits_of(params, test_images[mine]), 1) == test_labels[mine])
    accuracy = hvd.allreduce(int(correct), op=hvd.Sum, name="correct").item() / len(test_labels)
    if hvd.rank() == 0:
        print(f"{hvd.size()} rank{'s' if hvd.size() > 1 else ''}: accuracy {accuracy:.2%}")
    assert accuracy > 0.9 or options.epochs < 10, f"trained {options.epochs} epochs to an accuracy of {accuracy:.2%} only"


if __name__ == "__main__":
    main()
