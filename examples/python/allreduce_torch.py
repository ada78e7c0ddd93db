# SPDX-License-Identifier: Apache-2.0
"""The five lines that make a PyTorch script parallel: `horovodrun -np 2 python examples/python/allreduce_torch.py`."""

import torch

import horovod.torch as hvd

hvd.init()  # 1: find the other ranks
torch.manual_seed(hvd.rank())
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # 2: average gradients
hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # 3: begin alike
hvd.broadcast_optimizer_state(optimizer, root_rank=0)  # 4: also the optimizer

for step in range(20):
    images = torch.randn(16, 8)  # each rank has its own data
    loss = ((model(images) - images.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

loss = hvd.allreduce(loss.detach(), name="loss")  # 5: the mean over all ranks
if hvd.rank() == 0:
    print(f"{hvd.size()} ranks, loss {loss:.4f}")
