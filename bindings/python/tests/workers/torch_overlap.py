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


def check(width, awaited, steps, buckets):
    """``awaited(computed, number)``: the layers that must be reduced before backward goes on with layer ``number``.

    From the second of the steps on they travel in ``buckets`` of so many.
    """
    # Gradients are linear in the input, so their means are those of the mean of the inputs.
    means = backward(Layers(width, lambda _number: None), width, (SIZE + 1) / 2)
    computed, seen = [], []

    def before(number):
        for other in awaited(computed, number):
            wait_until(
                lambda other=other: torch.allclose(net.gradient(other), means.gradient(other)),
                f"width {width}: gradient of layer {other}, before that of layer {number},",
            )
            seen.append(other)
        computed.append(number)

    net = Layers(width, before)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.0), net.named_parameters())
    for _ in range(steps):
        computed.clear()
        seen.clear()
        optimizer.zero_grad()
        backward(net, width, float(RANK + 1))
        assert computed == FORWARD[::-1] and seen, (computed, seen)
        optimizer.step()
        for number in FORWARD:
            torch.testing.assert_close(net.gradient(number), means.gradient(number), rtol=1e-5, atol=1e-6)
    found = [len(bucket.slots) for bucket in optimizer._hvd.buckets]
    assert SIZE == 1 or found == buckets, found


# Large gradients (1 MB) leave at once, each.
check(512, lambda computed, _number: list(computed), steps=3, buckets=[1] * 5)
# Of small ones the first leaves at once, and the others may leave together; from the second step on they are one operation.
check(4, lambda computed, _number: computed[:1], steps=1, buckets=[5])
print("torch_overlap: ok")
