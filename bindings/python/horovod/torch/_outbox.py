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

# A burst ends with so many bytes or gradients: a third of a step's, so that there is something to overlap with; not less than
# what takes much longer than waking somebody, nor more than what makes that negligible. Small models' are smaller than a third:
# where little is left to compute, the last burst is waited for.
_PART, _APART = 3, 2 << 20
_BYTES, _GRADIENTS = (1 << 20, 16 << 20), (64, 1024)


class Direct:
    """A gradient that is reduced where it lies, by one of the bursts of an Outbox. Made once, for all steps.

    ``prepared``: the allreduce, for a tensor of this shape and dtype.
    """

    __slots__ = ("gradient", "prepared", "generation", "shape", "dtype")

    def __init__(self):
        self.gradient = self.prepared = self.generation = self.shape = self.dtype = None

    @property
    def result(self):
        """The reduced gradient, once the bursts have ended."""
        return self.gradient


class Outbox:
    """``line``: the floor's GradientLine of the reducer, in which slots wait. ``bursts``: those on their way, with so many
    gradients (``started``).
    """

    def __init__(self, way, line):
        self.way, self.line = way, line
        self.bursts, self.started = [], 0
        self._maximum = self._maximum_for = None
        self._made_for = None  # what everything was prepared for
        self._generation = 0  # counts those

    def expect(self, slots):
        """A step can have these slots from now on."""
        self.line.most_bytes = _within(_BYTES, sum(slot.bytes for slot in slots) - _APART)
        self.line.most_gradients = _within(_GRADIENTS, len(slots))

    def flush(self):
        """Starts what waits."""
        line = self.line
        slots = line.waiting
        if not slots:
            return
        line.sent = True
        try:
            prepared, addresses, gradients, rest = line.take(self._current())
            for slot in rest:
                direct = slot.direct
                gradient = direct.gradient
                if line.plain(gradient) and gradient.dtype in CODES:
                    self._prepare(slot.name, direct, gradient)
                    prepared.append(direct.prepared)
                    addresses.append(gradient.data_ptr())
                    gradients.append(gradient)
                else:
                    slot.flight = self.way.start(slot.name, gradient)
            if prepared:
                self.bursts.append(_submit.start(prepared, addresses, gradients))
                self.started += len(prepared)
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

    def maximum(self, name, numbers):
        """Puts the largest of all ranks in place of each byte of a bytearray. Its length may differ from call to call."""
        wanted = (name, len(numbers), self._current())
        if wanted != self._maximum_for:
            self._maximum = _submit.prepare(
                name, CODES[torch.uint8], (len(numbers),), self.way.process_set, basics.Max, 1.0, 1.0
            )
            self._maximum_for = wanted
        tensor = torch.frombuffer(numbers, dtype=torch.uint8)
        _submit.start([self._maximum], [tensor.data_ptr()], tensor).wait()

    def reset(self):
        """Forgets what is on its way."""
        self.bursts, self.started = [], 0


def _within(limits, whole):
    return min(max(whole // _PART, limits[0]), limits[1])
