# SPDX-License-Identifier: Apache-2.0
"""Parameters whose gradients are reduced, with the hooks that count what backward does, and what these hooks call."""

import functools

import torch

from horovod._floor import floor
from horovod.torch._flight import ABSENT, kind_of


@functools.lru_cache(maxsize=None)
def slot_type():
    """The class of slots, which count by the floor."""

    class Slot(floor().GradientCounter):
        """One parameter. ``late``: its gradient grows again although an earlier part of it (``flight``) has started.

        ``given``: a later reducer reduces it.
        """

        __slots__ = ("name", "group", "hooks", "given")

        def __init__(self, parameter, name, reducer):
            self.parameter, self.name = parameter, name
            self.line, self.left, self.direct = reducer.line, reducer.passes, reducer.way.direct
            self.bytes = parameter.numel() * parameter.element_size()
            self.group = None
            self.hooks = ()
            self.given = False

        @property
        def result(self):
            """As a flight, which it is of a gradient that leaves by the outbox: the reduced gradient, once that has ended."""
            return self.gradient

        def kind(self):
            """Of the gradient that this rank contributes."""
            if self.flight is not None:
                return kind_of(self.flight.gradient)
            return kind_of(self.parameter.grad) if self.parameter.requires_grad and not self.given else ABSENT

        def here(self):
            """The gradient that this rank contributes, on its way or not."""
            return self.parameter.grad if self.flight is None else self.flight.gradient

        def watch(self):
            """Counts what backward adds to the gradient. Held by the parameter, which may outlive the optimizer."""
            parameter = self.parameter
            after = parameter.register_post_accumulate_grad_hook(self.after)
            self.hooks = parameter.register_hook(self.before), after

        def unhook(self):
            for hook in self.hooks:
                hook.remove()
            self.bucket = None

    return Slot


def in_backward():
    return torch._C._current_graph_task_id() != -1


def gradient_line(own):
    """The floor's GradientLine of a reducer; ``own``: a weak reference to it, since the parameters' hooks hold the line."""

    def set_apart(slot):
        reducer = own()
        if reducer is not None:
            reducer.set_apart(slot)

    def ready(slot, parameter):
        reducer = own()
        if reducer is not None:
            reducer.start(slot, parameter)

    def flush():
        reducer = own()
        if reducer is not None:
            reducer.outbox.flush()

    def at_end():
        if in_backward():
            torch.autograd.Variable._execution_engine.queue_callback(flush)

    def full(bucket):
        reducer = own()
        if reducer is not None:
            reducer.depart(bucket)

    return floor().GradientLine(torch.Tensor, torch.strided, set_apart, ready, flush, at_end, full)
