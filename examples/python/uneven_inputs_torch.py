# SPDX-License-Identifier: Apache-2.0
"""Every row is used exactly once although the ranks have different numbers of batches: `join` lets the early ones wait.

    horovodrun -np 3 python examples/python/uneven_inputs_torch.py

A DistributedSampler gives some rows out twice, or leaves some out, so that all ranks have equally many. The one here
does not: with 97 rows one rank has a row, and a batch, more than the others.
"""

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import horovod.torch as hvd

ROWS, BATCH = 97, 8


class OwnRows(DistributedSampler):
    """A DistributedSampler that gives out every row once: shares differ by at most one row."""

    def __init__(self, dataset, num_replicas, rank, **options):
        super().__init__(dataset, num_replicas, rank, **options)
        self.num_samples = len(range(rank, len(dataset), num_replicas))

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        rows = len(self.dataset)
        order = torch.randperm(rows, generator=generator) if self.shuffle else torch.arange(rows)
        return iter(order[self.rank :: self.num_replicas].tolist())


def main():
    hvd.init()
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(ROWS, 5, generator=generator)
    wanted = torch.randn(5, 1, generator=generator)
    data = TensorDataset(inputs, inputs @ wanted, torch.arange(ROWS))
    sampler = OwnRows(data, hvd.size(), hvd.rank(), seed=1)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)

    model = torch.nn.Linear(5, 1, bias=False).to(device)
    # Sum, and losses that are sums over rows: a rank that has joined adds nothing, and nothing has to be known of the
    # others.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5 / (BATCH * hvd.size()))
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Sum)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    seen = torch.zeros(ROWS, dtype=torch.int64)
    for epoch in range(20):
        sampler.set_epoch(epoch)
        for rows, targets, numbers in loader:
            optimizer.zero_grad()
            (model(rows.to(device)) - targets.to(device)).pow(2).sum().mul(0.5).backward()
            optimizer.step()
            seen[numbers] += 1
        hvd.join()  # the others may have one batch more
        # The ranks that joined early made fewer steps: everybody goes on with the model of one that made them all.
        most = hvd.allgather(torch.tensor([len(loader)])).argmax().item()
        hvd.broadcast_parameters(model.state_dict(), root_rank=most)

    seen = hvd.allreduce(seen, op=hvd.Sum, name="seen")
    error = (model.weight.detach().cpu().t() - wanted).abs().max().item()
    print(f"rank {hvd.rank()}: {len(sampler)} rows in {len(loader)} batches; error of the weights {error:.1e}")
    assert bool((seen == 20).all()), seen
    assert error < 1e-3, error


if __name__ == "__main__":
    main()
