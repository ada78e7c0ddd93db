# SPDX-License-Identifier: Apache-2.0
"""Training with PyTorch that goes on after a failure: ``hvd.elastic``."""

from horovod.elastic import ObjectState  # noqa: F401
from horovod.common.elastic import State, leave, run  # noqa: F401 - part of the module's interface
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
from horovod.torch.elastic import state  # noqa: F401
from horovod.torch.elastic.sampler import ElasticSampler  # noqa: F401
from horovod.torch.elastic.state import TorchState  # noqa: F401
