# SPDX-License-Identifier: Apache-2.0
"""The models that are trained, with made-up data."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import tensorflow as tf

BATCH = 32


@dataclass(frozen=True)
class Case:
    """``build``: (shapes of the variables, loss of variables, inputs and labels, shape of the inputs).

    ``warm_up``: steps before any is measured. It takes about 100 runs of a node until TensorFlow takes it for cheap, if it is, and
    no longer wakes a thread for it. ``share``: of how many steps that are asked for one is made, where a step takes long.
    """

    build: Callable[[], tuple]
    warm_up: int = 150
    share: int = 1


def convolutional():
    """Variables and loss of two convolutions and two dense layers on 28 x 28 images: 0.4 million numbers."""
    shapes = [(3, 3, 1, 32), (32,), (3, 3, 32, 64), (64,), (3136, 128), (128,), (128, 10), (10,)]

    def loss(w, images, labels):
        x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(images, w[0], 1, "SAME") + w[1]), 2, 2, "SAME")
        x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, w[2], 1, "SAME") + w[3]), 2, 2, "SAME")
        x = tf.nn.relu(tf.matmul(tf.reshape(x, [-1, 3136]), w[4]) + w[5])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.matmul(x, w[6]) + w[7]))

    return shapes, loss, (BATCH, 28, 28, 1)


def layers200():
    """Variables and loss of 200 layers of 32 numbers each."""
    shapes = [(32, 32)] * 200

    def loss(w, inputs, labels):
        x = inputs
        for kernel in w:
            x = x + 0.1 * tf.nn.relu(tf.matmul(x, kernel))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x))

    return shapes, loss, (BATCH, 32)


def resnet18():
    """Variables and loss of ResNet-18 on 64 x 64 images: 11.2 million numbers in 62 tensors."""
    blocks = [(before, after, 1 if before == after else 2) for before, after in ((64, 64), (64, 128), (128, 256), (256, 512))]
    blocks = [block for before, after, stride in blocks for block in ((before, after, stride), (after, after, 1))]
    shapes = [(7, 7, 3, 64), (64,), (64,)]
    for before, after, stride in blocks:
        shapes += [(3, 3, before, after), (after,), (after,), (3, 3, after, after), (after,), (after,)]
        shapes += [(1, 1, before, after), (after,), (after,)] if stride == 2 else []
    shapes += [(512, 100), (100,)]

    def normalized(x, kernel, scale, offset, stride=1):
        x = tf.nn.conv2d(x, kernel, stride, "SAME")
        return tf.raw_ops.FusedBatchNormV3(x=x, scale=1 + scale, offset=offset, mean=[], variance=[]).y

    def loss(w, images, labels):
        left = iter(w)
        x = tf.nn.relu(normalized(images, *(next(left) for _ in range(3)), 2))
        x = tf.nn.max_pool2d(x, 3, 2, "SAME")
        for _before, _after, stride in blocks:
            inner = tf.nn.relu(normalized(x, *(next(left) for _ in range(3)), stride))
            inner = normalized(inner, *(next(left) for _ in range(3)))
            around = normalized(x, *(next(left) for _ in range(3)), 2) if stride == 2 else x
            x = tf.nn.relu(inner + around)
        x = tf.matmul(tf.reduce_mean(x, [1, 2]), next(left)) + next(left)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x))

    return shapes, loss, (4, 64, 64, 3)


CASES = {
    "cnn": Case(convolutional),
    "layers200": Case(layers200),
    "resnet18": Case(resnet18, warm_up=10, share=3),
}
