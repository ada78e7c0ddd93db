# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network on handwritten digits with a tape, alone or with several ranks.

    python examples/python/digits_tensorflow.py
    horovodrun -np 2 python examples/python/digits_tensorflow.py

The images are the 1,797 digits that come with scikit-learn. Each rank takes its share of every global batch.
"""

import argparse

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import horovod.tensorflow as hvd

TEST_IMAGES = 357


def load_images():
    """Training and test images with labels, shuffled alike on every rank."""
    digits = load_digits()
    order = np.random.default_rng(7).permutation(len(digits.target))
    images, labels = (digits.images[order, ..., None] / 16).astype("float32"), digits.target[order].astype("int64")
    return (images[TEST_IMAGES:], labels[TEST_IMAGES:]), (images[:TEST_IMAGES], labels[:TEST_IMAGES])


def make_model():
    return tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            tf.keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=72, help="images per step, all ranks together")
    options = parser.parse_args()

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    tf.keras.utils.set_random_seed(42 + hvd.rank())  # different on purpose: the broadcast makes the ranks alike
    (images, labels), (test_images, test_labels) = load_images()
    model = make_model()
    optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
    hvd.broadcast_variables(model.variables, root_rank=0)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
            loss = tf.reduce_mean(losses)
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    share = options.batch // hvd.size()
    for epoch in range(1, options.epochs + 1):
        order = np.random.default_rng(1000 + epoch).permutation(len(labels))
        losses = []
        for start in range(0, len(order) - options.batch + 1, options.batch):
            mine = order[start + hvd.rank() * share :][:share]
            losses.append(step(images[mine], labels[mine]))
        correct = tf.reduce_sum(tf.cast(tf.argmax(model(test_images), 1) == test_labels, tf.float32))
        accuracy = float(hvd.allreduce(correct, name="correct")) / TEST_IMAGES
        loss = float(hvd.allreduce(tf.reduce_mean(losses), name="loss"))
        if hvd.rank() == 0:
            print(f"epoch {epoch}: loss {loss:.4f}  accuracy {accuracy:.2%}", flush=True)
    assert accuracy > 0.5, accuracy


if __name__ == "__main__":
    main()
