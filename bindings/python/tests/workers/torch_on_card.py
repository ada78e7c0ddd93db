# SPDX-License-Identifier: Apache-2.0
"""horovod.torch on tensors of a CUDA device, on the driver's stand-in, whose memory the host can not touch.

PyTorch itself cannot work there. So the tensors here are ones of the CPU with an address of that device, which say that they are
on CUDA, and what ``horovod.torch._cuda`` asks of ``torch`` is answered here. Everything else is the package as it is: a touch of
the memory by the host would end the process.
"""

import ctypes
import types

import numpy as np
import torch
from stand_in_card import Card, _call

import horovod.torch as hvd
from horovod.torch import _cuda

card = Card()


class Stream:
    """torch.cuda.Stream, as far as it is used."""

    def __init__(self, handle):
        self.cuda_stream, self.waited = handle, []

    def wait_stream(self, other):
        event = ctypes.c_void_p()
        _call("cuEventCreate", ctypes.byref(event), 0)
        _call("cuEventRecord", event, ctypes.c_void_p(other.cuda_stream))
        _call("cuStreamWaitEvent", ctypes.c_void_p(self.cuda_stream), event, 0)
        self.waited.append(other)


main = Stream(card.stream.value)
current = [main]


class OnCard(torch.Tensor):
    """A tensor whose address is on the device."""

    is_cpu, is_cuda = property(lambda _self: False), property(lambda _self: True)
    get_device = lambda _self: 0  # noqa: E731
    recorded = ()

    def record_stream(self, stream):
        self.recorded = (*self.recorded, stream)


def at(address, shape, dtype, keep=None):
    count = int(np.prod(shape, dtype=int))
    if count == 0:
        plain = torch.empty(shape, dtype=dtype)
    else:
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        memory.keep = keep  # as long as PyTorch uses the memory
        plain = torch.frombuffer(memory, dtype=dtype).reshape(shape)
    return torch.Tensor._make_subclass(OnCard, plain)


def empty(shape, dtype, device):
    del device
    return at(card.allocate(int(np.prod(shape, dtype=int)) * dtype.itemsize), shape, dtype)


def as_tensor(array, device):
    del device
    interface = array.__cuda_array_interface__
    kind = {"<f4": torch.float32, "<i2": torch.int16, "<i4": torch.int32}[interface["typestr"]]
    return at(interface["data"][0], interface["shape"], kind, keep=array)


_cuda.torch = types.SimpleNamespace(
    cuda=types.SimpleNamespace(current_stream=lambda _device: current[0]), version=types.SimpleNamespace(hip=None),
    as_tensor=as_tensor, empty=empty,
)


def tensor(values):
    values = np.ascontiguousarray(values)
    made = empty(values.shape, torch.from_numpy(values).dtype, None)
    card.write(made.data_ptr(), values)
    return made


def same(result, expected, stream=main):
    assert isinstance(result, OnCard), result
    bits = result.dtype is torch.bfloat16
    found = card.read(result.data_ptr(), tuple(result.shape), np.int16 if bits else expected.dtype, stream.cuda_stream)
    if bits:
        found = torch.from_numpy(found).view(torch.bfloat16).float().numpy()
    assert found.shape == expected.shape and (found == expected).all(), (found, expected)


hvd.init()
rank, size = hvd.rank(), hvd.size()


def values(of, shape=(6, 3), dtype=np.float32):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 5 + of).astype(dtype)


total = sum(values(of) for of in range(size))

# Reductions: new tensors, in place, grouped, asynchronous.
same(hvd.allreduce(tensor(values(rank)), op=hvd.Sum, name="new"), total)
here = tensor(values(rank))
assert hvd.allreduce_(here, op=hvd.Sum, name="here") is here
same(here, total)
group = [tensor(values(rank)), tensor(values(rank, (4,)))]
for result, expected in zip(hvd.grouped_allreduce(group, op=hvd.Sum, name="group"), (total, sum(values(r, (4,)) for r in range(size)))):
    same(result, expected)
hvd.grouped_allreduce_(group, op=hvd.Max, name="group here")
same(group[0], values(size - 1))
handle = hvd.allreduce_async_(here, op=hvd.Min, name="later")
assert hvd.synchronize(handle) is here
same(here, total)

# Moves, with results that the library allocates.
same(hvd.broadcast(tensor(values(rank)), root_rank=size - 1, name="b"), values(size - 1))
hvd.broadcast_(here, root_rank=0, name="b here")
same(here, total)
rows = hvd.allgather(tensor(values(rank, (rank + 1, 2))), name="gather")
same(rows, np.concatenate([values(of, (of + 1, 2)) for of in range(size)]))
halves = tensor(np.full(4, 0x3F80 + 0x40 * rank, np.int16)).view(torch.bfloat16).as_subclass(OnCard)
gathered = hvd.allgather(halves, name="halves")
assert gathered.dtype is torch.bfloat16
same(gathered, np.concatenate([np.full(4, 1.0 + 0.5 * of, np.float32) for of in range(size)]))
nothing = hvd.allgather(tensor(np.empty((0, 2), np.float32)), name="nothing")
assert tuple(nothing.shape) == (0, 2)
splits = torch.tensor([1] * size)
received, counts = hvd.alltoall(tensor(values(rank, (size, 2))), splits=splits, name="all")
assert counts.tolist() == [1] * size
same(received, np.stack([values(of, (size, 2))[rank] for of in range(size)]))
scattered = hvd.reducescatter(tensor(values(rank, (size * 2, 2))), op=hvd.Sum, name="scatter")
same(scattered, sum(values(of, (size * 2, 2)) for of in range(size))[2 * rank:2 * rank + 2])

# Started under one stream, awaited under another, as hooks of backward are: the other one follows, and keeps the memory.
assert not main.waited and not here.recorded
side = ctypes.c_void_p()
_call("cuStreamCreateWithPriority", ctypes.byref(side), 0, 0)
other = Stream(side.value)
handle = hvd.allreduce_async_(tensor(values(rank)), op=hvd.Sum, name="hook")
current[0] = other
result = hvd.synchronize(handle)
same(result, total, other)
assert other.waited == [main] and result.recorded == (other,)
current[0] = main

# Tensors of the CPU beside them; the same name in both places is an error that says so.
assert hvd.allreduce(torch.ones(3), op=hvd.Sum, name="cpu").tolist() == [size] * 3
if size > 1:
    mixed = tensor(np.ones(3, np.float32)) if rank == 0 else torch.ones(3)
    try:
        hvd.allreduce(mixed, name="mixed")
        raise SystemExit("no error")
    except hvd.HorovodMismatchError as error:
        assert "device differs" in str(error), error
    same(hvd.allreduce(tensor(values(rank)), op=hvd.Sum, name="after"), total)
hvd.shutdown()
print("torch_on_card: ok")
