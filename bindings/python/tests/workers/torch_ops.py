# SPDX-License-Identifier: Apache-2.0
"""Operations on PyTorch tensors: values, in-place forms, handles, and gradients against their formulas."""

import torch
from errors import raises

import horovod.torch as hvd

REDUCED = [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
MOVED = [*REDUCED, torch.int16, torch.bool]


def part(rank, shape, dtype):
    count = int(torch.tensor(shape).prod()) if shape else 1
    return ((torch.arange(count) * (rank + 1)) % 3 + rank % 2).reshape(shape).to(dtype)


def same(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found, wanted)
    assert torch.equal(found, wanted), (found, wanted)


def total(shape, dtype):
    return sum(part(r, shape, torch.float64) for r in range(hvd.size())).to(dtype)


def check_values():
    rank, size = hvd.rank(), hvd.size()
    for dtype in REDUCED:
        for shape in [(), (4,), (3, 2), (0, 2)]:
            own = part(rank, shape, dtype)
            same(hvd.allreduce(own, op=hvd.Sum, name=f"t.{dtype}.{shape}"), total(shape, dtype))
            assert hvd.allreduce_(own, op=hvd.Sum) is own
            same(own, total(shape, dtype))
        same(hvd.reducescatter(part(rank, (2 * size,), dtype), op=hvd.Sum), total((2 * size,), dtype)[2 * rank : 2 * rank + 2])
    for dtype in MOVED:
        parts = [part(r, (r + 1, 2), dtype) for r in range(size)]
        same(hvd.allgather(parts[rank]), torch.cat(parts))
        same(hvd.broadcast(part(rank, (3,), dtype), size - 1), part(size - 1, (3,), dtype))
        mine = part(rank, (3,), dtype)
        assert hvd.broadcast_(mine, 0) is mine
        same(mine, part(0, (3,), dtype))
        wanted = torch.cat([part(r, (size,), dtype)[rank : rank + 1] for r in range(size)])
        same(hvd.alltoall(part(rank, (size,), dtype)), wanted)
    splits = torch.ones(size, dtype=torch.int32)
    output, received = hvd.alltoall(torch.arange(float(size)), splits=splits)
    same(output, torch.full((size,), float(rank)))
    same(received, splits)
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        same(hvd.allreduce(torch.full((3,), rank + 1.0), op=hvd.Sum, compression=compression), torch.full((3,), size * (size + 1) / 2))


def check_layouts():
    rank, size = hvd.rank(), hvd.size()
    wide = torch.arange(12.0).reshape(3, 4) + rank
    wanted = wide.t() * size - rank * size + sum(range(size))
    same(hvd.allreduce(wide.t(), op=hvd.Sum), wanted.contiguous())
    column = wide[:, 1]
    before = wide.clone()
    hvd.allreduce_(column, op=hvd.Sum)
    same(wide[:, 1], before[:, 1] * size - rank * size + sum(range(size)))
    same(wide[:, 0], before[:, 0])
    row = wide[1]
    address = row.data_ptr()
    assert hvd.allreduce_(row, op=hvd.Max).data_ptr() == address


def check_groups():
    rank, size = hvd.rank(), hvd.size()
    tensors = [part(rank, (3,), torch.float32), part(rank, (2, 2), torch.int64)]
    totals = [total((3,), torch.float32), total((2, 2), torch.int64)]
    for found, wanted in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum, name="g"), totals):
        same(found, wanted)
    handle = hvd.grouped_allreduce_async_(tensors, op=hvd.Sum, name="g")
    assert all(a is b for a, b in zip(hvd.synchronize(handle), tensors))
    for found, wanted in zip(tensors, totals):
        same(found, wanted)
    gathered = hvd.grouped_allgather([torch.full((rank + 1,), rank), torch.full((1, 2), float(rank))])
    same(gathered[0], torch.cat([torch.full((r + 1,), r) for r in range(size)]))
    scattered = hvd.grouped_reducescatter([torch.arange(float(size)), torch.arange(2.0 * size)], op=hvd.Sum)
    same(scattered[0], torch.tensor([rank * float(size)]))


def check_handles():
    handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="once")
    number = int(handle)
    same(hvd.synchronize(number), torch.full((2,), float(hvd.size())))
    assert hvd.synchronize(handle) is None and hvd.synchronize(number) is None
    raises(ValueError, str(number), hvd.poll, handle)
    raises(ValueError, "complex64", hvd.allreduce, torch.ones(2, dtype=torch.complex64))


def gradient(function, tensor, upstream):
    tensor = tensor.clone().requires_grad_()
    function(tensor).backward(upstream)
    return tensor.grad


def check_gradients():
    rank, size = hvd.rank(), hvd.size()
    up = torch.arange(1.0, 5.0) * (rank + 1)
    mean_up = torch.arange(1.0, 5.0) * (size + 1) / 2
    x = torch.arange(4.0)
    same(gradient(lambda t: hvd.allreduce(t, op=hvd.Sum), x, up), mean_up * size)
    same(gradient(lambda t: hvd.allreduce(t), x, up), mean_up)
    scaled = gradient(lambda t: hvd.allreduce(t, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), x, up)
    same(scaled, mean_up * size * 2)
    grouped = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    outputs = hvd.grouped_allreduce(grouped, op=hvd.Average)
    torch.autograd.backward(outputs, [up, 2 * up])
    same(grouped[0].grad, mean_up)
    same(grouped[1].grad, 2 * mean_up)

    rows = rank + 1
    all_rows = size * (size + 1) // 2
    ups = [torch.arange(float(all_rows)) * (r + 1) for r in range(size)]
    start = rank * (rank + 1) // 2
    same(gradient(hvd.allgather, torch.ones(rows), ups[rank]), (sum(ups) / size)[start : start + rows])
    pair = [torch.ones(rows).requires_grad_(), torch.ones(rows).requires_grad_()]
    torch.autograd.backward(list(hvd.grouped_allgather(pair)), [ups[rank], ups[rank]])
    same(pair[1].grad, (sum(ups) / size)[start : start + rows])

    wanted = mean_up if rank == size - 1 else torch.zeros(4)
    same(gradient(lambda t: hvd.broadcast(t, size - 1), x, up), wanted)

    # The gradient of a row is the one its receiver computed: rank d multiplies by d + 1. One row is not sent.
    splits = [1] * size
    found = gradient(lambda t: hvd.alltoall(t, splits=splits)[0], torch.ones(size + 1), torch.full((size,), rank + 1.0))
    same(found, torch.cat([torch.arange(1.0, size + 1), torch.zeros(1)]))

    for op, factor in ((hvd.Sum, size), (hvd.Average, 1)):
        found = gradient(lambda t: hvd.reducescatter(t, op=op, prescale_factor=2.0), torch.ones(size), torch.tensor([rank + 1.0]))
        same(found, torch.arange(1.0, size + 1) * factor * 2)
    upstream = torch.tensor([rank + 1.0])
    gradient(lambda t: hvd.reducescatter(t, op=hvd.Sum), torch.ones(size), upstream)
    same(upstream, torch.tensor([rank + 1.0]))
    same(gradient(lambda t: hvd.allreduce(t, compression=hvd.Compression.fp16), x, up), mean_up)


def check_state():
    rank, size = hvd.rank(), hvd.size()
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_parameters(model.named_parameters(), root_rank=0)
    sums = hvd.allgather_object([float(v.double().sum()) for v in model.state_dict().values()])
    assert all(s == sums[0] for s in sums), sums
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1))
    if rank == 0:  # only the root has state
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == 0.1
    states = hvd.allgather_object({k: {n: v.tolist() for n, v in s.items()} for k, s in optimizer.state_dict()["state"].items()})
    assert all(s == states[0] and s for s in states)
    assert hvd.broadcast_object((rank, "x"), 0) == (0, "x")
    assert hvd.join() in range(size)
    hvd.barrier()


def check_cuda():
    """Tensors on a GPU go by way of host memory and come back to it."""
    if not torch.cuda.is_available():
        print("torch_ops: CUDA tensors not checked, there is no GPU")
        return
    own = part(hvd.rank(), (5,), torch.float32).cuda()
    same(hvd.allreduce(own, op=hvd.Sum), total((5,), torch.float32).cuda())
    assert hvd.allreduce_(own, op=hvd.Sum) is own
    same(own, total((5,), torch.float32).cuda())
    assert hvd.allgather(own).is_cuda and hvd.reducescatter(own).is_cuda


hvd.init()
for check in (check_values, check_cuda, check_layouts, check_groups, check_handles, check_gradients, check_state):
    check()
print("torch_ops: ok")
