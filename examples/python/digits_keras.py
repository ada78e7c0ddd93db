# SPDX-License-Identifier: Apache-2.0
"""Keras: handwritten digits with fit and callbacks, alone or with several ranks.

    horovodrun -np 2 python examples/python/digits_keras.py

KERAS_BACKEND=torch or jax in the environment chooses another backend of Keras 3.
"""

import argparse
import os
import tempfile

import keras
import numpy as np
from sklearn.datasets import load_digits

import horovod.keras as hvd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()

    hvd.init()
    keras.utils.set_random_seed(hvd.rank())
    digits = load_digits()
    order = np.random.default_rng(7).permutation(len(digits.target))
    images, labels = (digits.images[order, ..., None] / 16).astype("float32"), digits.target[order]
    test, training = slice(0, 357), slice(357 + hvd.rank(), None, hvd.size())  # every size-th image is this rank's

    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    rate = 0.002 * hvd.size()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(rate))
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    rows = 1440 // hvd.size()  # as many on every rank, so that all make the same number of steps
    history = model.fit(
        images[training][:rows],
        labels[training][:rows],
        validation_data=(images[test], labels[test]),
        epochs=options.epochs,
        batch_size=32,
        verbose=2 if hvd.rank() == 0 else 0,
        callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
            hvd.callbacks.LearningRateWarmupCallback(initial_lr=rate, warmup_epochs=1),
        ],
    )
    assert history.history["val_accuracy"][-1] > 0.5, history.history

    if hvd.rank() == 0:
        with tempfile.TemporaryDirectory() as folder:
            model.save(os.path.join(folder, "digits.keras"))
            again = hvd.load_model(os.path.join(folder, "digits.keras"))  # with a distributed optimizer that goes on
        print(f"saved and loaded after {int(again.optimizer.iterations)} steps")


if __name__ == "__main__":
    main()
