# SPDX-License-Identifier: Apache-2.0
"""A small model, its data, and its training with and without ranks; for workers that compare the two."""

import torch

import horovod.torch as hvd

ROWS = 12  # divisible by 1, 2, 3 and 4


def model_of():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).double()


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(ROWS, 6, generator=generator, dtype=torch.float64).split([4, 2], 1)


def own(tensor):
    rows = ROWS // hvd.size()
    return tensor[hvd.rank() * rows : (hvd.rank() + 1) * rows]


def closure_of(model, optimizer, step, part=own):
    """What an optimizer calls for the loss and the gradients of a step."""
    x, y = (part(t) for t in batch(step))

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    return closure


def train(model, optimizer, steps, scheduler=None, part=own):
    for step in steps:
        closure_of(model, optimizer, step, part)()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def close(model, wanted):
    for found, expected in zip(model.parameters(), wanted.parameters()):
        torch.testing.assert_close(found.detach(), expected.detach())


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.05, amsgrad=True)


def reference(make, steps, schedule=None):
    model = model_of()
    optimizer = make(model)
    train(model, optimizer, steps, schedule and schedule(optimizer), part=lambda t: t)
    return model
