# SPDX-License-Identifier: Apache-2.0
"""Smaller numbers on the way between ranks, on any backend of Keras 3."""

import keras


class _None:
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


class _Cast(_None):
    dtype = None

    @classmethod
    def compress(cls, tensor):
        before = keras.backend.standardize_dtype(tensor.dtype)
        return (keras.ops.cast(tensor, cls.dtype), before) if "float" in before else (tensor, None)

    @classmethod
    def decompress(cls, tensor, ctx):
        return tensor if ctx is None else keras.ops.cast(tensor, ctx)


class Compression:
    """The choices for the argument ``compression``."""

    none = _None
    fp16 = type("FP16", (_Cast,), {"dtype": "float16", "__doc__": "Floating-point tensors travel as float16."})
    bf16 = type("BF16", (_Cast,), {"dtype": "bfloat16", "__doc__": "Floating-point tensors travel as bfloat16."})
