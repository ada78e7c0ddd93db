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

import numpy as np

from horovod import _ops
from horovod._native import constants
from horovod._objects import broadcast_object
from horovod.common import basics, elastic
from horovod.common.elastic import State, leave, run  # noqa: F401 - part of the module's interface
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401


@elastic.agree_by
def _largest_of(number):
    # Every language does the same at a commit, so that ranks of several languages can be one job.
    return int(_ops.allreduce(np.array([number], np.int32), op=constants.MAX, name="hvd.elastic.commit")[0])


class ObjectState(elastic.ObjectState):
    """Objects by name, which are attributes: ``ObjectState(weights=np.zeros(3), step=0)`` has ``state.weights``."""

    def __init__(self, **kwargs):
        super().__init__(broadcast_object, basics.rank, **kwargs)
