# SPDX-License-Identifier: Apache-2.0
"""What happens before and after backward adds to a gradient, as the extension has it too: counting, and waiting for company."""


class GradientCounter:
    """One parameter. ``before`` and ``after`` are hooks of its gradient. To be subclassed; the attributes are given by others.

    ``line``: the GradientLine it belongs to. ``left``: as many backward passes until the gradient is ready. ``flight``: its way
    to the other ranks, once it is; the counter itself where the gradient leaves by the line, as it does if ``direct``: alone,
    or with its ``bucket``. ``late``: more of the gradient comes although it is on its way. ``bytes``: of the gradient.
    ``gradient``: what is on its way, of the ``parameter``. ``prepared``: its allreduce, for a tensor of this ``shape`` and
    ``dtype``, of the ``generation`` that all such were prepared in.
    """

    __slots__ = (
        "line", "flight", "bucket", "left", "bytes", "late", "direct",
        "parameter", "gradient", "prepared", "generation", "shape", "dtype",
    )  # fmt: skip

    def __new__(cls, *_arguments):
        counter = super().__new__(cls)
        counter.line = counter.flight = counter.bucket = counter.parameter = counter.gradient = None
        counter.prepared = counter.generation = counter.shape = counter.dtype = None
        counter.left = counter.bytes = 0
        counter.late = counter.direct = False
        return counter

    def before(self, _gradient):
        """Backward is about to add to the gradient."""
        if self.flight is not None and not self.late:
            self.line.set_apart(self)

    def after(self, parameter):
        """Backward has added to the gradient of the parameter."""
        line = self.line
        line.done = False
        if line.paused or self.late:
            return
        self.left -= 1
        if self.left != 0:
            return
        line.flying = True
        if not self.direct:
            line.ready(self, parameter)
        elif self.bucket is not None:
            self.bucket.left -= 1
            if self.bucket.left == 0:
                line.full(self.bucket)
        else:
            line._add(self, parameter.grad)


class GradientBucket:
    """Gradients that travel as one operation: those of a list of ``counters``, of which so many are not ready (``left``)."""

    __slots__ = ("counters", "left")

    def __new__(cls, *_arguments):
        bucket = super().__new__(cls)
        bucket.counters, bucket.left = None, 0
        return bucket


class GradientLine:
    """Gradients that wait to leave together, as ``waiting``, with so many ``bytes``; and what its counters have in common.

    ``tensor_type``, ``strided``: the class of gradients that can leave, and their ``layout``. ``set_apart(counter)`` is called
    before a gradient that is on its way grows, ``ready(counter, parameter)`` when one is ready that does not leave by the line,
    ``flush()`` when those that wait have ``most_gradients`` or ``most_bytes``, and at once until ``sent`` is true, ``at_end()``
    when the first of the next ones waits, ``full(bucket)`` when all of a bucket are ready. ``done`` is false since a gradient
    has grown; ``flying`` is true since one was ready; while ``paused`` nothing is counted.
    """

    __slots__ = (
        "tensor_type", "strided", "set_apart", "ready", "flush", "at_end", "full",
        "waiting", "bytes", "most_gradients", "most_bytes", "done", "paused", "flying", "sent",
    )  # fmt: skip

    def __init__(self, tensor_type, strided, set_apart, ready, flush, at_end, full):
        self.tensor_type, self.strided = tensor_type, strided
        self.set_apart, self.ready, self.flush, self.at_end, self.full = set_apart, ready, flush, at_end, full
        self.waiting = []
        self.bytes = self.most_gradients = self.most_bytes = 0
        self.done = self.paused = self.flying = self.sent = False

    def _add(self, counter, gradient):
        counter.flight, counter.gradient = counter, gradient
        self.waiting.append(counter)
        self.bytes += counter.bytes
        if len(self.waiting) >= self.most_gradients or self.bytes >= self.most_bytes or not self.sent:
            self.flush()
        elif len(self.waiting) == 1:
            self.at_end()

    def reset(self, counters, left):
        """Counting starts again, with ``left`` backward passes for each; what waits or is on its way is forgotten."""
        self.waiting, self.bytes = [], 0
        self.done = self.flying = self.sent = False
        for counter in counters:
            counter.flight, counter.gradient, counter.late, counter.left = None, None, False, left
            if counter.bucket is not None:
                counter.bucket.left = len(counter.bucket.counters)

    def take(self, generation):
        """Those that waited: lists of what is prepared for them, of their addresses and gradients; and of the other counters.

        The others' gradients cannot be reduced where they lie by what was prepared for them, in this generation.
        """
        waiting, self.waiting, self.bytes = self.waiting, [], 0
        prepared, addresses, gradients, rest = [], [], [], []
        for counter in waiting:
            gradient = counter.gradient
            if self._fits(counter, gradient, generation):
                prepared.append(counter.prepared)
                addresses.append(gradient.data_ptr())
                gradients.append(gradient)
            else:
                rest.append(counter)
        return prepared, addresses, gradients, rest

    def load(self, counters, generation):
        """Lists of the addresses and gradients of these counters, which are on their way now.

        None, and nothing has changed, if one cannot be reduced where it lies by what was prepared in this generation.
        """
        addresses, gradients = [], []
        for counter in counters:
            gradient = counter.parameter.grad
            if not self._fits(counter, gradient, generation):
                return None
            addresses.append(gradient.data_ptr())
            gradients.append(gradient)
        for counter, gradient in zip(counters, gradients):
            counter.flight, counter.gradient = counter, gradient
        return addresses, gradients

    def plain(self, gradient):
        """Whether it is numbers in the order of their places in memory of the CPU."""
        return (
            type(gradient) is self.tensor_type
            and gradient.layout is self.strided
            and gradient.is_cpu
            and gradient.is_contiguous()
            and not gradient.is_neg()
        )

    def _fits(self, counter, gradient, generation):
        return (
            counter.generation is not None
            and self.plain(gradient)
            and counter.generation == generation
            and gradient.dtype is counter.dtype
            and gradient.shape == counter.shape
        )
