# SPDX-License-Identifier: Apache-2.0
"""Keras: distributed optimizers in fit, callbacks, saved models, batch statistics over all ranks."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from errors import raises
from small_keras import ROWS, STEPS, check_momentum, close, data_of, fit

import horovod.keras
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras

keras = tf.keras


def model_with(optimizer, seed=3, **options):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
    model.compile(optimizer, "mse", metrics=["mae"], **options)
    return model


def in_turns(parts):
    """The batches of all ranks, step by step, as one process gets them."""
    return np.concatenate([part[i * ROWS : (i + 1) * ROWS] for i in range(STEPS) for part in parts])


def alone_on_all(optimizer, batches=1, epochs=2):
    model = model_with(optimizer)
    parts = [data_of(rank) for rank in range(hvd.size())]
    inputs, targets = in_turns([part[0] for part in parts]), in_turns([part[1] for part in parts])
    model.fit(inputs, targets, batch_size=ROWS * hvd.size() * batches, epochs=epochs, shuffle=False, verbose=0)
    return model.get_weights()


def check_fit():
    wanted = alone_on_all(keras.optimizers.Adam(0.05))
    cases = {
        "plain": {},
        "groups": {"groups": 2},
        "predivide": {"gradient_predivide_factor": 4.0},
        "eager": {},
    }
    for what, options in cases.items():
        optimizer = hvd_keras.DistributedOptimizer(keras.optimizers.Adam(0.05), **options)
        assert type(optimizer).__name__ == "Adam" and isinstance(optimizer, keras.optimizers.Adam)
        model = model_with(optimizer, run_eagerly=what == "eager")
        fit(model)
        close(model.get_weights(), wanted, what)
        assert model.optimizer.variables() == model.optimizer.variables
    optimizer = horovod.keras.DistributedOptimizer(keras.optimizers.Adam(0.05))
    model = model_with(optimizer)
    fit(model)
    close(model.get_weights(), wanted, "horovod.keras")
    clipped = alone_on_all(keras.optimizers.SGD(0.1, clipnorm=0.1))
    model = model_with(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, clipnorm=0.1)))
    fit(model)
    close(model.get_weights(), clipped, "clipped after reduction")


def check_passes():
    inputs, targets = (np.repeat(part[:ROWS], 2, axis=0) for part in data_of(hvd.rank()))
    results = {}
    for average in (False, True):
        options = {"backward_passes_per_step": 2, "average_aggregated_gradients": average}
        model = model_with(hvd_keras.DistributedOptimizer(keras.optimizers.SGD(0.1 if average else 0.05), **options))
        model.fit(inputs, targets, batch_size=ROWS, shuffle=False, verbose=0)
        results[average] = model.get_weights()
    close(results[True], results[False], "sum and average of two passes")
    plain = model_with(hvd_keras.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    plain.fit(inputs, targets, batch_size=2 * ROWS, shuffle=False, verbose=0)
    close(results[True], plain.get_weights(), "two passes and one twice as large")


def check_local():
    layers = [keras.layers.Dense(8, "relu"), keras.layers.Dense(2)]
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((5,)), *layers])
    model.compile(hvd_keras.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=layers[1]), "mse")
    fit(model, epochs=1)
    every = hvd.allgather_object([w.tolist() for w in model.get_weights()])
    if hvd.size() > 1:
        assert every[0][2] != every[1][2], "the local layer is the same on two ranks"
    raises(ValueError, "not a layer", hvd_keras.PartialDistributedOptimizer, keras.optimizers.SGD(), local_layers=[3])


def check_errors():
    wrapped = hvd_keras.DistributedOptimizer(keras.optimizers.SGD())
    raises(ValueError, "already", hvd_keras.DistributedOptimizer, wrapped)
    raises(ValueError, "op", hvd_keras.DistributedOptimizer, keras.optimizers.SGD(), op=hvd.Adasum)
    raises(ValueError, "op", hvd_keras.allreduce, 1.0, op=hvd.Max)
    raises(ValueError, "backward_passes", hvd_keras.DistributedOptimizer, keras.optimizers.SGD(), backward_passes_per_step=0)


def check_values():
    rank, size = hvd.rank(), hvd.size()
    for flavour in (hvd_keras, horovod.keras):
        assert abs(float(flavour.allreduce(rank + 1.0, name="v")) - (size + 1) / 2) < 1e-6
        assert float(flavour.allreduce(tf.constant(2.0), op=hvd.Sum)) == 2.0 * size
        assert np.array(flavour.allgather(np.array([rank]))).tolist() == list(range(size))
        assert int(flavour.broadcast(np.array(rank), size - 1)) == size - 1
        assert np.array(flavour.reducescatter(np.arange(float(size)), op=hvd.Sum)).tolist() == [float(rank * size)]


def check_callbacks():
    rank, size = hvd.rank(), hvd.size()
    callbacks = hvd_keras.callbacks
    model = model_with(hvd_keras.DistributedOptimizer(keras.optimizers.SGD(0.1 * size, momentum=0.5)), seed=rank)
    seen = {}

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.setdefault("rates", []).append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))

        def on_epoch_end(self, epoch, logs=None):
            seen["logs"] = dict(logs)

    warmup = callbacks.LearningRateWarmupCallback(initial_lr=0.1 * size, warmup_epochs=2)
    schedule = callbacks.LearningRateScheduleCallback(0.1 * size, multiplier=0.5, start_epoch=2)
    history = fit(
        model,
        epochs=4,
        callbacks=[callbacks.BroadcastGlobalVariablesCallback(0), callbacks.MetricAverageCallback(), warmup, schedule, Watch()],
    )
    every = hvd.allgather_object([w.tolist() for w in model.get_weights()])
    assert all(weights == every[0] for weights in every), "the ranks have different weights"
    wanted = [0.1 * ((step + 1) / STEPS * (size - 1) / 2 + 1) for step in range(2 * STEPS)]
    wanted += [0.1 * size] * STEPS + [0.05 * size] * STEPS
    np.testing.assert_allclose(seen["rates"], wanted, rtol=1e-5)
    assert abs(seen["logs"]["lr"] - 0.05 * size) < 1e-6
    logs = hvd.allgather_object(history.history["loss"])
    assert all(one == logs[0] for one in logs), logs
    check_momentum(keras, hvd_keras, keras.optimizers.SGD)
    raises(ValueError, "initial_lr", callbacks.LearningRateScheduleCallback, None, 1.0)
    assert callbacks.BestModelCheckpoint(monitor="loss").filepath is None


def check_saved():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model = model_with(hvd_keras.DistributedOptimizer(keras.optimizers.Adam(0.05)))
        fit(model)
        model.save(path)
        plain = keras.models.load_model(path)
        assert type(plain.optimizer) is keras.optimizers.Adam
        loaded = hvd_keras.load_model(path)
        assert isinstance(loaded.optimizer, keras.optimizers.Adam) and hasattr(loaded.optimizer, "register_local_var")
        assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations) == 2 * STEPS
        fit(model)
        fit(loaded)
        close(loaded.get_weights(), model.get_weights(), "training goes on from the file")


def check_sync_batch_norm():
    rank, size = hvd.rank(), hvd.size()
    random = np.random.default_rng(5)
    every = random.normal(size=(4 * size, 3, 2)).astype(np.float32)
    upstream = random.normal(size=every.shape).astype(np.float32)
    own = slice(4 * rank, 4 * rank + 4)
    plain, sync = keras.layers.BatchNormalization(momentum=0.9), hvd.SyncBatchNormalization(momentum=0.9)
    assert sync.name.startswith("sync_batch_normalization")

    def run(layer, inputs, weights):
        inputs = tf.convert_to_tensor(inputs)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, training=True)
            loss = tf.reduce_sum(outputs * weights)
        return outputs, tape.gradient(loss, inputs)

    wanted = run(plain, every, upstream)
    for way in (run, tf.function(run, reduce_retracing=False)):
        sync = hvd.SyncBatchNormalization(momentum=0.9)
        sync.build(every.shape)
        found = way(sync, every[own], upstream[own])
        close([found[0]], [wanted[0][own]], "outputs")
        close([found[1]], [wanted[1][own]], "gradient of the inputs")
        close([sync.moving_mean, sync.moving_variance], [plain.moving_mean, plain.moving_variance], "moving statistics")
    raises(ValueError, "fused", hvd.SyncBatchNormalization, fused=True)


if __name__ == "__main__":
    hvd.init()
    check_errors()
    check_values()
    check_fit()
    check_passes()
    check_local()
    check_callbacks()
    check_saved()
    check_sync_batch_norm()
    hvd.shutdown()
    print("tensorflow_keras: ok")
