# SPDX-License-Identifier: Apache-2.0
"""For workers that look at what a DistributedOptimizer steps by: parameters of three numbers, and what programs do to ``.grad``."""

import torch

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
MEAN = (SIZE + 1) / 2  # of rank + 1


def parameter(value=0.0):
    return torch.nn.Parameter(torch.full((3,), value))


def sgd(*params, lr=1.0, **options):
    return hvd.DistributedOptimizer(torch.optim.SGD(params, lr=lr), [(f"p{i}", p) for i, p in enumerate(params)], **options)


def backward(p, factor=1.0):
    (p.sum() * factor * (RANK + 1)).backward()


def is_value(tensor, value):
    torch.testing.assert_close(tensor.detach(), torch.full_like(tensor, value))


# What a program does with the gradient 100 * MEAN that it has, and what of it is left.
CHANGES = {
    "none": (lambda p, o: setattr(p, "grad", None), 0.0),
    "zero_": (lambda p, o: p.grad.zero_(), 0.0),
    "data": (lambda p, o: p.grad.data.mul_(0.5), 50 * MEAN),
    "zero_grad": (lambda p, o: o.zero_grad(), 0.0),
    "zero_grad_zeros": (lambda p, o: o.zero_grad(set_to_none=False), 0.0),
    "clip_norm": (lambda p, o: torch.nn.utils.clip_grad_norm_([p], 3**0.5), 1.0),
    "clip_value": (lambda p, o: torch.nn.utils.clip_grad_value_([p], 7.0), 7.0),
    "penalty": (lambda p, o: p.grad.add_(1.0), 100 * MEAN + 1),
    "other": (lambda p, o: setattr(p, "grad", torch.full((3,), 5.0)), 5.0),
    "nothing": (lambda p, o: None, 100 * MEAN),
}
