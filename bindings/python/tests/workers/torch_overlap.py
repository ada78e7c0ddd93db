# SPDX-License-Identifier: Apache-2.0
"""Gradients are reduced while backward still computes others, in the order in which they get ready."""

import time

import torch
from torch import nn

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
# Not the order of the parameters, so that only readiness can tell when a gradient should go.
FORWARD = [2, 0, 3, 1, 4]
# Far longer than an allreduce takes, also on a busy machine: only who does not reduce yet needs it.
DEADLINE_S = 60


class Layers(nn.Module):
    """``before(number)`` runs in backward, before the gradient of layer ``number`` is computed."""

    def __init__(self, width, before):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in FORWARD)
        for number, layer in enumerate(self.layers):
            nn.init.constant_(layer.weight, (number + 1) / width)
        self.before = before

    def forward(self, x):
        for number in FORWARD:
            x = self.layers[number](x)
            x.register_hook(lambda _gradient, number=number: self.before(number))
        return x

    def gradient(self, number):
        return self.layers[number].weight.grad


def backward(net, width, value):
    net(torch.full((1, width), value)).sum().backward()
    return net


def wait_until(happened, what):
    end = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < end, f"{what} is not reduced after {DEADLINE_S} s in which backward stood still"
        time.sleep(0.001)


def check(width, buckets, overlaps):
    """``overlaps``: every gradient is reduced before backward goes on with the next layer, from the second step on, in which they
    travel in ``buckets`` of so many.
    """
    awaiting = False
    # Gradients are linear in the input, so their means are those of the mean of the inputs.
    means = backward(Layers(width, lambda _number: None), width, (SIZE + 1) / 2)
    computed, seen = [], []

    def before(number):
        for other in computed if awaiting else ():
            wait_until(
                lambda other=other: torch.allclose(net.gradient(other), means.gradient(other)),
                f"width {width}: gradient of layer {other}, before that of layer {number},",
            )
            seen.append(other)
        computed.append(number)

    net = Layers(width, before)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.0), net.named_parameters())
    for step in range(3):
        awaiting = overlaps and step > 0
        computed.clear()
        seen.clear()
        optimizer.zero_grad()
        backward(net, width, float(RANK + 1))
        assert computed == FORWARD[::-1] and bool(seen) == awaiting, (computed, seen)
        optimizer.step()
        for number in FORWARD:
            torch.testing.assert_close(net.gradient(number), means.gradient(number), rtol=1e-5, atol=1e-6)
    found = [len(bucket.gradients) for bucket in optimizer._hvd.plan.buckets]
    assert SIZE == 1 or found == buckets, found


# Large gradients (1 MB) leave at once, each; small ones are one operation.
check(512, buckets=[1] * 5, overlaps=True)
check(4, buckets=[5], overlaps=False)
print("torch_overlap: ok")
