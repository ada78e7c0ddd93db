# SPDX-License-Identifier: Apache-2.0
"""Smaller numbers on the way between ranks."""

import tensorflow as tf


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


class _CastCompressor(Compressor):
    dtype = None

    @classmethod
    def compress(cls, tensor):
        tensor = tf.convert_to_tensor(tensor)
        if not tensor.dtype.is_floating:
            return tensor, None
        return tf.cast(tensor, cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor, ctx):
        return tensor if ctx is None else tf.cast(tensor, ctx)


class FP16Compressor(_CastCompressor):
    """Floating-point tensors travel as float16."""

    dtype = tf.float16


class BF16Compressor(_CastCompressor):
    """Floating-point tensors travel as bfloat16: the range of float32, 8 bits of precision."""

    dtype = tf.bfloat16


class Compression:
    """The choices for the argument ``compression``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
