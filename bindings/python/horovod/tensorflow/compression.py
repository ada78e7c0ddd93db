# SPDX-License-Identifier: Apache-2.0
"""Smaller numbers on the way between ranks."""

import tensorflow as tf

from horovod.common.compression import CastCompressor, Compressor, NoneCompressor  # noqa: F401 - for users


class _Cast(CastCompressor):
    @staticmethod
    def cast(tensor, dtype):
        return tf.cast(tensor, dtype)

    @staticmethod
    def float_dtype(tensor):
        tensor = tf.convert_to_tensor(tensor)
        return tensor.dtype if tensor.dtype.is_floating else None


class FP16Compressor(_Cast):
    """Floating-point tensors travel as float16."""

    dtype = tf.float16


class BF16Compressor(_Cast):
    """Floating-point tensors travel as bfloat16: the range of float32, 8 bits of precision."""

    dtype = tf.bfloat16


class Compression:
    """The choices for the argument ``compression``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
