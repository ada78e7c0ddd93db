# SPDX-License-Identifier: Apache-2.0
"""Every operation on tensors of the GPU, for many dtypes, against NumPy. `--small` leaves out what is large."""

import sys

import numpy as np
import torch
from common import DEVICE, numbers, same, start, tensor

import horovod.torch as hvd

REDUCED = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64, torch.int8, torch.uint8, torch.int16]
MOVED = [*REDUCED, torch.bool]
SHAPES = [(5,), (3, 4), (), (0, 2), (1031, 3)]
if "--small" in sys.argv:
    REDUCED = MOVED = [torch.float32, torch.bfloat16, torch.int64, torch.int16]
else:
    SHAPES += [(1 << 20,), (4_000_037,)]  # one of them no multiple of anything

rank, size = start(process_sets="dynamic")


def of_all(shape, **options):
    return np.stack([numbers(of, shape, **options) for of in range(size)])


def check_meeting():
    """The first operation of a set connects the devices, and goes through host memory itself."""
    same(hvd.allreduce(tensor(numbers(rank, (4,))), op=hvd.Sum, name="meeting"), of_all((4,)).sum(0))


def check_allreduce():
    for dtype in REDUCED:
        for shape in SHAPES:
            wanted = of_all(shape).sum(0)
            own = tensor(numbers(rank, shape), dtype)
            same(hvd.allreduce(own, op=hvd.Sum, name=f"sum.{dtype}.{shape}"), wanted)
            same(own, numbers(rank, shape))
            assert hvd.allreduce_(own, op=hvd.Sum, name=f"sum here.{dtype}.{shape}") is own
            same(own, wanted)
        few = of_all((64,), least=1, different=2)
        mine = tensor(few[rank], dtype)
        for op, wanted in ((hvd.Min, few.min(0)), (hvd.Max, few.max(0)), (hvd.Product, few.prod(0))):
            same(hvd.allreduce(mine, op=op, name=f"{op}.{dtype}"), wanted)


def check_factors():
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        own, total = tensor(numbers(rank, (100,)), dtype), of_all((100,)).sum(0)
        same(hvd.allreduce(own, name=f"mean.{dtype}"), total / size)  # exact for 1, 2 and 4 ranks
        scaled = hvd.allreduce(own, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0, name=f"scaled.{dtype}")
        same(scaled, total * 2)
    same(hvd.allreduce(tensor(numbers(rank, (9,))), op=hvd.Sum, compression=hvd.Compression.fp16, name="fp16"), of_all((9,)).sum(0))
    # Adasum of tensors on the GPU is that of the same tensors in host memory.
    uneven = torch.from_numpy(np.sin(np.arange(50.0) + rank)).float()
    there = hvd.allreduce(uneven, op=hvd.Adasum, name="adasum of the cpu")
    here = hvd.allreduce(uneven.to(DEVICE), op=hvd.Adasum, name="adasum of the gpu")
    torch.testing.assert_close(here.cpu(), there)


def check_groups():
    shapes = ((4,), (2, 2), (), (3000,))
    group = [tensor(numbers(rank, shape)) for shape in shapes]
    for found, shape in zip(hvd.grouped_allreduce(group, op=hvd.Sum, name="group"), shapes):
        same(found, of_all(shape).sum(0))
    hvd.grouped_allreduce_(group, op=hvd.Max, name="group here")
    for found, shape in zip(group, shapes):
        same(found, of_all(shape).max(0))
    pair = [tensor(numbers(rank, (rank + 1, 2))), tensor(numbers(rank, (2,)), torch.int64)]
    first, second = hvd.grouped_allgather(pair, name="group gathered")
    same(first, np.concatenate([numbers(of, (of + 1, 2)) for of in range(size)]))
    same(second, np.concatenate([numbers(of, (2,)) for of in range(size)]))
    rows = np.array_split(of_all((2 * size + 1, 3)).sum(0), size)[rank]
    scattered = hvd.grouped_reducescatter([tensor(numbers(rank, (2 * size + 1, 3)))], op=hvd.Sum, name="group scattered")
    same(scattered[0], rows)
    # Many small ones at once, which are fused.
    handles = [hvd.allreduce_async_(tensor(np.full(17, i + rank)), op=hvd.Sum, name=f"many.{i}") for i in range(200)]
    for i, handle in enumerate(handles):
        same(hvd.synchronize(handle), np.full(17, i * size + sum(range(size))))


def check_moves():
    for dtype in MOVED:
        kinds = {"least": 0, "different": 2 if dtype is torch.bool else 7}
        own = tensor(numbers(rank, (2 * rank + 1, 3), **kinds), dtype)
        gathered = hvd.allgather(own, name=f"gather.{dtype}")
        assert gathered.dtype is dtype
        same(gathered, np.concatenate([numbers(of, (2 * of + 1, 3), **kinds) for of in range(size)]))
        same(hvd.allgather(tensor(np.full(3, rank % 2), dtype), name=f"even.{dtype}"), np.repeat(np.arange(size) % 2, 3))
        for root in {0, size - 1}:
            mine = tensor(numbers(rank, (77,), **kinds), dtype)
            same(hvd.broadcast(mine, root, name=f"from {root}.{dtype}"), numbers(root, (77,), **kinds))
            assert hvd.broadcast_(mine, root, name=f"here from {root}.{dtype}") is mine
            same(mine, numbers(root, (77,), **kinds))
        check_alltoall(dtype, kinds)
    same(hvd.allgather(tensor(np.empty((0, 2))), name="nothing"), np.empty((0, 2)))
    some = hvd.allgather(tensor(np.full((rank % 2, 2), 5.0)), name="some have nothing")
    same(some, np.full((size // 2, 2), 5.0))


def check_alltoall(dtype, kinds):
    """Uneven: rank r sends (r + d) % 3 rows to rank d, so that some get nothing from some."""
    splits = [[(of + to) % 3 for to in range(size)] for of in range(size)]
    ends = [np.cumsum([0, *row]) for row in splits]
    rows = [numbers(of, (sum(splits[of]), 2), **kinds) for of in range(size)]
    output, received = hvd.alltoall(tensor(rows[rank], dtype), splits=torch.tensor(splits[rank]), name=f"all.{dtype}")
    same(output, np.concatenate([rows[of][ends[of][rank] : ends[of][rank + 1]] for of in range(size)]))
    assert received.tolist() == [splits[of][rank] for of in range(size)], received


def check_reducescatter():
    for dtype in REDUCED:
        for rows in (2 * size, 2 * size + 1, 1):  # even, uneven, nothing for some ranks
            wanted = np.array_split(of_all((rows, 3)).sum(0), size)[rank]
            same(hvd.reducescatter(tensor(numbers(rank, (rows, 3)), dtype), op=hvd.Sum, name=f"scatter.{rows}.{dtype}"), wanted)


def check_layouts():
    """Tensors that are not contiguous: copied on the device, and back if the operation is in place."""
    wide, wanted = tensor(numbers(rank, (6, 8))), of_all((6, 8)).sum(0)
    same(hvd.allreduce(wide.t(), op=hvd.Sum, name="turned"), wanted.T)
    hvd.allreduce_(wide[:, 1], op=hvd.Sum, name="column")
    same(wide[:, 1], wanted[:, 1])
    same(wide[:, 2], numbers(rank, (6, 8))[:, 2])
    hvd.allreduce_(wide[3], op=hvd.Sum, name="row")  # in the middle of an allocation
    same(wide[3, 2:], wanted[3, 2:])


def check_sets():
    if size == 1:
        return
    half = hvd.add_process_set(range((size + 1) // 2))
    if half.included():
        for name in ("half", "half again"):
            found = hvd.allreduce(tensor(numbers(rank, (300,))), op=hvd.Sum, name=name, process_set=half)
            same(found, of_all((300,))[: half.size()].sum(0))
    hvd.barrier()
    hvd.remove_process_set(half)


def check_gradients():
    x = tensor(np.arange(4.0)).requires_grad_()
    hvd.allreduce(x, op=hvd.Sum, name="through").backward(tensor(np.full(4, rank + 1.0)))
    same(x.grad, np.full(4, size * (size + 1) / 2))
    sparse = torch.sparse_coo_tensor([[0, rank + 1]], [1.0, 2.0], (size + 1,), device=DEVICE)
    summed = hvd.sparse_allreduce_async(sparse, name="sparse", op=hvd.Sum)
    same(summed().to_dense(), np.array([size, *[2.0] * size]))
    layer = torch.nn.Linear(3, 2).to(DEVICE)
    with torch.no_grad():
        layer.weight.fill_(rank)
    hvd.broadcast_parameters(layer.state_dict(), root_rank=size - 1)
    same(layer.weight, np.full((2, 3), size - 1))
    assert hvd.allgather_object(("rank", rank)) == [("rank", of) for of in range(size)]


def check_join():
    """Ranks with fewer steps join: what the others do then goes through host memory."""
    for step in range(rank + 1):
        total = hvd.allreduce(tensor(np.ones(50)), op=hvd.Sum, name=f"step {step}")
        same(total, np.full(50, size - step))
    assert hvd.join() in range(size)
    same(hvd.allreduce(tensor(np.ones(3)), op=hvd.Sum, name="all again"), np.full(3, size))


CHECKS = (check_meeting, check_allreduce, check_factors, check_groups, check_moves, check_reducescatter, check_layouts, check_sets,
          check_gradients, check_join)  # fmt: skip
for check in CHECKS:
    check()
    print(f"{check.__name__}: done", flush=True)
hvd.shutdown()
print("operations: ok", flush=True)
