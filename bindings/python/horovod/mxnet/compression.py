# SPDX-License-Identifier: Apache-2.0
"""Smaller numbers on the way between ranks."""

from horovod.common.compression import CastCompressor, Compressor, NoneCompressor  # noqa: F401 - for users


class _Cast(CastCompressor):
    @staticmethod
    def cast(tensor, dtype):
        return tensor.astype(dtype, copy=False)

    @staticmethod
    def float_dtype(tensor):
        known = str(tensor.dtype).rpartition("float")[2].rstrip("'>")
        return tensor.dtype if known in ("32", "64") else None


class FP16Compressor(_Cast):
    """Floating-point arrays travel as float16."""

    dtype = "float16"


class Compression:
    """The choices for the argument ``compression``."""

    none = NoneCompressor
    fp16 = FP16Compressor
