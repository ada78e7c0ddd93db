# SPDX-License-Identifier: Apache-2.0
"""Dense gradients on their way to the engine, several in one call.

The engine's thread sleeps while there is nothing to do, and waking it takes longer than an allreduce of a small tensor.
So gradients leave in bursts: the first one at once, small ones with those that get ready next, and the rest when the
backward pass ends. Each has its own name, so ranks need not make the same bursts, until they have a layout: from then on
what would be a burst is one operation, a bucket, which leaves when all of it is ready. Then the first gradient leaves with
others: that an engine is awake earlier saves less than an operation more takes.
"""

import ctypes
import functools

import torch

from horovod import _submit
from horovod._floor import floor
from horovod.common import basics
from horovod.torch._flight import DENSE, kind_of
from horovod.torch._tensors import CODES

# A burst ends with so many bytes or gradients: a third of a step's, so that there is something to overlap with; not less than
# what takes much longer than waking somebody, nor more than what makes that negligible. Small models' are smaller than a third:
# where little is left to compute, the last burst is waited for.
_PART, _APART = 3, 2 << 20
_BYTES, _GRADIENTS = (1 << 20, 16 << 20), (64, 1024)


@functools.lru_cache(maxsize=None)
def _bucket_type():
    """The class of buckets, which count by the floor."""

    class Bucket(floor().GradientBucket):
        """Slots whose gradients, of these ``kinds``, travel as one operation: dense ones, or the entries of ``sparse`` ones."""

        __slots__ = ("name", "slots", "kinds", "sparse", "prepared", "generation")

        def __init__(self, slots, kinds):
            self.slots = self.counters = slots
            self.kinds, self.sparse = kinds, kinds[0] != DENSE
            self.left = len(slots)
            more = len(slots) - 1
            self.name = f"{slots[0].name} and {more} more gradients" if more else slots[0].name
            self.prepared = self.generation = None

    return Bucket


class Outbox:
    """``line``: the floor's GradientLine of the reducer, in which slots wait. ``bursts``: those on their way. ``order``: the
    slots of this step whose gradients left each as an operation of its own; ``alone``: how many of these in bursts. ``departed``:
    how many buckets are on their way in this step, as prepared.
    """

    def __init__(self, way, line):
        self.way, self.line = way, line
        self.bursts, self.order, self.alone, self.departed = [], [], 0, 0
        self._maximum = self._maximum_for = None
        self._told = None  # (bytearray, its address), unless it is on its way
        self._made_for = None  # what everything was prepared for
        self._generation = 0  # counts those

    def expect(self, slots):
        """A step can have these slots from now on."""
        self.line.most_bytes = _within(_BYTES, sum(slot.bytes for slot in slots) - _APART)
        self.line.most_gradients = _within(_GRADIENTS, len(slots))

    def buckets(self, slots, kinds):
        """Buckets of slots that get ready in this order: what would be bursts, and sparse ones between which no dense one is."""
        dense, sparse, size, sparse_before = [], [], 0, False
        for slot, kind in zip(slots, kinds):
            is_sparse = self.way.separate(kind)
            if is_sparse and not sparse_before:
                sparse.append([])
            elif not is_sparse:
                if not dense or size >= self.line.most_bytes or len(dense[-1]) >= self.line.most_gradients:
                    dense.append([])
                    size = 0
                size += slot.bytes
            (sparse if is_sparse else dense)[-1].append((slot, kind))
            sparse_before = is_sparse
        return [_bucket_type()(*map(list, zip(*part))) for part in dense + sparse]

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
                gradient = slot.gradient
                if self.leaves(gradient):
                    self._prepare(slot, gradient)
                    prepared.append(slot.prepared)
                    addresses.append(gradient.data_ptr())
                    gradients.append(gradient)
                else:
                    slot.flight = self.way.start(slot.name, gradient)
            if prepared:
                self.bursts.append(_submit.start(prepared, addresses, gradients))
            self.alone += len(prepared)
            self.order += slots
        except BaseException:
            for slot in slots:
                if slot.flight is slot:
                    slot.flight = None
            raise

    def depart(self, bucket):
        """Starts what is in a bucket, all of which is ready. What is not as agreed waits for what the other ranks say."""
        if bucket.sparse:
            gradients = [slot.parameter.grad for slot in bucket.slots]
            self.departed += all(map(self.travels, gradients)) and self._start_agreed(bucket, gradients)
            return
        generation = self._current()
        loaded = self.line.load(bucket.slots, generation)
        if loaded is None:
            gradients = [slot.parameter.grad for slot in bucket.slots]
            if not all(self.leaves(gradient) for gradient in gradients):
                self._start_agreed(bucket, gradients)
                return
            for slot, gradient in zip(bucket.slots, gradients):
                self._prepare(slot, gradient)
            bucket.generation = None
            loaded = self.line.load(bucket.slots, generation)
        try:
            if bucket.generation != generation:
                tensors = [(CODES[slot.dtype], slot.shape) for slot in bucket.slots]
                bucket.prepared, bucket.generation = self.way.prepare(bucket.name, tensors, grouped=True), generation
            self.bursts.append(_submit.start([bucket.prepared], *loaded))
        except BaseException:
            for slot in bucket.slots:
                slot.flight = None
            raise
        self.departed += 1

    def _start_agreed(self, bucket, gradients):
        """Starts what cannot be reduced where it lies, unless it is of other kinds; whether it has."""
        if [kind_of(gradient) for gradient in gradients] != bucket.kinds:
            return False
        for slot, flight in zip(bucket.slots, self.way.start_group(bucket.name, gradients)):
            slot.flight = flight
        return True

    def leaves(self, gradient):
        """Whether it can be reduced where it lies."""
        return self.line.plain(gradient) and gradient.dtype in CODES

    def travels(self, gradient):
        """Whether it can be in a bucket, which is on the CPU."""
        return self.leaves(gradient) or self.way.separate(kind_of(gradient)) and gradient.is_cpu

    def _current(self):
        now = (basics._session, self.way.process_set._address)
        if now != self._made_for:
            self._made_for = now
            self._generation += 1
        return self._generation

    def _prepare(self, slot, gradient):
        slot.shape, slot.dtype = tuple(gradient.shape), gradient.dtype
        slot.prepared = self.way.prepare(slot.name, [(CODES[slot.dtype], slot.shape)])
        slot.generation = self._generation

    def finish(self):
        """Waits until all bursts have ended."""
        for burst in self.bursts:
            burst.wait()

    def maximum(self, name, numbers):
        """The largest of all ranks of each byte, as bytes. Their number may differ from call to call."""
        wanted = (name, len(numbers), self._current())
        if wanted != self._maximum_for:
            told = [(CODES[torch.uint8], (len(numbers),))]
            self._maximum = _submit.prepare(name, told, self.way.process_set, basics.Max, 1.0, 1.0)
            self._maximum_for, self._told = wanted, None
        told, address = self._told or _with_address(bytearray(len(numbers)))
        self._told = None  # where this is interrupted, the engine may still use it
        told[:] = numbers
        _submit.start([self._maximum], [address], told).wait()
        self._told = told, address
        return bytes(told)

    def reset(self):
        """Forgets what is on its way."""
        self.bursts, self.order, self.alone, self.departed = [], [], 0, 0


def _with_address(memory):
    """A bytearray that keeps its length, and where its contents lie."""
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _within(limits, whole):
    return min(max(whole // _PART, limits[0]), limits[1])
