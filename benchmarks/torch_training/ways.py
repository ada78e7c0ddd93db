# SPDX-License-Identifier: Apache-2.0
"""The ways to train a model: in one process, and with the gradients of all ranks averaged by hvd or by a peer."""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import horovod.torch as hvd

SEED = 17
WAYS = ("alone", "hvd_optimizer", "ddp_waits", "ddp_hvd", "ddp_gloo")
LIMITS = ("alone", "ddp_waits")  # they average nothing: what is left if that cost nothing


class Trainer:
    """A model, its optimizer and the case they belong to."""

    def __init__(self, case, model, optimizer):
        self.case, self.model, self.optimizer = case, model, optimizer

    def loss(self, batch):
        """The first part of a step; ``backward()`` and ``optimizer.step()`` are the rest."""
        inputs, targets = batch
        self.optimizer.zero_grad()
        return self.case.loss(self.model(inputs), targets)

    def step(self, batch):
        """A whole step; returns the loss."""
        loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def parameters(self):
        return [parameter.detach() for parameter in self.model.parameters()]


def fresh(case):
    """A model and an optimizer, with the same numbers on every rank and in every way."""
    torch.manual_seed(SEED)
    model = case.model()
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=case.momentum)


def trainer(way, case, groups, bucket_view):
    """The Trainer of a way. Collective."""
    model, optimizer = fresh(case)
    if way == "hvd_optimizer":
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    elif way != "alone":
        # Buffers of normalization layers stay local as in the other ways, so that all do the same work.
        options = {"broadcast_buffers": False, "gradient_as_bucket_view": bucket_view}
        model = DistributedDataParallel(model, process_group=groups[way], **options)
        if way == "ddp_waits":
            model.register_comm_hook(torch.zeros(1), _wait_for_others)
    return Trainer(case, model, optimizer)


def _wait_for_others(number, bucket):
    """A communication hook of DDP: all ranks meet as in an allreduce of the bucket, but one number travels."""
    met = dist.all_reduce(number, async_op=True).get_future()
    return met.then(lambda _: bucket.buffer())


def groups():
    """Process groups of all ranks by way; one job has all of them. Collective."""
    dist.init_process_group("hvd")
    ours = dist.group.WORLD
    return {"ddp_waits": ours, "ddp_hvd": ours, "ddp_gloo": dist.new_group(backend="gloo")}


def train_alone_on_all(case, batches):
    """Parameters after training in one process with the mean of the gradients of all ranks.

    ``batches``: a list of steps, each a list of the batches of all ranks.
    """
    model, optimizer = fresh(case)
    one = Trainer(case, model, optimizer)
    for of_ranks in batches:
        optimizer.zero_grad()
        for inputs, targets in of_ranks:
            (case.loss(model(inputs), targets) / len(of_ranks)).backward()
        optimizer.step()
    return one.parameters()
