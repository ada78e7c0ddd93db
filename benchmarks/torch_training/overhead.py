# SPDX-License-Identifier: Apache-2.0
"""CPU time that DistributedOptimizer takes on the thread that trains: its hooks, starting, agreeing and ending.

A real step is no measure of it: two equal steps differ by more, by where their memory lies alone. So the model is replaced
by one whose backward hands every parameter a gradient that real training gave it, in the order of real training, and
displaces the caches before each, as computing would.
"""
from __future__ import annotations

import contextlib
import time

import torch
import torch.distributed as dist

import horovod.torch  # noqa: F401  (its operations are counted)
from horovod import _submit
from horovod._handles import Handle

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


class _Waits:
    """``ns``: CPU time of this thread in waiting for other ranks, during which it may do the work of the engine."""

    def __init__(self):
        self.ns = 0

    @contextlib.contextmanager
    def noticed(self):
        """A block in which it grows."""
        start, wait = _submit.start, Handle.wait
        waits = self

        class Timed:
            def __init__(self, burst):
                self.burst = burst

            def wait(self):
                waits.timed(self.burst.wait)

        def handle_wait(handle, timeout=None):
            if handle._operation is not None:
                waits.timed(handle._operation.wait)
            return wait(handle, timeout)

        _submit.start, Handle.wait = lambda *arguments: Timed(start(*arguments)), handle_wait
        try:
            yield
        finally:
            _submit.start, Handle.wait = start, wait

    def timed(self, wait):
        began = time.thread_time_ns()
        wait()
        self.ns += time.thread_time_ns() - began


def _backward(ready, source, synchronize):
    """CPU time in ns of a backward and ``synchronize`` on this thread, without waiting."""
    for parameter, _gradient in ready:
        parameter.grad = None
    chain = _chain(ready, source)
    source.gradients = [gradient.clone() for _parameter, gradient in reversed(ready)]
    waits = _Waits()
    with waits.noticed():
        began = time.thread_time_ns()
        chain.backward()
        synchronize()
        return time.thread_time_ns() - began - waits.ns


def per_tensor(alone, ours, batch, pairs):
    """Microseconds per parameter tensor, for each of ``pairs`` pairs of steps.

    ``alone``, ``ours``: Trainers, without communication and with DistributedOptimizer.
    """
    source = _Source()
    plain = ready_order(alone, batch)
    twins = dict(zip(alone.model.parameters(), ours.model.parameters()))
    reduced = [(twins[parameter], gradient) for parameter, gradient in plain]
    found = []
    for _ in range(2 + pairs):  # the first two are for warming up
        dist.barrier()
        without = _backward(plain, source, lambda: None)
        dist.barrier()
        taken = _backward(reduced, source, ours.optimizer.synchronize)
        found.append((taken - without) / 1e3 / len(plain))
    return found[2:]
