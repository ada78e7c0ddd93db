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
    values = [np.array(variable.numpy()) for variable in variables]
    handles = [
        _ops.broadcast_async_(_movable(value), root_rank, f"keras.broadcast.{index}", process_set)
        for index, value in enumerate(values)
    ]
    for variable, value, handle in zip(variables, values, handles):
        handle.wait()
        variable.assign(value)


def _movable(value):
    """The array, or its bits as a type that the engine has: Keras' random states are uint32."""
    return value.view({"uint32": np.int32, "uint64": np.int64}.get(value.dtype.name, value.dtype))


def broadcast_model(keras, model, root_rank, left_out=()):
    """Gives every rank the root's variables of the model and its optimizer, also in the middle of ``fit``."""
    if backend_of(keras) == "jax":
        model.jax_state_sync()  # fit keeps what it works on elsewhere, and takes what is assigned after this call
    broadcast_variables(all_variables(model, getattr(model, "optimizer", None), left_out), root_rank)


def load_model(keras, filepath, custom_optimizers, custom_objects, compression):
    """The model of a file, whose optimizer is distributed."""
    objects = {cls.__name__: cls for cls in custom_optimizers or ()}
    objects.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects or None)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        model.optimizer = wrap(keras, optimizer, None, 1, False, compression=compression, sparse_as_dense=False)
        if is_keras_3(keras) and backend_of(keras) == "tensorflow":
            model.jit_compile = False
    return model
