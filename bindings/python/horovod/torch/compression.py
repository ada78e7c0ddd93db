# SPDX-License-Identifier: Apache-2.0
"""Smaller numbers on the way between ranks."""

import torch

from horovod.common.compression import CastCompressor, Compressor, NoneCompressor  # noqa: F401 - for users


class _Cast(CastCompressor):
    @staticmethod
    def cast(tensor, dtype):
        return tensor.to(dtype)

    @staticmethod
    def float_dtype(tensor):
        return tensor.dtype if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() else None


class FP16Compressor(_Cast):
    """Floating-point tensors travel as float16."""

    dtype = torch.float16


class BF16Compressor(_Cast):
    """Floating-point tensors travel as bfloat16: the range of float32, 8 bits of precision."""

    dtype = torch.bfloat16


class Compression:
    """The choices for the argument ``compression``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
