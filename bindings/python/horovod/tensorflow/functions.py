# SPDX-License-Identifier: Apache-2.0
"""Everybody starts alike: broadcasts of variables and objects."""

import tensorflow as tf

from horovod import _objects
from horovod._keras.state import broadcast_variables as broadcast_values
from horovod.common.process_sets import global_process_set
from horovod.tensorflow import mpi_ops


def _v1_graph():
    """Whether code builds a graph that sessions run, as TensorFlow 1 does."""
    return not tf.executing_eagerly() and not tf.compat.v1.get_default_graph().building_function


def broadcast_variables(variables, root_rank, process_set=global_process_set, inplace=False):
    """Gives every rank the values that the variables have on ``root_rank``.

    In a graph of TensorFlow 1: an operation that does it. ``inplace`` is accepted for Horovod's sake. Variables of Keras, on
    any of its backends, are as good as TensorFlow's.
    """
    variables = list(variables)
    if _v1_graph():
        assigned = [_assign_broadcast(v, root_rank, process_set, index) for index, v in enumerate(variables)]
        return tf.group(*assigned)
    if not tf.executing_eagerly():
        for index, variable in enumerate(variables):
            _assign_broadcast(variable, root_rank, process_set, index)
        return None
    return broadcast_values(variables, root_rank, process_set)


def _assign_broadcast(variable, root_rank, process_set, index):
    value = getattr(variable, "value", variable)
    value = tf.convert_to_tensor(value() if callable(value) else value)
    received = mpi_ops.broadcast(value, root_rank, f"broadcast_variables_{index}", process_set=process_set)
    return variable.assign(received)


def broadcast_global_variables(root_rank):
    """In a graph of TensorFlow 1, an operation that gives every rank the root's values of all global variables."""
    if tf.executing_eagerly():
        raise RuntimeError(
            "broadcast_global_variables: there are no global variables when TensorFlow runs eagerly; use broadcast_variables"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Gives every rank the root's values of all global variables when a session has been made, also from a checkpoint."""

    def __init__(self, root_rank, device=""):
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op = None

    def begin(self):
        if self.bcast_op is None or self.bcast_op.graph is not tf.compat.v1.get_default_graph():
            with tf.device(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session, coord):
        session.run(self.bcast_op)


def broadcast_object(obj, root_rank=0, session=None, name=None, process_set=global_process_set):
    """The object that ``root_rank`` (a rank of the job) passes, on every rank of the set. Others may pass None.

    ``session`` is accepted for Horovod's sake: objects travel outside of graphs.
    """
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(root_rank=0, session=None, name=None, process_set=global_process_set):
    """A function of one argument that is :func:`broadcast_object` with this root, name and set."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(obj, session=None, name=None, process_set=global_process_set):
    """The objects of all ranks of the set as a list, in the order of ranks."""
    return _objects.allgather_object(obj, name, process_set)
