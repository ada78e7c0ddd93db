# SPDX-License-Identifier: Apache-2.0
"""Smaller numbers on the way between ranks."""

from jax import numpy as jnp


class Compressor:
    """The interface: ``compress`` returns the array to send and whatever ``decompress`` needs to know."""

    @staticmethod
    def compress(tensor):
        """(array to send, context)"""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        """The array in its original form."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends arrays as they are."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


class _CastCompressor(Compressor):
    dtype = None

    @classmethod
    def compress(cls, tensor):
        tensor = jnp.asarray(tensor)
        if not jnp.issubdtype(tensor.dtype, jnp.floating):
            return tensor, None
        return tensor.astype(cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor, ctx):
        return tensor if ctx is None else tensor.astype(ctx)


class FP16Compressor(_CastCompressor):
    """Floating-point arrays travel as float16."""

    dtype = jnp.float16


class BF16Compressor(_CastCompressor):
    """Floating-point arrays travel as bfloat16: the range of float32, 8 bits of precision."""

    dtype = jnp.bfloat16


class Compression:
    """The choices for the argument ``compression``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
