# SPDX-License-Identifier: Apache-2.0
"""What the operations need of PyTorch's CUDA: which tensors the library takes, their streams, memory for results."""

import torch

from horovod._device_arrays import DeviceArray


def takes(tensor):
    """Whether the library can work on this tensor where it is. It knows CUDA's driver, not ROCm's."""
    return tensor.is_cuda and torch.version.hip is None


def index(tensor):
    """The number of the tensor's device in this process."""
    return tensor.get_device()


def stream(tensor):
    """The stream on which the caller works with the tensor's device."""
    return torch.cuda.current_stream(tensor.device)


def empty(shape, like):
    """An uninitialized tensor on the device of another one, of its dtype."""
    return torch.empty(shape, dtype=like.dtype, device=like.device)


def follow(stream, tensor):
    """What the current stream is given from now on finds the result for which ``stream`` waits.

    They differ where an operation is started in one place, as a hook of backward, and awaited in another.
    """
    current = torch.cuda.current_stream(tensor.device)
    if current != stream:
        current.wait_stream(stream)
        tensor.record_stream(current)


def library_result(operation, index, stream, like):
    """A result that the library allocated, without a copy; its memory goes with the tensor."""
    array = DeviceArray(operation, index, stream.cuda_stream, bits=True)
    if 0 in array.shape:
        return empty(array.shape, like)
    return torch.as_tensor(array, device=like.device)
