# SPDX-License-Identifier: Apache-2.0
"""Training with TensorFlow that goes on after a failure: ``hvd.elastic``."""

import tensorflow as tf

from horovod._keras.elastic import ModelState, VariablesState
from horovod._keras.versions import tf_keras
from horovod.common import elastic
from horovod.common.elastic import State, leave  # noqa: F401 - part of the module's interface
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
from horovod.elastic import ObjectState  # noqa: F401
from horovod.tensorflow._failures import as_horovods
from horovod.tensorflow.functions import broadcast_variables


def run(func):
    """Decorates ``func(state, ...)``, as :func:`horovod.elastic.run` does.

    What TensorFlow makes of the errors of Horovod's operations counts as these.
    """
    return elastic.run(as_horovods(func))


class TensorFlowState(VariablesState):
    """Variables and other objects: ``TensorFlowState(variables, step=0)``.

    In a graph of TensorFlow 1 ``session`` is given, and without ``variables`` the state has all global variables.
    """

    def __init__(self, variables=None, session=None, **kwargs):
        if variables is None and tf.executing_eagerly():
            raise ValueError("TensorFlowState: there are no global variables when TensorFlow runs eagerly; pass the variables")
        self._session = session
        self._variables = list(tf.compat.v1.global_variables() if variables is None else variables)
        if session is not None:
            self._places = [tf.compat.v1.placeholder(variable.dtype.base_dtype, variable.shape) for variable in self._variables]
            self._assigned = [tf.compat.v1.assign(variable, place) for variable, place in zip(self._variables, self._places)]
            self._received = broadcast_variables(self._variables, 0)
        super().__init__(**kwargs)

    def variables(self):
        return self._variables

    def read(self, variables):
        return super().read(variables) if self._session is None else self._session.run(variables)

    def write(self, variables, values):
        if self._session is None:
            super().write(variables, values)
        else:
            self._session.run(self._assigned, dict(zip(self._places, values)))

    def broadcast(self, variables):
        if self._session is None:
            super().broadcast(variables)
        else:
            self._session.run(self._received)


class TensorFlowKerasState(ModelState):
    """A model of ``tf.keras`` with its optimizer, and other objects: ``TensorFlowKerasState(model, optimizer, batch=0)``.

    ``backend`` is accepted for Horovod's sake.
    """

    _keras = tf_keras()

    def __init__(self, model, optimizer=None, backend=None, **kwargs):
        super().__init__(model, optimizer, **kwargs)
