# SPDX-License-Identifier: Apache-2.0
"""Smaller numbers on the way between ranks."""

from jax import numpy as jnp

from horovod.common.compression import CastCompressor, Compressor, NoneCompressor  # noqa: F401 - for users


class _Cast(CastCompressor):
    @staticmethod
    def cast(tensor, dtype):
        return jnp.asarray(tensor).astype(dtype)

    @staticmethod
    def float_dtype(tensor):
        tensor = jnp.asarray(tensor)
        return tensor.dtype if jnp.issubdtype(tensor.dtype, jnp.floating) else None


class FP16Compressor(_Cast):
    """Floating-point arrays travel as float16."""

    dtype = jnp.float16


class BF16Compressor(_Cast):
    """Floating-point arrays travel as bfloat16: the range of float32, 8 bits of precision."""

    dtype = jnp.bfloat16


class Compression:
    """The choices for the argument ``compression``."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
