# SPDX-License-Identifier: Apache-2.0
"""Keras 2 as ``tf.keras``: fit, callbacks, saved models. TF_USE_LEGACY_KERAS=1 chooses it where TensorFlow has Keras 3."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from small_keras import ROWS, STEPS, alone_on_all, check_momentum, close, data_of, fit, model_with

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras

keras = tf.keras
assert not hasattr(keras, "ops"), f"{keras} is Keras 3"

hvd.init()
rank, size = hvd.rank(), hvd.size()
for kind in (keras.optimizers.Adam, keras.optimizers.legacy.Adam):
    wanted = alone_on_all(keras, kind(0.05))
    wrapped = hvd_keras.DistributedOptimizer(kind(0.05))
    assert isinstance(wrapped, kind) and type(wrapped).__name__ == "Adam"
    model = model_with(keras, wrapped)
    fit(model)
    close(model.get_weights(), wanted, kind.__module__)
    assert len(model.optimizer.variables()) == len(model.optimizer.variables) > 2


def check_accumulation(kind, average):
    """Two passes of half a batch are one pass of the whole: their sum, or with ``average`` their mean."""
    wanted = alone_on_all(keras, kind(0.05))
    model = model_with(
        keras,
        hvd_keras.DistributedOptimizer(
            kind(0.05 if average else 0.025), backward_passes_per_step=2, average_aggregated_gradients=average
        ),
    )
    inputs, targets = data_of(rank)
    model.fit(inputs, targets, batch_size=ROWS // 2, epochs=2, shuffle=False, verbose=0)
    close(model.get_weights(), wanted, f"{kind.__module__}, two passes")
    assert int(model.optimizer.iterations) == 4 * STEPS


for kind in (keras.optimizers.SGD, keras.optimizers.legacy.SGD):
    check_accumulation(kind, average=kind is keras.optimizers.SGD)

model = model_with(keras, hvd_keras.DistributedOptimizer(keras.optimizers.SGD(0.1 * size)), seed=rank)
callbacks = hvd_keras.callbacks
history = fit(
    model,
    epochs=3,
    callbacks=[
        callbacks.BroadcastGlobalVariablesCallback(0),
        callbacks.MetricAverageCallback(),
        callbacks.LearningRateWarmupCallback(0.1 * size, warmup_epochs=2),
    ],
)
every = hvd.allgather_object([w.tolist() for w in model.get_weights()])
assert all(weights == every[0] for weights in every), "the ranks have different weights"
assert abs(history.history["lr"][-1] - 0.1 * size) < 1e-6, history.history
for kind in (keras.optimizers.SGD, keras.optimizers.legacy.SGD):
    check_momentum(keras, hvd_keras, kind)

with tempfile.TemporaryDirectory() as folder:
    model = model_with(keras, hvd_keras.DistributedOptimizer(keras.optimizers.Adam(0.05)))
    fit(model)
    model.save(os.path.join(folder, "model.keras"))
    loaded = hvd_keras.load_model(os.path.join(folder, "model.keras"))
    assert hasattr(loaded.optimizer, "register_local_var") and int(loaded.optimizer.iterations) == 2 * STEPS
    fit(model)
    fit(loaded)
    close(loaded.get_weights(), model.get_weights(), "training goes on from the file")

inputs = np.random.default_rng(5).normal(size=(4 * size, 3)).astype(np.float32)
plain, sync = keras.layers.BatchNormalization(), hvd.SyncBatchNormalization()
found = sync(inputs[4 * rank : 4 * rank + 4], training=True)
close([found], [plain(inputs, training=True)[4 * rank : 4 * rank + 4]], "batch normalisation")
close(sync.get_weights(), plain.get_weights(), "moving statistics")
hvd.shutdown()
print("tensorflow_keras2: ok")
