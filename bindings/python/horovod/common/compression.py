# SPDX-License-Identifier: Apache-2.0
"""Smaller numbers on the way between ranks: what the frameworks' modules of this name share."""


class Compressor:
    """The interface: ``compress`` returns the tensor to send and whatever ``decompress`` needs to know."""

    @staticmethod
    def compress(tensor):
        """(tensor to send, context)"""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        """The tensor in its original form."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


class CastCompressor(Compressor):
    """Sends floating-point tensors as another dtype. A framework's class says how.

    ``dtype``: what travels. ``cast(tensor, dtype)``. ``float_dtype(tensor)``: its dtype, None where it travels as it is.
    """

    dtype = None

    @classmethod
    def compress(cls, tensor):
        before = cls.float_dtype(tensor)
        return (tensor, None) if before is None else (cls.cast(tensor, cls.dtype), before)

    @classmethod
    def decompress(cls, tensor, ctx):
        return tensor if ctx is None else cls.cast(tensor, ctx)
