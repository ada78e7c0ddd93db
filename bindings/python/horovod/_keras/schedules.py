# SPDX-License-Identifier: Apache-2.0
"""What the learning rate callbacks do; ``callbacks.py`` mixes it into callbacks of one Keras, which is ``_keras`` there."""

from horovod._keras.versions import is_keras_3
from horovod.common import basics

# Rates that differ by less are the same number, rounded.
_SAME = 1e-6


def _read(keras, value):
    if is_keras_3(keras):
        return float(keras.ops.convert_to_numpy(value))
    return float(value.numpy() if hasattr(value, "numpy") else keras.backend.get_value(value))


class Schedule:
    """The learning rate is ``initial_lr * multiplier(epoch)`` from ``start_epoch`` to before ``end_epoch``.

    ``multiplier``: a function, or a number m for m ** (epoch - start_epoch). ``staircase``: it changes at the beginning of an
    epoch; otherwise at every batch, with a fractional epoch, for which ``steps_per_epoch`` is needed where Keras does not
    know it. ``momentum_correction``: what momentum keeps of earlier steps, which have the rate of their time in them, is scaled
    with the rate.
    """

    def __init__(
        self,
        initial_lr,
        multiplier,
        start_epoch=0,
        end_epoch=None,
        staircase=True,
        momentum_correction=True,
        steps_per_epoch=None,
    ):
        super().__init__()
        if initial_lr is None:
            raise ValueError(f"{type(self).__name__}: initial_lr is None")
        self.initial_lr = initial_lr
        self.start_epoch, self.end_epoch = start_epoch, end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self._momentum = None
        constant = not callable(multiplier)
        self.multiplier = (lambda epoch: multiplier ** (epoch - start_epoch)) if constant else multiplier

    def _steps(self):
        steps = self.steps_per_epoch or (self.params or {}).get("steps")
        if not steps:
            raise ValueError(f"{type(self).__name__}: steps_per_epoch is not given, and Keras does not know it")
        return steps

    def _adjust(self, epoch):
        optimizer = self.model.optimizer
        before = _read(self._keras, optimizer.learning_rate)
        new = float(self.initial_lr * self.multiplier(epoch))
        if is_keras_3(self._keras):
            optimizer.learning_rate = new
        else:
            self._keras.backend.set_value(optimizer.learning_rate, new)
        if self.momentum_correction and before and abs(new / before - 1) > _SAME:
            self._correct_momentum(getattr(optimizer, "inner_optimizer", optimizer), new / before)

    def _correct_momentum(self, optimizer, ratio):
        momentum = getattr(optimizer, "momentum", None)
        if hasattr(momentum, "assign"):
            # Optimizers of TensorFlow 2.10 and before: for the step that follows, scaling this is the same.
            self._momentum = _read(self._keras, momentum)
            momentum.assign(self._momentum * ratio)
        elif momentum:
            for velocity in getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", ()):
                velocity.assign(velocity * ratio)

    def on_epoch_begin(self, epoch, logs=None):
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        epoch = self.current_epoch
        if epoch < self.start_epoch or (self.end_epoch is not None and epoch >= self.end_epoch):
            return
        if not self.staircase:
            self._adjust(epoch + float(batch) / self._steps())
        elif batch == 0:
            self._adjust(epoch)

    def on_train_batch_end(self, batch, logs=None):
        if self._momentum is not None:
            self.model.optimizer.momentum.assign(self._momentum)
            self._momentum = None

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs["lr"] = _read(self._keras, self.model.optimizer.learning_rate)


class Warmup(Schedule):
    """From the rate of one rank, ``initial_lr / size``, to ``initial_lr`` within the first epochs.

    ``initial_lr`` is the rate that is meant for all ranks, usually scaled by their number.
    """

    def __init__(self, initial_lr, warmup_epochs=5, momentum_correction=True, steps_per_epoch=None, verbose=0):
        def multiplier(epoch):
            # As if it were adjusted at the end of the batch, so that the last one reaches the goal.
            epoch += 1.0 / self._steps()
            return 1.0 / basics.size() * (epoch * (basics.size() - 1) / warmup_epochs + 1)

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        if self.verbose and epoch == self.end_epoch - 1 and basics.rank() == 0:
            rate = (logs or {}).get("lr")
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate}.")
