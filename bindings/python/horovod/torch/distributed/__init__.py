# SPDX-License-Identifier: Apache-2.0
"""A backend of torch.distributed on this engine: ``torch.distributed.init_process_group("hvd")``.

Importing ``horovod.torch`` registers it. DistributedDataParallel, fully_shard, DTensor and DeviceMesh then work on CPU
tensors as with Gloo, under horovodrun, torchrun and everything else that torch.distributed starts from.
"""

import torch.distributed as _dist

from horovod.torch import _graph
from horovod.torch.distributed import _backend, _buffers, _groups, _launch, _moves, _pairs, _work
from horovod.torch.distributed._backend import EngineProcessGroup, create_backend
from horovod.torch.distributed._older import end_destroyed_groups
from horovod.torch.distributed._work import teach_reducer

__all__ = ["EngineProcessGroup", "register"]


def register():
    """Makes the backend ``hvd`` known to torch.distributed. A second call does nothing."""
    if "HVD" not in _dist.Backend._plugins:
        _dist.Backend.register_backend("hvd", create_backend, extended_api=True, devices=["cpu"])
        _launch.install()
        teach_reducer()
        end_destroyed_groups(EngineProcessGroup)


_graph.outside(_backend, _buffers, _groups, _moves, _pairs, _work)
register()
