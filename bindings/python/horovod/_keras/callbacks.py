# SPDX-License-Identifier: Apache-2.0
"""Callbacks for ``fit``, made for one Keras: the package ``keras`` or what ``tf.keras`` is."""

import numpy as np

from horovod import _ops
from horovod._keras import schedules
from horovod._keras.state import broadcast_model
from horovod.common import basics


def _is_number(value):
    try:
        return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf"
    except (TypeError, ValueError):
        return False


def make(keras):
    """The callback classes for this Keras, by name."""
    callback, its_keras = keras.callbacks.Callback, {"_keras": keras}
    classes = (
        _broadcast(keras),
        _metric_average(keras),
        type("LearningRateScheduleCallback", (schedules.Schedule, callback), {**its_keras, "__doc__": schedules.Schedule.__doc__}),
        type("LearningRateWarmupCallback", (schedules.Warmup, callback), {**its_keras, "__doc__": schedules.Warmup.__doc__}),
        _best_checkpoint(keras),
    )
    return {cls.__name__: cls for cls in classes}


def _broadcast(keras):
    class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
        """Gives every rank the root's variables of the model and the optimizer once, after the first batch.

        By then all variables exist. ``local_variables`` and those given to ``register_local_var`` are left as they are.
        """

        def __init__(self, root_rank, device="", local_variables=None):
            super().__init__()
            self.root_rank = root_rank
            self.broadcast_done = False
            self._local_variables = list(local_variables or ())

        def register_local_var(self, var):
            """This variable keeps what it has on each rank."""
            self._local_variables.append(var)

        def on_train_batch_end(self, batch, logs=None):
            if self.broadcast_done:
                return
            broadcast_model(keras, self.model, self.root_rank, self._local_variables)
            self.broadcast_done = True

    return BroadcastGlobalVariablesCallback


def _metric_average(keras):
    class MetricAverageCallback(keras.callbacks.Callback):
        """Replaces the metrics of an epoch by their averages over the ranks.

        It stands before callbacks that use them, such as ReduceLROnPlateau and TensorBoard.
        """

        def __init__(self, device=""):
            super().__init__()

        def on_epoch_end(self, epoch, logs=None):
            names = sorted(name for name, value in (logs or {}).items() if _is_number(value))
            if not names:
                return
            values = np.array([logs[name] for name in names], dtype=np.float64)
            averages = _ops.allreduce(values, op=basics.Average, name="MetricAverageCallback")
            logs.update(zip(names, averages.tolist()))

    return MetricAverageCallback


def _best_checkpoint(keras):
    class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
        """Saves the best model so far. ``filepath`` is to be set before training."""

        def __init__(self, monitor="val_loss", verbose=0, mode="auto", save_freq="epoch", save_weights_only=False):
            anywhere = "best.weights.h5" if save_weights_only else "best.keras"
            super().__init__(
                anywhere,
                monitor=monitor,
                verbose=verbose,
                save_best_only=True,
                save_weights_only=save_weights_only,
                mode=mode,
                save_freq=save_freq,
            )
            self.filepath = None

    return BestModelCheckpoint
