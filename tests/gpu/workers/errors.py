# SPDX-License-Identifier: Apache-2.0
"""Mistakes with tensors on a GPU, and memory that is not there: each ends one operation, and the next one works."""

import torch
from common import DEVICE, ON_GPU, numbers, raised, same, start, tensor, wait_for_device

import horovod.torch as hvd

rank, size = start()
MB = 1 << 20


def check_next(name):
    same(hvd.allreduce(tensor(numbers(rank, (99,))), op=hvd.Sum, name=name), sum(numbers(of, (99,)) for of in range(size)))


def check_mixed():
    """One name, on the CPU on one rank and on the GPU on another. In a rehearsal the dtype differs."""
    if size == 1:
        return
    mine = tensor(numbers(rank, (4,)))
    if rank == 1:
        mine = mine.cpu() if ON_GPU else mine.double()
    for function in (hvd.allreduce, hvd.allgather):
        error = raised(hvd.HorovodMismatchError, "device differs" if ON_GPU else "dtype differs", function, mine, name="mixed")
        if ON_GPU:
            assert "rank 0 cuda" in str(error) and "rank 1 cpu" in str(error), error
    check_next("after mixed")
    same(hvd.allreduce(tensor([1.0]), op=hvd.Sum, name="mixed"), [size])


def check_both_places():
    """Tensors of the CPU and of the GPU in turns, and at the same time, under different names."""
    there = [hvd.allreduce_async(torch.full((50,), float(i)), op=hvd.Sum, name=f"cpu.{i}") for i in range(8)]
    here = [hvd.allreduce_async(tensor([float(i)] * 50), op=hvd.Sum, name=f"gpu.{i}") for i in range(8)]
    for i, (one, other) in enumerate(zip(there, here)):
        assert hvd.synchronize(one).tolist() == [i * size] * 50
        same(hvd.synchronize(other), [i * size] * 50)


def check_refused():
    raised(ValueError, "complex64", hvd.allreduce, torch.ones(2, dtype=torch.complex64, device=DEVICE), name="complex")
    if ON_GPU:
        raised(ValueError, "several devices", hvd.grouped_allreduce, [tensor([1.0]), torch.ones(1)], name="two places")
        stream = torch.cuda.Stream()
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
            raised(Exception, "capturing a graph", hvd.allreduce, tensor_of_before, op=hvd.Sum, name="captured")
    check_next("after refused")


def check_no_memory():
    """No room on the device for a result that the library allocates. All ranks share one GPU."""
    if not ON_GPU:
        return
    own = torch.ones(768 * MB // 4, device=DEVICE)
    check_next("before it is full")
    torch.cuda.empty_cache()
    wait_for_device()
    hvd.barrier()
    everything = None
    if rank == 0:
        free, _all = torch.cuda.mem_get_info()
        everything = torch.empty(free - 640 * MB, dtype=torch.uint8, device=DEVICE)
    hvd.barrier()
    free, _all = torch.cuda.mem_get_info()
    print(f"{free // MB} MB are free, {768 * size} MB are needed", flush=True)
    raised(MemoryError, "CUDA_ERROR_OUT_OF_MEMORY", hvd.allgather, own, name="too much")
    hvd.barrier()
    check_next("after too much")
    hvd.barrier()
    del everything
    torch.cuda.empty_cache()
    hvd.barrier()
    gathered = hvd.allgather(own, name="too much")
    assert gathered.numel() == own.numel() * size and bool((gathered == 1).all())


tensor_of_before = tensor([1.0])
wait_for_device()
for check in (lambda: check_next("meeting"), check_both_places, check_mixed, check_refused, check_no_memory):
    check()
hvd.shutdown()
print("errors: ok", flush=True)
