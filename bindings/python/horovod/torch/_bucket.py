# SPDX-License-Identifier: Apache-2.0
"""Gradients that travel together as one operation, and which of an optimizer's do. All ranks have the same buckets."""

import torch

from horovod import _submit
from horovod.torch._reductions import ABSENT, kind_of
from horovod.torch._tensors import CODES

# A bucket has so many bytes or gradients: a third of a step's, so that there is something to overlap with; not less than what
# takes much longer than waking the engine's thread, nor more than what makes that negligible.
PART, APART = 3, 2 << 20
BYTES, GRADIENTS = (1 << 20, 16 << 20), (64, 1024)


class Bucket:
    """``left``: so many of its gradients are not ready. ``parts``: what this rank contributes, once it has departed."""

    __slots__ = ("gradients", "kinds", "name", "left", "parts", "_prepared", "_generation", "reductions", "_burst")

    def __init__(self, gradients, kinds):
        self.gradients, self.kinds = gradients, kinds
        self.left = len(gradients)
        more = len(gradients) - 1
        self.name = f"{gradients[0].name} and {more} more gradients" if more else gradients[0].name
        self.parts = self._prepared = self._generation = self._burst = None
        self.reductions = ()

    def start(self, method, generation):
        """Starts the reduction. ``generation``: what is prepared for an older one has to be prepared again."""
        gradients = self.gradients
        self.parts = parts = [gradient.part(kind) for gradient, kind in zip(gradients, self.kinds)]
        if method.direct and self._is_plain():
            if self._generation != generation:
                tensors = [(CODES[gradient.dtype], tuple(gradient.shape)) for gradient in gradients]
                self._prepared, self._generation = method.prepare(self.name, tensors, grouped=True), generation
            self._burst = _submit.start([self._prepared], [part.data_ptr() for part in parts], parts)
        elif method.coded and not method.separate(self.kinds[0]):
            self.reductions = [method.start(gradient.name, part) for gradient, part in zip(gradients, parts)]
        else:
            self.reductions = method.start_group(self.name, parts)
        for gradient in gradients:
            gradient.in_flight = True

    def _is_plain(self):
        """Whether all can be reduced where they lie, by what was prepared."""
        for gradient, part in zip(self.gradients, self.parts):
            if not (
                part.layout is torch.strided
                and part.is_cpu
                and part.dtype is gradient.dtype
                and part.shape == gradient.shape
                and part.is_contiguous()
                and not part.is_neg()
                and part.dtype in CODES
            ):
                return False
        return True

    def agrees(self):
        """Whether this rank's gradients are of the bucket's kinds."""
        return all(kind_of(gradient.parameter.grad) == kind for gradient, kind in zip(self.gradients, self.kinds))

    def results(self):
        """Waits until it has been reduced. What is in ``reductions`` has ended by then."""
        if self._burst is not None:
            self._burst.wait()
            return self.parts
        return [reduction.result for reduction in self.reductions]

    def reset(self):
        """Counts again."""
        self.left = len(self.gradients)
        self.parts = self._burst = None
        self.reductions = ()


class BucketPlan:
    """The buckets of an optimizer. ``number`` tells a plan from earlier plans. ``ordering``: the next round tells the order in which
    gradients get ready on the first rank, because some are in no bucket.

    A bucket is kept as long as its gradients come together. Where only some of them exist on any rank, it is dissolved: in the
    end those travel together that are used together.
    """

    def __init__(self, gradients, method):
        self._method = method
        self.buckets, self.number, self.ordering = [], 0, True
        self.count, self._usual = 0, None
        size = sum(gradient.bytes for gradient in gradients)
        self._most_bytes = _within(BYTES, size - APART)
        self._most_gradients = 1 if method.coded else _within(GRADIENTS, len(gradients))

    def build(self, gradients, kinds):
        """Buckets of gradients that get ready in this order."""
        built, open_ones = [], {}
        for gradient, kind in zip(gradients, kinds):
            key = self._method.separate(kind), gradient.group, gradient.device
            members, size = open_ones.get(key, (None, 0))
            full = gradient.group is None and not key[0] and members and (
                size >= self._most_bytes or len(members) >= self._most_gradients
            )
            if members is None or full:
                members, size = [], 0
                built.append(members)
            members.append((gradient, kind))
            open_ones[key] = members, size + gradient.bytes
        return [Bucket(*map(list, zip(*members))) for members in built]

    def of_round(self, kinds, order):
        """The buckets of a round in which some rank has the gradients of these ``kinds``, a dict. ``order``: of those."""
        kept, whole = [], []
        for bucket in self.buckets:
            found = [kinds[gradient] for gradient in bucket.gradients]
            if found == bucket.kinds:
                whole.append(bucket)
                kept.append(bucket)
            elif not any(found):
                kept.append(bucket)
        inside = {gradient for bucket in whole for gradient in bucket.gradients}
        rest = [gradient for gradient in order if gradient not in inside and kinds[gradient] != ABSENT]
        more = self.build(rest, [kinds[gradient] for gradient in rest])
        if len(kept) < len(self.buckets) or (more and self.ordering):
            self._become(kept + more * self.ordering)
        self.ordering = bool(more) and not self.ordering
        return whole, more

    def dissolve(self, bucket):
        """The gradients of the bucket travel together no more."""
        self._become([one for one in self.buckets if one is not bucket])

    def _become(self, buckets):
        self.number += 1
        for bucket in self.buckets:
            for gradient in bucket.gradients:
                gradient.bucket = None
        for bucket in buckets:
            for gradient in bucket.gradients:
                gradient.bucket = bucket
        self.buckets, self._usual = buckets, None
        self.count = sum(len(bucket.gradients) for bucket in buckets)

    def usual(self, gradients):
        """The kinds of the gradients, one byte for each, where those in buckets are there and no others."""
        if self._usual is None or len(self._usual) != len(gradients):
            kinds = {one: kind for bucket in self.buckets for one, kind in zip(bucket.gradients, bucket.kinds)}
            self._usual = bytes(kinds.get(gradient, ABSENT) for gradient in gradients)
        return self._usual


def _within(limits, whole):
    return min(max(whole // PART, limits[0]), limits[1])

