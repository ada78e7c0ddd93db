# SPDX-License-Identifier: Apache-2.0
"""Whether the ranks have made about the same of reduced gradients, by the size of a few elements.

What a program does to a reduced gradient it has to do on all ranks. That it was done is known (``Gradient.changes``); how much, by a
rank's own factor say, shows in the values. They are compared roughly: ranks may round differently.
"""

import ctypes
import math

import torch

# So many gradients of an optimizer are looked at where an element is not simply read from memory.
_MOST_ELSEWHERE = 16
_STEPS = 4  # codes for a factor of two
_SMALLEST = 2.0**-39  # smaller ones count as this
_NOT_FINITE = 255


def code_of(size):
    """A number from 0 (zero) to 255 (not finite) that grows by 4 when the size doubles."""
    if not math.isfinite(size):
        return _NOT_FINITE
    if size == 0:
        return 0
    return max(1, min(_NOT_FINITE - 1, round(_STEPS * math.log2(size / _SMALLEST)) + 1))


def sizes_of(tensors):
    """Of each tensor the sum of the absolute values of its first, middle and last element; None where it is not looked at."""
    sizes = [_read(tensor) if _is_in_memory(tensor) else None for tensor in tensors]
    others = [place for place, tensor in enumerate(tensors) if sizes[place] is None and tensor.layout is torch.strided and tensor.numel()]
    others = others[:: max(1, math.ceil(len(others) / _MOST_ELSEWHERE))]
    if others:
        picked = torch.stack([_picked(tensors[place]) for place in others]).tolist()
        for place, size in zip(others, picked):
            sizes[place] = size
    return sizes


def apart(codes):
    """The place of the first gradient for which two ranks have sizes more than a factor of two apart, or None.

    ``codes``: of all ranks the largest codes, and the largest complements; of those that say nothing, zeros.
    """
    count = len(codes) // 2
    most, least = codes[:count], codes[count:]
    return next((place for place in range(count) if most[place] - (255 - least[place]) > _STEPS), None)


def _is_in_memory(tensor):
    return tensor.dtype is torch.float32 and tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.numel() > 0


def _read(tensor):
    address, count = tensor.data_ptr(), tensor.numel()
    return sum(abs(ctypes.c_float.from_address(address + 4 * place).value) for place in (0, count // 2, count - 1))


def _picked(tensor):
    flat = tensor.detach().reshape(-1)
    return torch.stack([flat[0], flat[flat.numel() // 2], flat[-1]]).abs().double().sum().cpu()
