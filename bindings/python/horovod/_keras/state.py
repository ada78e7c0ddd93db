# SPDX-License-Identifier: Apache-2.0
"""Everybody starts alike: broadcasts of the variables of models and optimizers, on any backend of Keras."""

import numpy as np

from horovod import _ops
from horovod._keras.optimizer import wrap
from horovod._keras.versions import backend_of, is_keras_3
from horovod.common.process_sets import global_process_set


def all_variables(model, optimizer, left_out=()):
    """The variables of a model and its optimizer, each once."""
    variables = list(model.variables if hasattr(model, "variables") else model.weights)
    if optimizer is not None:
        own = optimizer.variables
        variables += list(own() if callable(own) and not isinstance(own, list) else own)
    left_out = {id(variable) for variable in left_out}
    found, seen = [], set()
    for variable in variables:
        if id(variable) not in seen and id(variable) not in left_out:
            seen.add(id(variable))
            found.append(variable)
    return found


def broadcast_variables(variables, root_rank, process_set=global_process_set):
    """Gives every rank the values that the variables have on ``root_rank``, all at once."""
    values = [np.array(_value(variable)) for variable in variables]
    moved = [i for i, value in enumerate(values) if value.dtype.kind in "biufV" and value.dtype.name != "uint32"]
    handles = {
        i: _ops.broadcast_async_(values[i], root_rank, f"keras.broadcast.{i}", process_set) for i in moved
    }
    # Keras' random seeds are uint32, which the engine sums no differently than int32 when it only moves them.
    rest = [i for i in range(len(values)) if i not in handles]
    for i in rest:
        bits = values[i].view(np.int32) if values[i].dtype.itemsize == 4 else None
        if bits is not None:
            handles[i] = _ops.broadcast_async_(bits, root_rank, f"keras.broadcast.{i}", process_set)
    for i, handle in handles.items():
        handle.wait()
        variables[i].assign(values[i])


def _value(variable):
    return variable.numpy()


def broadcast_model(keras, model, root_rank, left_out=()):
    """Gives every rank the root's variables of the model and its optimizer, also in the middle of ``fit``."""
    backend = backend_of(keras)
    if backend == "jax" and hasattr(model, "jax_state_sync"):
        model.jax_state_sync()
    broadcast_variables(all_variables(model, getattr(model, "optimizer", None), left_out), root_rank)
    if backend == "jax" and getattr(model, "_jax_state", None) is not None:
        # fit goes on with what it holds, which is not what the variables hold any more.
        state = model._jax_state
        state["trainable_variables"] = [v.value for v in model.trainable_variables]
        state["non_trainable_variables"] = [v.value for v in model.non_trainable_variables]
        state["optimizer_variables"] = [v.value for v in model.optimizer.variables]


def load_model(keras, filepath, custom_optimizers, custom_objects, legacy_opts, **arguments):
    """The model of a file, whose optimizer is distributed."""
    objects = {cls.__name__: cls for cls in custom_optimizers or ()}
    objects.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects or None)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        model.optimizer = wrap(keras, optimizer, None, 1, False, **arguments)
        if is_keras_3(keras) and backend_of(keras) == "tensorflow":
            model.jit_compile = False
    return model
