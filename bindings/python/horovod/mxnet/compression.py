# SPDX-License-Identifier: Apache-2.0
"""Smaller numbers on the way between ranks."""


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


class FP16Compressor(Compressor):
    """Floating-point tensors travel as float16."""

    @staticmethod
    def compress(tensor):
        if str(tensor.dtype).rpartition("float")[2].rstrip("'>") not in ("32", "64"):
            return tensor, None
        return tensor.astype("float16", copy=False), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor if ctx is None else tensor.astype(ctx, copy=False)


class Compression:
    """The choices for the argument ``compression``."""

    none = NoneCompressor
    fp16 = FP16Compressor
