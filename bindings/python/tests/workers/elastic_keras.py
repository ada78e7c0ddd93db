# SPDX-License-Identifier: Apache-2.0
"""hvd.elastic of Keras in a job of fixed members: what a failure in the middle of ``fit`` leaves is that of a run without failures.

The argument is the flavour: ``horovod.keras``, on the backend of KERAS_BACKEND, or ``horovod.tensorflow.keras``.
"""

import importlib
import sys

import numpy as np
from errors import raises

hvd = importlib.import_module(sys.argv[1])
if sys.argv[1] == "horovod.keras":
    import keras
else:
    from horovod._keras.versions import tf_keras

    keras = tf_keras()

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
BATCH, BATCHES, EPOCHS = 4, 5, 3
RANDOM = np.random.default_rng(RANK)
X = RANDOM.normal(size=(BATCH * BATCHES, 3)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


class Fault(keras.callbacks.Callback):
    """Raises ``error`` behind a batch of an epoch, once."""

    def __init__(self, state, epoch, batch, error):
        super().__init__()
        self.state, self.place, self.error = state, (epoch, batch), error

    def on_train_batch_end(self, batch, logs=None):
        if self.error is not None and (self.state.epoch, self.state.batch) == self.place:
            error, self.error = self.error, None
            raise error


def made():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9))
    model.compile(optimizer=optimizer, loss="mse")
    return model


def trained(epoch=None, batch=None, error=None, per_commit=1, reverse=False):
    """The weights, and where ``fit`` began each time."""
    model, begun = made(), []
    state = hvd.elastic.KerasState(model, epoch=0, batch=0)
    fault = Fault(state, epoch, batch, error)
    positions = [hvd.elastic.UpdateBatchStateCallback(state), hvd.elastic.UpdateEpochStateCallback(state)]
    commit = [hvd.elastic.CommitStateCallback(state, batches_per_commit=per_commit)]

    @hvd.elastic.run
    def train(state):
        while state.epoch < EPOCHS:
            begun.append((state.epoch, state.batch))
            rest = slice(state.batch * BATCH, None)
            callbacks = [*positions, *commit, fault] if reverse else [*commit, *positions, fault]
            model.fit(X[rest], Y[rest], BATCH, epochs=1, shuffle=False, verbose=0, callbacks=callbacks)

    train(state)
    return [np.array(weight) for weight in model.get_weights()], begun


def same(found, expected):
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def check_goes_on():
    expected, begun = trained()
    assert begun == [(0, 0), (1, 0), (2, 0)], begun
    for weights in hvd.allgather_object(expected):
        same(weights, expected)
    mine = hvd.elastic.HorovodInternalError("this rank alone") if RANK == SIZE - 1 else None
    weights, begun = trained(1, 3, mine)
    same(weights, expected)
    # In a job of several the others may be a batch behind or not: what is committed is rank 0's.
    assert begun[:2] == [(0, 0), (1, 0)] and begun[2][0] == 1 and begun[2][1] in (2, 3), begun
    assert begun == hvd.broadcast_object(begun, 0), begun


def check_commits_every_second_batch():
    expected, _begun = trained()
    mine = hvd.elastic.HorovodInternalError("this rank alone") if RANK == SIZE - 1 else None
    weights, begun = trained(1, 3, mine, per_commit=2, reverse=True)
    same(weights, expected)
    assert (1, 2) in begun, begun


def check_interrupt():
    """Goes on from where it is."""
    expected, _begun = trained()
    weights, begun = trained(2, 2, hvd.elastic.HostsUpdatedInterrupt())
    same(weights, expected)
    assert begun[-1] == (2, 2), begun


def check_a_model_without_variables():
    model = keras.Sequential([keras.layers.Dense(1)])
    raises(ValueError, "the model has no variables yet", hvd.elastic.KerasState, model)


for check in (check_goes_on, check_commits_every_second_batch, check_interrupt, check_a_model_without_variables):
    check()
print("elastic_keras: ok")
