# SPDX-License-Identifier: Apache-2.0
"""What needs the other ranks says so before init, instead of working alone; and for a set that is not registered."""

import torch
from errors import raises

import horovod.torch as hvd


model = torch.nn.Linear(2, 2)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
for op in (hvd.Average, hvd.Adasum):
    raises(ValueError, "initialized", hvd.DistributedOptimizer, sgd, op=op)
raises(ValueError, "initialized", lambda: hvd.SyncBatchNorm(2)(torch.ones(2, 2)))
assert hvd.SyncBatchNorm(2).eval()(torch.ones(2, 2)).shape == (2, 2)
hvd.init()
unknown = hvd.ProcessSet([0])
for op in (hvd.Average, hvd.Adasum):
    raises(ValueError, "not registered", hvd.DistributedOptimizer, sgd, op=op, process_set=unknown)
raises(ValueError, "not registered", lambda: hvd.SyncBatchNorm(2, process_set=unknown)(torch.ones(2, 2)))
hvd.DistributedOptimizer(sgd).step()
print("torch_before_init: ok")
