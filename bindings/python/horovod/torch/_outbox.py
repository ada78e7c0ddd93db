# SPDX-License-Identifier: Apache-2.0
"""Dense gradients on their way to the engine, several in one call.

The engine's thread sleeps while there is nothing to do, and waking it takes longer than an allreduce of a small tensor.
So gradients leave in bursts: the first one at once, small ones with those that get ready next, and the rest when the
backward pass ends. Each has its own name, so ranks need not make the same bursts.
"""

import torch

from horovod import _submit
from horovod.common import basics
from horovod.torch._tensors import CODES

# A burst ends with so many bytes or gradients: a fifth of a step's, so that there is something to overlap with; not less
# than what takes much longer than waking somebody, nor more than what makes that negligible.
_PART = 5
_BYTES, _GRADIENTS = (1 << 20, 4 << 20), (64, 256)


class Direct:
    """A gradient that is reduced where it lies, by one of the bursts of an Outbox. Made once, for all steps.

    ``prepared``: the allreduce, for a tensor of this shape and dtype.
    """

    __slots__ = ("gradient", "bytes", "prepared", "generation", "shape", "dtype")

    def __init__(self, parameter):
        self.bytes = parameter.numel() * parameter.element_size()
        self.gradient = self.prepared = self.generation = self.shape = self.dtype = None

    @property
    def result(self):
        """The reduced gradient, once the bursts have ended."""
        return self.gradient


class Outbox:
    """``slots``: those whose gradients wait for company, see the reducer. ``bursts``: those on their way.

    Made with all slots that a step can have.
    """

    def __init__(self, way, slots):
        self.way = way
        self.expect(slots)
        self.slots, self.bytes = [], 0
        self.bursts = []
        self._made_for = None  # what everything was prepared for
        self._generation = 0  # counts those

    def expect(self, slots):
        """A step can have these slots from now on."""
        self._most_bytes = _within(_BYTES, sum(slot.direct.bytes for slot in slots))
        self._most_gradients = _within(_GRADIENTS, len(slots))

    def add(self, slot, gradient):
        """Starts the gradient with the next burst."""
        slot.flight = direct = slot.direct
        direct.gradient = gradient
        slots = self.slots
        slots.append(slot)
        self.bytes += direct.bytes
        if len(slots) >= self._most_gradients or self.bytes >= self._most_bytes or not self.bursts:
            self.flush()
        elif len(slots) == 1 and torch._C._current_graph_task_id() != -1:
            torch.autograd.Variable._execution_engine.queue_callback(self.flush)

    def flush(self):
        """Starts what waits."""
        if not self.slots:
            return
        slots, self.slots, self.bytes = self.slots, [], 0
        prepared, addresses, gradients = [], [], []
        try:
            generation = self._current()
            for slot in slots:
                direct = slot.direct
                gradient = direct.gradient
                if not _usable(gradient):
                    slot.flight = self.way.start(slot.name, gradient)
                    continue
                if (
                    direct.generation != generation
                    or gradient.shape != direct.shape
                    or gradient.dtype is not direct.dtype
                ):
                    self._prepare(slot.name, direct, gradient)
                prepared.append(direct.prepared)
                addresses.append(gradient.data_ptr())
                gradients.append(gradient)
            if prepared:
                self.bursts.append(_submit.start(prepared, addresses, gradients))
        except BaseException:
            for slot in slots:
                if slot.flight is slot.direct:
                    slot.flight = None
            raise

    def _current(self):
        now = (basics._session, self.way.process_set._address)
        if now != self._made_for:
            self._made_for = now
            self._generation += 1
        return self._generation

    def _prepare(self, name, direct, gradient):
        direct.shape, direct.dtype = tuple(gradient.shape), gradient.dtype
        direct.prepared = self.way.prepare(name, CODES[gradient.dtype], direct.shape)
        direct.generation = self._generation

    def finish(self):
        """Waits until all bursts have ended."""
        for burst in self.bursts:
            burst.wait()

    def reset(self):
        """Forgets what is on its way."""
        self.slots, self.bytes, self.bursts = [], 0, []


def _within(limits, whole):
    return min(max(whole // _PART, limits[0]), limits[1])


def _usable(gradient):
    """Whether the engine can reduce this gradient where it lies."""
    return (
        type(gradient) is torch.Tensor
        and gradient.layout is torch.strided
        and gradient.is_cpu
        and gradient.is_contiguous()
        and not gradient.is_neg()
        and gradient.dtype in CODES
    )
