# SPDX-License-Identifier: Apache-2.0
"""Trains on handwritten digits with Keras's fit while ranks come and go.

    python examples/python/elastic_keras.py
    horovodrun -np 3 --min-np 2 python examples/python/elastic_keras.py --fail

With --fail worker 1 is killed in the middle: the others go back to the latest commit and go on at once, and a new process takes
the place of worker 1. The images are the 1,797 digits that come with scikit-learn.
"""

import argparse
import os
import signal

import keras
from sklearn.datasets import load_digits

import horovod.keras as hvd

BATCH = 32


class Fails(keras.callbacks.Callback):
    """Kills worker 1 of an elastic job."""

    def __init__(self, state):
        super().__init__()
        self.state = state

    def on_train_batch_end(self, batch, logs=None):
        if self.state.epoch == 1 and batch == 5 and os.environ.get("HOROVOD_WORKER") == "1":
            os.kill(os.getpid(), signal.SIGKILL)


def make_state():
    """A model with its optimizer, and where training is."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.002)), loss, metrics=["accuracy"])
    return hvd.elastic.KerasState(model, epoch=0, batch=0)


@hvd.elastic.run
def train(state, images, labels, arguments):
    own = slice(hvd.rank(), None, hvd.size())  # the rows of this rank, as long as the members are these
    steps = len(labels) // hvd.size() // BATCH
    callbacks = [
        hvd.elastic.CommitStateCallback(state, batches_per_commit=5),
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state),
        *([Fails(state)] if arguments.fail else []),
    ]
    state.model.fit(
        images[own][: steps * BATCH], labels[own][: steps * BATCH], batch_size=BATCH, epochs=arguments.epochs - state.epoch, verbose=0,
        callbacks=callbacks,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--fail", action="store_true", help="worker 1 of an elastic job is killed")
    arguments = parser.parse_args()
    digits = load_digits()  # before hvd.init(), because from there on the other ranks wait for a process that is new
    images, labels = digits.data.astype("float32") / 16, digits.target
    hvd.init()
    state = make_state()
    train(state, images, labels, arguments)
    right = state.model.evaluate(images, labels, verbose=0)[1]
    if hvd.rank() == 0:
        print(f"{100 * right:.1f} % of the images are recognized; {hvd.size()} ranks at the end")
    assert right > 0.9, right


if __name__ == "__main__":
    main()
