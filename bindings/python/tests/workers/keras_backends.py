# SPDX-License-Identifier: Apache-2.0
"""horovod.keras on the backend of Keras 3 that KERAS_BACKEND names: fit, accumulation, callbacks, saved models."""

import os
import tempfile

import keras
import numpy as np

import horovod.keras as hvd

ROWS, STEPS = 4, 3


def data_of(rank):
    random = np.random.default_rng(rank)
    inputs = random.normal(size=(ROWS * STEPS, 5)).astype(np.float32)
    return inputs, random.normal(size=(ROWS * STEPS, 2)).astype(np.float32)


def model_with(optimizer, seed=3):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
    model.compile(optimizer, "mse")
    return model


def alone_on_all(optimizer):
    model = model_with(optimizer)
    parts = [data_of(rank) for rank in range(hvd.size())]
    turns = [np.concatenate([p[i][n * ROWS : (n + 1) * ROWS] for n in range(STEPS) for p in parts]) for i in (0, 1)]
    model.fit(*turns, batch_size=ROWS * hvd.size(), epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


def fit(model, epochs=2, **options):
    return model.fit(*data_of(hvd.rank()), batch_size=ROWS, epochs=epochs, shuffle=False, verbose=0, **options)


def close(found, wanted, what):
    for index, (one, other) in enumerate(zip(found, wanted)):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5, err_msg=f"{what}: {index}")


hvd.init()
rank, size = hvd.rank(), hvd.size()
wanted = alone_on_all(keras.optimizers.Adam(0.05))
for options in ({}, {"groups": 2}, {"gradient_predivide_factor": 2.0}):
    model = model_with(hvd.DistributedOptimizer(keras.optimizers.Adam(0.05), **options))
    fit(model)
    close(model.get_weights(), wanted, options)
model = model_with(hvd.DistributedOptimizer(keras.optimizers.Adam(0.05), compression=hvd.Compression.fp16))
fit(model)
assert max(np.abs(one - other).max() for one, other in zip(model.get_weights(), wanted)) < 0.05

rate = 0.1 * size
model = model_with(hvd.DistributedOptimizer(keras.optimizers.SGD(rate)), seed=rank)
history = fit(
    model,
    epochs=3,
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=2),
    ],
)
every = hvd.allgather_object([w.tolist() for w in model.get_weights()])
assert all(weights == every[0] for weights in every), "the ranks have different weights"
assert abs(history.history["lr"][-1] - rate) < 1e-6, history.history
assert float(hvd.allreduce(rank + 1.0, name="value")) == (size + 1) / 2

with tempfile.TemporaryDirectory() as folder:
    model = model_with(hvd.DistributedOptimizer(keras.optimizers.Adam(0.05)))
    fit(model)
    model.save(os.path.join(folder, "model.keras"))
    loaded = hvd.load_model(os.path.join(folder, "model.keras"))
    assert int(loaded.optimizer.iterations) == 2 * STEPS
    fit(model)
    fit(loaded)
    close(loaded.get_weights(), model.get_weights(), "training goes on from the file")
hvd.shutdown()
print("keras_backends: ok")
