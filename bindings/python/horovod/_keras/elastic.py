# SPDX-License-Identifier: Apache-2.0
"""States and callbacks for elastic training, made for one Keras: the package ``keras`` or what ``tf.keras`` is."""

import re

import numpy as np

from horovod._keras.state import all_variables, broadcast_variables
from horovod._keras.versions import backend_of
from horovod._objects import broadcast_object
from horovod.common import basics, elastic
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.elastic import ObjectState


class VariablesState(elastic.ObjectState):
    """Variables, which derived classes name by ``variables()``, and other objects. Copies of the values are kept on the host."""

    def __init__(self, **kwargs):
        self._values = {}
        super().__init__(broadcast_object, basics.rank, **kwargs)
        self._keep_values()

    def variables(self):
        """All variables that belong to the state."""
        raise NotImplementedError(f"{type(self).__name__}.variables")

    def read(self, variables):
        """The values, as arrays."""
        return [np.array(variable.numpy()) for variable in variables]

    def write(self, variables, values):
        """Gives the variables these values."""
        for variable, value in zip(variables, values):
            variable.assign(value)

    def broadcast(self, variables):
        """Gives the variables the values of rank 0."""
        broadcast_variables(variables, 0)

    def _keep_values(self):
        variables = self.variables()
        self._values = dict(zip(map(id, variables), self.read(variables)))

    def save(self):
        self._keep_values()
        super().save()

    def restore(self):
        variables = self.variables()
        late = [variable.name for variable in variables if id(variable) not in self._values]
        if late:
            raise RuntimeError(
                f"{type(self).__name__}: the variables {', '.join(late[:4])} were made after the latest commit, so there is nothing to go "
                "back to; build model and optimizer before the state is made"
            )
        self.write(variables, [self._values[id(variable)] for variable in variables])
        super().restore()

    def sync(self):
        self.broadcast(self.variables())
        self._keep_values()
        super().sync()


class ModelState(VariablesState):
    """A model with its optimizer, which is ``model.optimizer`` unless another one is given, and other objects."""

    _keras = None  # set by classes for one Keras

    def __init__(self, model, optimizer=None, **kwargs):
        if not getattr(model, "built", True):
            raise ValueError(
                f"{type(self).__name__}: the model has no variables yet; build it (model.build(input_shape)), or call it once"
            )
        self.model = model
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        _build(self.optimizer, model)
        super().__init__(**kwargs)

    def variables(self):
        return all_variables(self.model, self.optimizer)

    def save(self):
        if backend_of(self._keras) == "jax":
            self.model.jax_state_sync()  # in the middle of fit the variables are elsewhere
        super().save()


def _build(optimizer, model):
    """Makes the optimizer's variables now, so that a state can go back to what they are at the beginning."""
    if getattr(optimizer, "built", True) or not model.trainable_variables:
        return
    make = getattr(optimizer, "build", None) or getattr(optimizer, "_create_all_weights", None)
    if make is not None:
        make(model.trainable_variables)


class _Position:
    """How far ``fit`` has come. A CommitStateCallback asks for it before it commits, wherever it stands in the list."""

    def __init__(self, state):
        super().__init__()
        self.state = state

    def on_train_begin(self, logs=None):
        vars(self.state).setdefault("_positions", {})[type(self)] = self

    def batch_done(self, batch):
        """The batch of this number has been used."""

    def epoch_done(self, epoch):
        """The epoch of this number is over."""

    def on_train_batch_end(self, batch, logs=None):
        self.batch_done(batch)

    def on_epoch_end(self, epoch, logs=None):
        self.epoch_done(epoch)


class _UpdateBatch(_Position):
    """Keeps in ``state.batch`` how many batches of the epoch have been used, also by a ``fit`` before this one; 0 at an epoch's end.

    After a failure, ``fit`` gets ``steps_per_epoch=steps - state.batch`` for what is left of the epoch.
    """

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._before = self.state.batch

    def batch_done(self, batch):
        self.state.batch = self._before + batch + 1

    def epoch_done(self, epoch):
        self.state.batch = self._before = 0


class _UpdateEpoch(_Position):
    """Keeps in ``state.epoch`` how many epochs are over, also of a ``fit`` before this one.

    After a failure, ``fit`` gets ``epochs=epochs - state.epoch``; or ``initial_epoch=state.epoch``.
    """

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._before, self._first = self.state.epoch, None

    def on_epoch_begin(self, epoch, logs=None):
        if self._first is None:
            self._first = epoch

    def epoch_done(self, epoch):
        self.state.epoch = self._before + epoch - self._first + 1


class _Commit:
    """Commits the state every ``batches_per_commit`` batches, and at the end of each epoch."""

    def __init__(self, state, batches_per_commit=1):
        super().__init__()
        self.state = state
        self.batches_per_commit = self._left = batches_per_commit

    def on_train_begin(self, logs=None):
        self._left = self.batches_per_commit

    def _positions(self):
        return vars(self.state).get("_positions", {}).values()

    def on_train_batch_end(self, batch, logs=None):
        self._left -= 1
        if self._left > 0:
            return
        for position in self._positions():
            position.batch_done(batch)
        self._left = self.batches_per_commit
        self.state.commit()

    def on_epoch_end(self, epoch, logs=None):
        for position in self._positions():
            position.epoch_done(epoch)
        self.state.commit()


def make(keras):
    """What the module ``elastic`` of this Keras has, by name."""
    parts = {
        "CommitStateCallback": _Commit,
        "UpdateBatchStateCallback": _UpdateBatch,
        "UpdateEpochStateCallback": _UpdateEpoch,
    }
    made = {name: type(name, (part, keras.callbacks.Callback), {"__doc__": part.__doc__}) for name, part in parts.items()}
    made["KerasState"] = type("KerasState", (ModelState,), {"__doc__": ModelState.__doc__, "_keras": keras})
    shared = elastic.State, ObjectState, HorovodInternalError, HostsUpdatedInterrupt
    return {**made, **{each.__name__: each for each in shared}, "leave": elastic.leave, "run": _run(backend_of(keras))}


def _in_jax(error):
    """The HorovodInternalError of a callback of JAX, or None."""
    told = re.search(r"\bHorovod\w*Error: (.*)", str(error))
    return told and (basics.failure() or HorovodInternalError(told[1]))


def _run(backend):
    """``elastic.run`` for this backend: what it makes of Horovod's errors counts as these."""
    if backend == "tensorflow":
        from horovod.tensorflow._failures import as_horovods
    elif backend == "jax":
        import jax

        as_horovods = elastic.telling(jax.errors.JaxRuntimeError, _in_jax)
    else:
        return elastic.run
    return lambda func: elastic.run(as_horovods(func))
