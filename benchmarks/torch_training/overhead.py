# SPDX-License-Identifier: Apache-2.0
"""CPU time that DistributedOptimizer takes on the thread that trains: its hooks, starting, agreeing and ending.

A real step is no measure of it: two equal steps differ by more, by where their memory lies alone. So the model is replaced
by one whose backward hands every parameter a gradient that real training gave it, in the order of real training, and
displaces the caches before each, as computing would.
"""
from __future__ import annotations

import time

import torch
import torch.distributed as dist

import horovod.torch as hvd

WALK = 512 * 1024  # numbers that are read between two gradients: 2 MB, twice a usual second-level cache


class _HandOver(torch.autograd.Function):
    """Its backward displaces the caches and returns the next of the gradients that ``source`` holds."""

    @staticmethod
    def forward(context, chain, parameter, source):
        context.source = source
        return chain.clone()

    @staticmethod
    def backward(context, chain):
        context.source.walked.sum()
        return chain, context.source.gradients.pop(), None


class _Source:
    """The gradients of one backward, first ones last, and the memory that is walked through."""

    def __init__(self):
        self.walked, self.gradients = torch.ones(WALK), []


def ready_order(trainer, batch):
    """(parameter, its gradient) of a Trainer without communication, in the order in which backward has them ready."""
    found = []
    hooks = [
        parameter.register_post_accumulate_grad_hook(lambda ready: found.append((ready, ready.grad.clone())))
        for parameter in trainer.model.parameters()
    ]
    trainer.loss(batch).backward()
    for hook in hooks:
        hook.remove()
    return found


def _chain(ready, source):
    chain = torch.zeros((), requires_grad=True)
    for parameter, _gradient in reversed(ready):
        chain = _HandOver.apply(chain, parameter, source)
    return chain


def _backward(ready, source):
    """CPU time in ns of a backward on this thread, which waits for no other thread."""
    for parameter, _gradient in ready:
        parameter.grad = None
    chain = _chain(ready, source)
    source.gradients = [gradient.clone() for _parameter, gradient in reversed(ready)]
    began = time.thread_time_ns()
    chain.backward()
    return time.thread_time_ns() - began


def _in_turn(measured, first):
    """The result of a function that rank ``first`` runs alone, and the other ranks after it: nothing is reduced meanwhile."""
    dist.barrier()
    if hvd.rank() != first:
        dist.barrier()
    result = measured()
    if hvd.rank() == first:
        dist.barrier()
    return result


def per_tensor(alone, ours, batch, pairs, pause_s):
    """Microseconds per parameter tensor, for each of ``pairs`` pairs of steps in which this rank's backward ran first.

    ``alone``, ``ours``: Trainers, without communication and with DistributedOptimizer. Before ``synchronize()`` there is a
    pause of ``pause_s``, not counted, until every reduction has ended: so nothing in it is waiting.
    """
    source = _Source()
    plain = ready_order(alone, batch)
    twins = dict(zip(alone.model.parameters(), ours.model.parameters()))
    reduced = [(twins[parameter], gradient) for parameter, gradient in plain]
    found = []
    for number in range(hvd.size() * (2 + pairs)):  # the first two of each rank are for warming up
        first = number % hvd.size()
        without = _in_turn(lambda: _backward(plain, source), first)
        taken = _in_turn(lambda: _backward(reduced, source), first)
        time.sleep(pause_s)
        dist.barrier()
        began = time.thread_time_ns()
        ours.optimizer.synchronize()
        taken += time.thread_time_ns() - began
        if hvd.rank() == first:
            found.append((taken - without) / 1e3 / len(plain))
    return found[2:]
