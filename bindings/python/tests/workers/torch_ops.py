# SPDX-License-Identifier: Apache-2.0
"""Operations on PyTorch tensors: values, in-place forms, handles, and gradients against their formulas."""

import torch
from errors import raises

import horovod.torch as hvd



def those_of_this_version(names):
    return [getattr(torch, name) for name in names.split() if hasattr(torch, name)]


REDUCED = those_of_this_version(
    "uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 complex128"
)
MOVED = REDUCED + those_of_this_version(
    "bool complex32 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
)


def part(rank, shape, dtype):
    count = int(torch.tensor(shape).prod()) if shape else 1
    numbers = ((torch.arange(count) * (rank + 1)) % 3 + rank % 2).reshape(shape)
    if dtype.itemsize == 1 and dtype.is_floating_point:  # not every version converts all of them
        return numbers.to(torch.uint8).view(dtype)
    return (numbers * (1 + 2j) if dtype.is_complex else numbers).to(dtype)


def bits(tensor):
    return tensor.reshape(-1).contiguous().view(torch.uint8)  # there is no torch.equal for some


def same(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found, wanted)
    assert torch.equal(bits(found), bits(wanted)), (found, wanted)


def total(shape, dtype):
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return sum(part(r, shape, wide) for r in range(hvd.size())).to(dtype)


def joined(parts):
    """torch.cat, which does not have every dtype."""
    return torch.cat([one.view(torch.uint8) for one in parts]).view(parts[0].dtype)


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
        same(hvd.allgather(parts[rank]), joined(parts))
        gathered = joined(parts) if rank == size - 1 else parts[rank][:0]
        same(hvd.gather(parts[rank], size - 1), gathered)
        same(hvd.synchronize(hvd.gather_async(parts[rank], size - 1)), gathered)
        same(hvd.broadcast(part(rank, (3,), dtype), size - 1), part(size - 1, (3,), dtype))
        mine = part(rank, (3,), dtype)
        assert hvd.broadcast_(mine, 0) is mine
        same(mine, part(0, (3,), dtype))
        same(hvd.alltoall(part(rank, (size,), dtype)), joined([part(r, (size,), dtype)[rank : rank + 1] for r in range(size)]))
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


def check_marks_and_refusals():
    """A conjugate or a negative that is only a mark counts as what it means; what is refused is told what to do, and that works."""
    size = hvd.size()
    conjugate = torch.full((2,), 1 + 2j).conj()
    same(hvd.broadcast(conjugate, 0), torch.full((2,), 1 - 2j))
    same(hvd.allgather(conjugate), torch.full((2 * size,), 1 - 2j))
    mine = torch.full((2,), 1 + 2j)
    assert mine.conj().is_conj() and hvd.allreduce_(mine.conj(), op=hvd.Sum).is_conj()
    same(mine, torch.full((2,), size * (1 + 2j)))
    part_of = torch.full((2,), 1 + 2j).conj().imag  # marked as negative
    same(hvd.allreduce(part_of, op=hvd.Sum), torch.full((2,), -2.0 * size))
    raises(NotImplementedError, "average and sum are", hvd.allreduce, conjugate, op=hvd.Max)
    if hasattr(torch, "float8_e5m2"):
        low = torch.ones(2).to(torch.float8_e5m2)
        raises(NotImplementedError, "convert the input, for example to float32", hvd.allreduce, low, op=hvd.Sum)
        same(hvd.allreduce(low.to(torch.float32), op=hvd.Sum), torch.full((2,), float(size)))
    if hasattr(torch, "bits8"):
        strange = torch.arange(2, dtype=torch.uint8).view(torch.bits8)
        raises(ValueError, "tensor.view(torch.uint8) can be moved", hvd.broadcast, strange, 0)
        same(hvd.broadcast(strange.view(torch.uint8), 0), torch.arange(2, dtype=torch.uint8))


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

    turned = torch.full((4,), 1 + 2j) * (rank + 1)
    same(gradient(lambda t: hvd.allreduce(t, op=hvd.Sum), x * 1j, turned), torch.full((4,), 1 + 2j) * size * (size + 1) / 2)

    rows = rank + 1
    all_rows = size * (size + 1) // 2
    ups = [torch.arange(float(all_rows)) * (r + 1) for r in range(size)]
    start = rank * (rank + 1) // 2
    same(gradient(hvd.allgather, torch.ones(rows), ups[rank]), (sum(ups) / size)[start : start + rows])
    pair = [torch.ones(rows).requires_grad_(), torch.ones(rows).requires_grad_()]
    torch.autograd.backward(list(hvd.grouped_allgather(pair)), [ups[rank], ups[rank]])
    same(pair[1].grad, (sum(ups) / size)[start : start + rows])

    # Only the root's gradient counts; every rank gets that of its rows.
    mine = ups[0] if rank == 0 else torch.zeros(0)
    same(gradient(lambda t: hvd.gather(t, 0), torch.ones(rows), mine), ups[0][start : start + rows])
    same(gradient(lambda t: hvd.gather(t, 0), torch.tensor(1.0), mine[:size]), torch.tensor(float(rank)))

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
for check in (check_values, check_marks_and_refusals, check_cuda, check_layouts, check_groups, check_handles, check_gradients, check_state):
    check()
print("torch_ops: ok")
