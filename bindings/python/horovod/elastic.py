# SPDX-License-Identifier: Apache-2.0
"""Training that goes on after a failure, for programs on NumPy arrays: ``hvd.elastic``.

    @hvd.elastic.run
    def train(state):
        while state.step < 100:
            state.weights -= 0.1 * hvd.allreduce(gradient(state.weights), name="gradient")
            state.step += 1
            state.commit()

    train(hvd.elastic.ObjectState(weights=np.zeros(3), step=0))
"""

from horovod._objects import broadcast_object
from horovod.common import basics, elastic
from horovod.common.elastic import State, run  # noqa: F401 - part of the module's interface
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401


class ObjectState(elastic.ObjectState):
    """Objects by name, which are attributes: ``ObjectState(weights=np.zeros(3), step=0)`` has ``state.weights``."""

    def __init__(self, **kwargs):
        super().__init__(broadcast_object, basics.rank, **kwargs)
