# SPDX-License-Identifier: Apache-2.0
"""Everybody starts alike: broadcasts of parameters and objects."""

import types

import mxnet as mx

from horovod import _objects
from horovod.common import basics
from horovod.mxnet import mpi_ops


def broadcast_object(obj, root_rank=0, name=None):
    """The object of ``root_rank``, pickled on the way."""
    return _objects.broadcast_object(obj, root_rank, name)


def allgather_object(obj, name=None):
    """The objects of all ranks as a list, in the order of ranks."""
    return _objects.allgather_object(obj, name)


def broadcast_parameters(params, root_rank=0, prefix=None):
    """Gives every rank the values that the parameters have on ``root_rank``.

    ``params``: a dict of NDArrays, such as the one of ``Module.get_params()``, or Gluon's, such as
    ``block.collect_params()``. A parameter whose shape is not known yet is broadcast when it gets its values. ``prefix``: what
    the names of the operations begin with.
    """
    if not isinstance(params, (dict, mx.gluon.parameter.ParameterDict)):
        raise ValueError(f"broadcast_parameters: {type(params).__name__} is neither a dict nor a ParameterDict")
    if basics.size() == 1:
        return
    waiting = []
    for key, value in sorted(params.items()):
        name = f"{prefix or ''}{key}"
        if not isinstance(value, mx.gluon.parameter.Parameter):
            waiting.append(mpi_ops.broadcast_(value, root_rank, name))
            continue
        try:
            data = value.data()
        except mx.gluon.parameter.DeferredInitializationError:
            _broadcast_when_there(value, root_rank, name)
        else:
            waiting.append(mpi_ops.broadcast_(data, root_rank, name))
    for tensor in waiting:
        tensor.wait_to_read()


def _broadcast_when_there(parameter, root_rank, name):
    begin = parameter._init_impl

    def init_impl(self, *args, **kwargs):
        begin(*args, **kwargs)
        mpi_ops.broadcast_(self.data(), root_rank, name).wait_to_read()

    parameter._init_impl = types.MethodType(init_impl, parameter)
