# SPDX-License-Identifier: Apache-2.0
"""A backend of torch.distributed on this engine: ``torch.distributed.init_process_group("hvd")``.

Importing ``horovod.torch`` registers it, and so does PyTorch (2.15 and newer) when it is asked for ``hvd``.
DistributedDataParallel, fully_shard, DTensor and DeviceMesh then work on CPU tensors as with Gloo, under horovodrun, torchrun and
everything else that torch.distributed starts from.
"""

import torch.distributed as _dist

from horovod.torch import _graph
from horovod.torch.distributed import _answers, _backend, _buffers, _chains, _futures, _groups, _launch, _moves, _pairs, _work
from horovod.torch.distributed._answers import leave_unrecorded
from horovod.torch.distributed._backend import EngineProcessGroup, create_backend
from horovod.torch.distributed._older import end_destroyed_groups
from horovod.torch.distributed._work import teach_reducer

__all__ = ["EngineProcessGroup", "register"]


def register():
    """Makes the backend ``hvd`` known to torch.distributed. A second call does nothing."""
    if "HVD" not in _dist.Backend._plugins:
        _dist.Backend.register_backend("hvd", create_backend, extended_api=True, devices=["cpu"])
        _launch.install()
        leave_unrecorded("hvd")
        teach_reducer()
        _chains.install()
        end_destroyed_groups(EngineProcessGroup)


_graph.outside(_answers, _backend, _buffers, _chains, _futures, _groups, _moves, _pairs, _work)
register()
