# SPDX-License-Identifier: Apache-2.0
"""Smaller numbers on the way between ranks, on any backend of Keras 3."""

import keras

from horovod.common.compression import CastCompressor, NoneCompressor


class _Cast(CastCompressor):
    @staticmethod
    def cast(tensor, dtype):
        return keras.ops.cast(tensor, dtype)

    @staticmethod
    def float_dtype(tensor):
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        return dtype if "float" in dtype else None


class _FP16(_Cast):
    """Floating-point tensors travel as float16."""

    dtype = "float16"


class _BF16(_Cast):
    """Floating-point tensors travel as bfloat16: the range of float32, 8 bits of precision."""

    dtype = "bfloat16"


class Compression:
    """The choices for the argument ``compression``."""

    none = NoneCompressor
    fp16 = _FP16
    bf16 = _BF16
