# SPDX-License-Identifier: Apache-2.0
"""State of optimizers as the root has it, whatever HOROVOD_SAFE_OBJECTS says."""

import os

import torch

import horovod.torch as hvd


def check_state(make):
    optimizer = make()
    if hvd.rank() == 0:  # only the root has state
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    own = optimizer.state_dict()
    assert own["state"] and own["param_groups"][0]["lr"] in (0.1, 0.5), own
    root = hvd.broadcast_object(own, 0)
    assert repr(root) == repr(own), (root, own)
    for name, value in own["state"][0].items():
        assert not torch.is_tensor(value) or torch.equal(value, root["state"][0][name])


hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Linear(3, 2)
for setting in "01":
    os.environ["HOROVOD_SAFE_OBJECTS"] = setting
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    check_state(lambda: torch.optim.Adam(model.parameters(), lr=0.1 * (hvd.rank() + 1), betas=(0.5, 0.25)))
    check_state(lambda: torch.optim.SGD(model.parameters(), torch.tensor(0.5 + hvd.rank()), momentum=0.9, nesterov=True))
print("objects_torch: ok")
