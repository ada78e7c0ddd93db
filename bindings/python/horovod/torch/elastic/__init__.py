# SPDX-License-Identifier: Apache-2.0
"""Training with PyTorch that goes on after a failure: ``hvd.elastic``."""

import os

import torch

from horovod.elastic import ObjectState  # noqa: F401
from horovod.common.elastic import State, leave, run  # noqa: F401 - part of the module's interface
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
from horovod.torch.elastic import state  # noqa: F401
from horovod.torch.elastic.sampler import ElasticSampler  # noqa: F401
from horovod.torch.elastic.state import TorchState  # noqa: F401

if "HOROVOD_WORKER" in os.environ:  # a process of an elastic job
    # PyTorch imports a thousand modules when a process makes its first optimizer, which takes a second or two. From hvd.init() on
    # the other ranks would wait for that.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
