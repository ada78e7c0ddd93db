# SPDX-License-Identifier: Apache-2.0
"""horovod.keras on the backend of Keras 3 that KERAS_BACKEND names: fit, accumulation, callbacks, saved models."""

import os
import tempfile

import keras
import numpy as np
from small_keras import STEPS, alone_on_all, check_momentum, close, fit, model_with

import horovod.keras as hvd


hvd.init()
rank, size = hvd.rank(), hvd.size()
wanted = alone_on_all(keras, keras.optimizers.Adam(0.05))
for options in ({}, {"groups": 2}, {"gradient_predivide_factor": 2.0}):
    model = model_with(keras, hvd.DistributedOptimizer(keras.optimizers.Adam(0.05), **options))
    fit(model)
    close(model.get_weights(), wanted, options)
model = model_with(keras, hvd.DistributedOptimizer(keras.optimizers.Adam(0.05), compression=hvd.Compression.fp16))
fit(model)
assert max(np.abs(one - other).max() for one, other in zip(model.get_weights(), wanted)) < 0.05

rate = 0.1 * size
model = model_with(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(rate)), seed=rank)
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
check_momentum(keras, hvd, keras.optimizers.SGD)
assert float(hvd.allreduce(rank + 1.0, name="value")) == (size + 1) / 2

with tempfile.TemporaryDirectory() as folder:
    model = model_with(keras, hvd.DistributedOptimizer(keras.optimizers.Adam(0.05)))
    fit(model)
    model.save(os.path.join(folder, "model.keras"))
    loaded = hvd.load_model(os.path.join(folder, "model.keras"))
    assert int(loaded.optimizer.iterations) == 2 * STEPS
    fit(model)
    fit(loaded)
    close(loaded.get_weights(), model.get_weights(), "training goes on from the file")
hvd.shutdown()
print("keras_backends: ok")
