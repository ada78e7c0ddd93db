# SPDX-License-Identifier: Apache-2.0
"""One rank does something else: every rank hears of it, and what can go on goes on. The argument says what happens."""

import sys
import time

import torch
from errors import raises

import horovod.torch as hvd

hvd.init()
RANK, SIZE, CASE = hvd.rank(), hvd.size(), sys.argv[1]


def wrapped(model, **options):
    return hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), **options
    )


def told(function):
    """The text of the error that the function ends with, and its class."""
    error = raises(Exception, "", function)
    return type(error).__name__, str(error)


def shape():
    """One rank has another model; afterwards a right one trains."""
    model = torch.nn.Linear(3 if RANK == 1 else 2, 2, bias=False)
    optimizer = wrapped(model)
    kind, text = told(model(torch.ones(1, model.in_features)).sum().backward)
    assert kind == "HorovodMismatchError" and "weight" in text, (kind, text)
    model = torch.nn.Linear(2, 2)
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = wrapped(model)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    weights = hvd.allgather(model.weight.detach()[None])
    assert torch.equal(weights, weights[:1].expand_as(weights))


def exception():
    """One rank never steps, and leaves: the others end with its rank and not in silence."""
    model = torch.nn.Linear(2, 2)
    optimizer = wrapped(model)
    if RANK == 1:
        raise RuntimeError("the data of this rank are broken")
    start = time.monotonic()

    def train():
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    kind, text = told(train)
    assert "rank 1" in text, (kind, text)
    assert time.monotonic() - start < 30
    print(f"told by step: {kind}")


def layout():
    """A gradient is sparse on one rank and dense on the others: all of them say so."""
    table = torch.nn.Embedding(4, 2, sparse=RANK == 1)
    _optimizer = wrapped(table)
    kind, text = told(table(torch.tensor([1])).sum().backward)
    assert kind == "ValueError" and "gradient of weight" in text and "kind differs" in text, (kind, text)
    assert hvd.allreduce(torch.ones(1)).item() == 1


def joined():
    """A rank has fewer batches, and joins: the others go on, with its part as zeros."""
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("joined", weight)], op=hvd.Sum)
    for _ in range(3 if RANK == 0 else 1):
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
    hvd.join()
    hvd.broadcast_parameters([("joined", weight)], 0)
    assert weight.tolist() == [-(SIZE + 2.0)] * 2, weight


def rejoined():
    """A rank leaves while gradients of the others are on their way; then all join again, and what was lost is not stepped with."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 1, bias=False))
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = wrapped(model)

    def train():
        model(torch.full((1, 2), RANK + 1.0)).sum().backward()
        optimizer.step()

    for _ in range(3):  # so that buckets are known, and leave within backward
        optimizer.zero_grad()
        train()
    before = [weight.clone() for weight in model.parameters()]
    optimizer.zero_grad()
    left = []
    if RANK == 1:
        hvd.allreduce(torch.ones(1), name="the bucket has left")
    else:
        # Runs behind the optimizer's own hook, for the last gradient of the bucket.
        say = model[0].weight.register_post_accumulate_grad_hook(
            lambda _weight: left.append(hvd.allreduce_async(torch.ones(1), name="the bucket has left"))
        )
        told(train)
        say.remove()
    hvd.shutdown()
    hvd.init()
    other = torch.nn.Linear(2, 1)
    another = wrapped(other)
    other(torch.ones(1, 2)).sum().backward()
    another.step()  # does not care for what the first optimizer has lost
    kind, text = told(optimizer.step)
    assert kind == "ValueError" and "rank 0: an operation failed" in text and "zero_grad()" in text, (kind, text)
    assert all(map(torch.equal, before, model.parameters()))
    optimizer.zero_grad()
    train()
    weights = hvd.allgather(model[0].weight.detach()[None])
    assert torch.equal(weights, weights[:1].expand_as(weights)) and not torch.equal(before[0], model[0].weight)


{"shape": shape, "exception": exception, "layout": layout, "joined": joined, "rejoined": rejoined}[CASE]()
print("torch_failures: ok")
