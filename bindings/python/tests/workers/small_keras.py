# SPDX-License-Identifier: Apache-2.0
"""A small model of Keras, its data, and its training with and without ranks; for workers that compare the two."""

import numpy as np

from horovod.common import basics

ROWS, STEPS = 4, 3  # of a batch of one rank, of an epoch


def data_of(rank):
    random = np.random.default_rng(rank)
    inputs = random.normal(size=(ROWS * STEPS, 5)).astype(np.float32)
    return inputs, random.normal(size=(ROWS * STEPS, 2)).astype(np.float32)


def model_with(keras, optimizer, seed=3):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
    model.compile(optimizer, "mse")
    return model


def alone_on_all(keras, optimizer):
    """The weights after two epochs on the batches of all ranks."""
    model = model_with(keras, optimizer)
    parts = [data_of(rank) for rank in range(basics.size())]
    turns = [np.concatenate([p[i][n * ROWS : (n + 1) * ROWS] for n in range(STEPS) for p in parts]) for i in (0, 1)]
    model.fit(*turns, batch_size=ROWS * basics.size(), epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


def fit(model, epochs=2, **options):
    """Trains on the data of this rank."""
    return model.fit(*data_of(basics.rank()), batch_size=ROWS, epochs=epochs, shuffle=False, verbose=0, **options)


def check_momentum(keras, hvd_keras, kind, **options):
    """Rates that change with every batch, and the momentum of earlier rates: as the formula of SGD has it."""
    steps, epochs, decay = 4, 2, 0.5
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(hvd_keras.DistributedOptimizer(kind(0.1, momentum=decay, **options)), "mse")
    schedule = hvd_keras.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 1 + epoch * (2 - epoch), staircase=False)
    model.fit(np.ones((steps, 1)), np.zeros((steps, 1)), batch_size=1, epochs=epochs, verbose=0, callbacks=[schedule])
    weight, velocity, before = 1.0, 0.0, 0.1
    for step in range(steps * epochs):
        epoch = step / steps
        rate = 0.1 * (1 + epoch * (2 - epoch))
        velocity = decay * velocity * rate / before - rate * 2 * weight
        weight, before = weight + velocity, rate
    np.testing.assert_allclose(model.get_weights()[0], [[weight]], rtol=1e-4, err_msg=f"{kind.__module__}")


def close(found, wanted, what):
    for index, (one, other) in enumerate(zip(found, wanted)):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5, err_msg=f"{what}: {index}")
