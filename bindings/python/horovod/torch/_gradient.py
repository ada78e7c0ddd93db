# SPDX-License-Identifier: Apache-2.0
"""A parameter's gradient: which part of ``.grad`` is reduced, and which is this rank's own so far.

Every reduction is additive. What ``.grad`` holds before backward adds to it has been reduced or is the program's, so only what is
new travels, and the sum over the ranks is added to what was there.
"""

import weakref

import torch

from horovod.common import basics
from horovod.torch import _backward
from horovod.torch._reductions import ABSENT, DENSE, kind_of
from horovod.torch._sparse import no_entries


class Gradient:
    """Of one parameter. ``key``: its name, to which ``name`` may have a number added. ``parameter`` is None once the optimizer is gone.

    ``local``: a part of ``.grad`` is not reduced: all of it, or what was added to ``base``, a copy. ``aside``: what ``.grad`` held
    before this backward pass. ``count``: backward passes since the last round. ``counted``: the bucket has counted it.
    ``in_flight``: its bucket has departed. ``seen``: ``.grad`` and its version after backward or a round. ``zeroed``: the same
    of what ``zero_grad()`` filled with zeros. ``given``: a later reducer reduces it. ``held``: something of ``.grad`` is reduced.
    ``reduced``, ``dated``: the latest step in which the ranks reduced it, and that of ``history``: one bit for what the program did
    after the latest reduction of the step, the next one for before, and so on; set if it changed what had been reduced.
    """

    __slots__ = (
        "reducer", "parameter", "key", "name", "shape", "dtype", "device", "bytes", "group", "bucket", "hooks", "given",
        "local", "base", "aside", "count", "counted", "in_flight", "seen", "zeroed", "held", "reduced", "dated", "history",
    )  # fmt: skip

    def __init__(self, parameter, name, reducer):
        self.reducer, self.parameter = reducer, parameter
        self.key = self.name = name
        self.shape, self.dtype, self.device = parameter.shape, parameter.dtype, parameter.device
        self.bytes = parameter.numel() * parameter.element_size()
        self.group = self.bucket = self.aside = self.base = self.seen = self.zeroed = None
        self.hooks = ()
        self.given = self.local = self.counted = self.in_flight = self.held = False
        self.count = 0
        self.reduced = self.dated = -1
        self.history = 0

    def watch(self):
        """Hooks for before and after backward adds to the gradient; also for a parameter that is thawed later."""
        parameter = self.parameter
        if not (parameter.is_floating_point() or parameter.is_complex()):
            return
        frozen = not parameter.requires_grad
        if frozen:
            parameter.requires_grad_(True)
        self.hooks = (
            parameter.register_hook(self.before),
            parameter.register_post_accumulate_grad_hook(self.after),
        )
        if frozen:
            parameter.requires_grad_(False)

    def unhook(self):
        """The gradient is no longer reduced by this object."""
        for hook in self.hooks:
            hook.remove()
        self.hooks = ()

    def before(self, _gradient):
        """Backward is about to add to ``.grad``."""
        reducer, task = self.reducer, _backward.running()
        if task != reducer.task:
            reducer.enter(task)
        if self.in_flight:
            if reducer.trouble is None:
                reducer.end_early()
            else:  # what is on its way will be dropped, and must not be written to
                self.parameter.grad = None
        if self.local:
            if not self.is_discarded():
                return
            self.discard()
        else:
            self.look()
            if self.local:
                return
        gradient = self.parameter.grad
        if gradient is None or self._is_zero(gradient):
            return
        if reducer.paused or self.count + 1 < reducer.passes:
            copy = gradient.detach().clone()
            if gradient.layout is torch.strided:
                self.base = copy
            else:  # backward makes it longer, which the memory of a result cannot become
                self.base, self.parameter.grad = gradient.detach(), copy
        else:
            self.aside, self.parameter.grad = gradient, None
            reducer.asides.append(self)

    def after(self, parameter):
        """Backward has added to ``.grad``."""
        reducer = self.reducer
        if not self.local:
            self.local = True
            reducer.local += 1
        self.seen = _memory(parameter.grad)
        if reducer.paused:
            return
        self.count += 1
        if self.count > reducer.most:
            reducer.most = self.count
        if self.count >= reducer.passes and not self.counted:
            self.counted = True
            reducer.ready(self)

    def is_discarded(self):
        """Whether the program has thrown away the local part since backward added to it."""
        gradient = self.parameter.grad
        if gradient is None:
            return True
        return self.is_changed() and not gradient.detach().to_dense().any().item()

    def is_changed(self):
        """Whether the program has changed ``.grad`` since backward or a round wrote it."""
        gradient = self.parameter.grad
        return self.seen is not None if gradient is None else not _is(self.seen, gradient)

    def look(self):
        """Finds out what the program has done to ``.grad``, of which no part is local. What it has made itself becomes local."""
        reducer = self.reducer
        if self.is_own():
            self._become_local()
        elif self.is_changed():
            if self._is_still_reduced():
                self.change()
                self.note()
            elif reducer.method.op == basics.Average:
                self._become_local()
            else:
                reducer.trouble = reducer.trouble or (
                    f"the gradient of {self.name} was replaced, and it cannot be told whether by what was reduced already; write "
                    "that into the old one, by .grad.copy_(); or, if it is this rank's own, call "
                    "optimizer.zero_grad(set_to_none=True) before it is set"
                )

    def glance(self):
        """The same while another optimizer steps: only what has become of what was reduced."""
        if self.held and not self.local and self.is_changed() and self._is_still_reduced():
            self.change()
            self.note()

    def _is_still_reduced(self):
        """Whether a ``.grad`` that was changed is made of what the ranks reduced, or has been thrown away."""
        gradient = self.parameter.grad
        return gradient is None or self.seen[0]() is gradient or self.reduced == self.reducer.step_number

    def is_own(self):
        """Whether ``.grad`` will be reduced as this rank's own when its optimizer steps: nothing in it was reduced."""
        return not self.held and self.parameter is not None and self.parameter.grad is not None

    def _become_local(self):
        """All of ``.grad`` is this rank's own."""
        gradient = self.parameter.grad
        self.local, self.held = True, False
        self.reducer.local += 1
        if gradient.layout is torch.strided and not gradient.is_contiguous():
            self.parameter.grad = gradient.contiguous()  # it may be an expanded one
        self.note()

    def change(self):
        """The program has changed ``.grad``, of which no part is local, or has thrown away all of it."""
        if self.held:
            self.history = self.changes() | 1
            self.dated = self.reducer.step_number
            self.held = self.parameter.grad is not None

    def changes(self):
        """The history of this step."""
        return self.history if self.dated == self.reducer.step_number else 0

    def is_gone(self):
        """Whether the program has thrown away what was reduced in this step."""
        return self.changes() != 0 and self.parameter is not None and self.parameter.grad is None

    def note(self):
        """``.grad`` is seen as it is."""
        gradient = None if self.parameter is None else self.parameter.grad
        self.seen = None if gradient is None else _memory(gradient)

    def discard(self):
        """The local part is no more."""
        if not self.local:
            return
        self.reducer.local -= 1
        self.uncount()
        self.change()  # zeros that were reduced have no base, and count where other ranks have nothing local
        self.local = False
        self.base = None
        self.note()

    def uncount(self):
        """No backward pass has been."""
        if self.counted and self.bucket is not None and self.base is None:
            self.bucket.left += 1
        self.counted = False
        self.count = 0

    def follow(self, before, base):
        """The gradient is that of another object, so far. ``base``: as there."""
        if self.parameter.grad is None:  # copies of a Parameter have none
            return
        if before.reduced == before.reducer.step_number:
            self.reduced = self.reducer.step_number
        self.held = before.held
        if before.local:
            self.local, self.base = True, base
            self.reducer.local += 1
            self.note()
        elif not before.is_changed() or self.reduced >= 0:
            self.note()

    def note_zeros(self):
        """``.grad`` has been filled with zeros."""
        gradient = self.parameter.grad
        self.zeroed = None if gradient is None else _memory(gradient)

    def _is_zero(self, gradient):
        """Whether ``.grad`` has been filled with zeros, and still is: what is written through ``.data`` leaves no trace in the version.

        On a device nobody looks, because that would wait for the device. Zeros are then set aside like any other gradient.
        """
        return _is(self.zeroed, gradient) and gradient.device.type == "cpu" and not gradient.to_dense().any().item()

    def restore(self):
        """Puts back what was set aside, if backward has added nothing."""
        if self.aside is not None and not self.local:
            if self.parameter.grad is None:
                self.parameter.grad = self.aside
            self.aside = None

    def kind(self):
        """Of the part that this rank contributes."""
        return kind_of(self.parameter.grad) if self.local else ABSENT

    def part(self, kind):
        """What this rank contributes: its local part, or zeros of this kind."""
        if not self.local:
            return self.zeros(kind)
        gradient = self.parameter.grad.detach()
        return gradient if self.base is None else gradient - self.base

    def zeros(self, kind):
        """A gradient of zeros."""
        if kind == DENSE:
            return torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        return no_entries(self.shape, kind - DENSE, self.dtype, self.device)

    def store(self, part, result):
        """Adds the ``result`` to what ``.grad`` held before, in the same memory if it is dense. ``part``: as contributed."""
        parameter = self.parameter
        if parameter is None:
            return
        self.reduced = self.reducer.step_number
        if not self.local and self.is_changed():
            self.change()
        self.held, self.zeroed = True, None  # a reduction in place does not count as a change of the tensor
        self.history, self.dated = self.changes() << 1 & 255, self.reduced
        if self.base is not None:
            _put(parameter, parameter.grad, _sum(self.base, result))
        elif self.aside is not None:
            parameter.grad = _sum(self.aside, result)
        elif self.local:
            _put(parameter, parameter.grad, result)
        elif parameter.grad is not None:
            parameter.grad = _sum(parameter.grad, result)
        else:
            _put(parameter, part, result)
        self.forget()

    def forget(self):
        """What ``.grad`` holds counts as reduced."""
        self.local = self.counted = self.in_flight = False
        self.base = self.aside = None
        self.count = 0
        self.note()


def _memory(gradient):
    """By which it can be told whether a tensor is this one, unchanged."""
    return weakref.ref(gradient), gradient._version


def _is(memory, gradient):
    return memory is not None and memory[0]() is gradient and memory[1] == gradient._version


def _sum(old, more):
    """``old`` with ``more``, in its memory if it is dense."""
    if old.layout is torch.strided:
        return old.add_(more)
    return old + more if more.layout is not torch.strided else more + old


def _put(parameter, place, result):
    """``.grad`` becomes the result, in the memory of ``place`` if both are dense."""
    if place.layout is not torch.strided or result.layout is not torch.strided:
        parameter.grad = result
        return
    if result.data_ptr() != place.data_ptr():
        place.copy_(result)
    if parameter.grad is not place:
        parameter.grad = place
