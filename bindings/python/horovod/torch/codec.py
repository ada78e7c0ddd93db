# SPDX-License-Identifier: Apache-2.0
"""Codecs: ways to reduce a gradient by sending less than the gradient.

``DistributedOptimizer(..., compression=codec)`` takes a :class:`Codec` wherever it takes a Compressor. A Compressor
turns a tensor into another tensor, which is then reduced as usual; a codec decides itself what travels, in as many
rounds as it wants. What a codec leaves out of one step, :class:`ErrorFeedback` adds to the next one.
"""

import torch


class Codec:
    """The interface. One object serves one optimizer; ``name`` is the parameter, which tells its state apart.

    ``reduce`` is a generator. It yields handles, which it gets from ``ranks``, and is resumed with their results; it
    returns ``(reduced, own)``: the reduced gradient, and what this rank contributed to it, both with the shape of the
    gradient. ``gradient`` is dense and must not be changed. It runs on every rank with the same names and shapes, so
    whether and what it exchanges must not depend on the values.

    ``ranks`` has ``allreduce(tensor, part)`` with the op and the scaling of the optimizer, ``allgather(tensor, part)``,
    ``weight``, the factor of a plain sum over the ranks (1 for Sum, 1 / size for Average), and ``size``. ``part`` is a
    short text, different for each exchange of one gradient.
    """

    def reduce(self, name, gradient, ranks):
        """See the class."""
        raise NotImplementedError


class Compressed(Codec):
    """A Compressor such as ``Compression.fp16`` as a codec, for error feedback."""

    def __init__(self, compressor):
        self._compressor = compressor

    def reduce(self, name, gradient, ranks):
        sent, context = self._compressor.compress(gradient)
        own = self._compressor.decompress(sent, context)
        reduced = yield ranks.allreduce(sent, "c")
        return self._compressor.decompress(reduced, context), own


class ErrorFeedback(Codec):
    """Adds to each gradient what the codec left out of the gradient before: nothing is lost, it comes later.

    ``codec``: a Codec or a Compressor. The rest of each parameter is as large as its gradient. ``state_dict()`` holds
    the rests of this rank; every rank has its own.
    """

    def __init__(self, codec):
        self._codec = codec if isinstance(codec, Codec) else Compressed(codec)
        self._rests = {}

    def reduce(self, name, gradient, ranks):
        rest = self._rests.get(name)
        wanted = gradient.clone() if rest is None else gradient + rest
        reduced, own = yield from self._codec.reduce(name, wanted, ranks)
        self._rests[name] = wanted.sub_(own)
        return reduced, own

    def state_dict(self):
        """The rests by the parameter's name."""
        return dict(self._rests)

    def load_state_dict(self, rests):
        """Continues with these rests."""
        self._rests = {name: rest.clone() for name, rest in rests.items()}


class TopK(Codec):
    """Only the entries with the largest magnitude travel. Meant to be used inside :class:`ErrorFeedback`.

    ``fraction``: how many of the entries, above 0 and at most 1; at least one travels.
    """

    def __init__(self, fraction=0.01):
        if not 0 < fraction <= 1:
            raise ValueError(f"TopK: fraction {fraction} is not above 0 and at most 1")
        self._fraction = fraction

    def reduce(self, name, gradient, ranks):
        flat = gradient.reshape(-1)
        if not flat.numel():
            return gradient, gradient
        count = max(1, int(flat.numel() * self._fraction))
        places = flat.abs().topk(count, sorted=False).indices
        # Both exchanges start before either is awaited.
        places_handle = ranks.allgather(places, "places")
        values_handle = ranks.allgather(flat[places], "values")
        own = torch.zeros_like(flat).index_copy_(0, places, flat[places])
        all_places = yield places_handle
        all_values = yield values_handle
        reduced = torch.zeros_like(flat).index_add_(0, all_places, all_values).mul_(ranks.weight)
        return reduced.view(gradient.shape), own.view(gradient.shape)


class PowerSGD(Codec):
    """Gradients of matrices travel as products of two thin matrices (PowerSGD, Vogels and others, 2019).

    A gradient with more than one dimension is seen as a matrix of its first dimension by the rest; ``rank`` is the
    width of the thin matrices. Gradients for which that would not be smaller travel as they are. Meant to be used
    inside :class:`ErrorFeedback`. ``seed`` fixes the start, which must be the same on every rank.
    """

    def __init__(self, rank=2, seed=0):
        if rank < 1:
            raise ValueError(f"PowerSGD: rank {rank} is below 1")
        self._rank = rank
        self._seed = seed
        self._right = {}

    def reduce(self, name, gradient, ranks):
        rows = gradient.shape[0] if gradient.dim() > 1 else 1
        columns = gradient.numel() // rows if rows else 0
        if gradient.dim() < 2 or self._rank * (rows + columns) >= rows * columns:
            reduced = yield ranks.allreduce(gradient.clone(), "c")
            return reduced, gradient
        matrix = gradient.reshape(rows, columns)
        # Half precision has not enough digits to orthogonalise.
        wide = matrix.float() if matrix.dtype in (torch.float16, torch.bfloat16) else matrix
        right = self._right.get(name)
        if right is None:
            right = self._start(wide, columns)
        left = yield ranks.allreduce(wide @ right, "p")
        left, _triangle = torch.linalg.qr(left)
        own_right = wide.t() @ left
        right = yield ranks.allreduce(own_right.clone(), "q")
        self._right[name] = right
        reduced, own = left @ right.t(), left @ own_right.t()
        return reduced.view(gradient.shape).to(gradient.dtype), own.view(gradient.shape).to(gradient.dtype)

    def _start(self, matrix, columns):
        generator = torch.Generator().manual_seed(self._seed)
        start = torch.randn(columns, self._rank, generator=generator, dtype=torch.float32)
        return start.to(device=matrix.device, dtype=matrix.dtype)
