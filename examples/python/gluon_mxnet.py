# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network on handwritten digits with Gluon, alone or with several ranks, to the same model.

    python examples/python/gluon_mxnet.py
    horovodrun -np 2 python examples/python/gluon_mxnet.py

The images are the 1,797 digits that come with scikit-learn. The global batch is the same for any number of ranks.
"""

import argparse
import time

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from sklearn.datasets import load_digits

import horovod.mxnet as hvd

TEST_IMAGES = 360


def load_images(seed):
    """Training and test images with labels, shuffled alike on every rank."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images, labels = digits.images[order].astype(np.float32)[:, None] / 16, digits.target[order].astype(np.float32)
    return (images[TEST_IMAGES:], labels[TEST_IMAGES:]), (images[:TEST_IMAGES], labels[:TEST_IMAGES])


def new_network():
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(16, 3, padding=1, activation="relu"),
        gluon.nn.MaxPool2D(2),
        gluon.nn.Dense(64, activation="relu"),
        gluon.nn.Dense(10),
    )
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def train_epoch(net, trainer, images, labels, batch, epoch):
    """One pass over all images; returns the mean loss over all ranks."""
    loss_of, total, steps = gluon.loss.SoftmaxCrossEntropyLoss(), 0.0, 0
    order = np.random.default_rng(epoch).permutation(len(labels))
    share = batch // hvd.size()
    for start in range(0, len(labels) - batch + 1, batch):
        mine = order[start + hvd.rank() * share : start + (hvd.rank() + 1) * share]
        with autograd.record():
            loss = loss_of(net(mx.nd.array(images[mine])), mx.nd.array(labels[mine]))
        loss.backward()
        trainer.step(share)
        total, steps = total + float(loss.mean().asscalar()), steps + 1
    return hvd.allreduce(mx.nd.array([total / steps]), name="loss").asscalar()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=60, help="images per step, all ranks together; a multiple of their number")
    options = parser.parse_args()

    hvd.init()
    mx.random.seed(42 + hvd.rank())  # different on purpose: the broadcast makes the ranks alike
    (images, labels), (test_images, test_labels) = load_images(seed=7)
    net = new_network()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    for epoch in range(1, options.epochs + 1):
        began = time.perf_counter()
        loss = train_epoch(net, trainer, images, labels, options.batch, epoch)
        if hvd.rank() == 0:
            print(f"epoch {epoch}/{options.epochs}  loss {loss:.4f}  {time.perf_counter() - began:.2f} s", flush=True)

    mine = slice(hvd.rank(), None, hvd.size())
    correct = (net(mx.nd.array(test_images[mine])).asnumpy().argmax(1) == test_labels[mine]).sum()
    accuracy = hvd.allreduce(mx.nd.array([correct]), op=hvd.Sum, name="correct").asscalar() / len(test_labels)
    if hvd.rank() == 0:
        print(f"{hvd.size()} rank{'s' if hvd.size() > 1 else ''}: accuracy {accuracy:.2%}")
    assert accuracy > 0.9 or options.epochs < 6, f"trained {options.epochs} epochs to an accuracy of {accuracy:.2%} only"


if __name__ == "__main__":
    main()
