# SPDX-License-Identifier: Apache-2.0
"""Every collective of torch.distributed on the backend hvd, against values computed by hand; groups; failures.

With the argument "older" it goes the ways that are for earlier versions of PyTorch.
"""

import datetime
import sys

import torch
import torch.distributed as dist
from errors import raises

import horovod.torch as hvd  # registers the backend
from horovod.torch.distributed import _older, _pairs


def same(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found, wanted)
    assert torch.equal(found, wanted), (found, wanted)


def part(rank, count, dtype=torch.float32):
    return (torch.arange(count) + 10 * rank).to(dtype)


def check_reductions():
    whole = torch.stack([part(r, 4) for r in range(size)]) + 1
    for op, wanted in (
        (dist.ReduceOp.SUM, whole.sum(0)),
        (dist.ReduceOp.AVG, whole.mean(0)),
        (dist.ReduceOp.MIN, whole.amin(0)),
        (dist.ReduceOp.MAX, whole.amax(0)),
        (dist.ReduceOp.PRODUCT, whole.prod(0)),
    ):
        own = whole[rank].clone()
        dist.all_reduce(own, op=op)
        torch.testing.assert_close(own, wanted)
    mask = torch.tensor([rank == 0, True, False])
    dist.all_reduce(mask, op=dist.ReduceOp.BOR)
    same(mask, torch.tensor([True, True, False]))
    numbers = torch.full((2,), 1 + 1j * rank)
    dist.all_reduce(numbers)
    same(numbers, torch.full((2,), size + 1j * sum(range(size))))
    column = torch.ones(3, 2)
    dist.all_reduce(column[:, 1])
    same(column, torch.tensor([[1.0, size]] * 3))
    own = whole[rank].clone()
    dist.reduce(own, size - 1)
    same(own, whole.sum(0) if rank == size - 1 else whole[rank])
    tensors = [torch.ones(2), torch.ones(1, 3)]
    dist.all_reduce_coalesced(tensors)
    same(tensors[0], torch.full((2,), float(size)))
    same(tensors[1], torch.full((1, 3), float(size)))


def check_sparse():
    """Rank r has entries r and, twice, 0; rank 1 has none."""
    wanted = torch.zeros(5, 2)
    for r in range(size):
        if r != 1:
            wanted[r] += torch.tensor([3.0, 4.0])
            wanted[0] += torch.tensor([2.0, 2.0])
    for op, divisor in ((dist.ReduceOp.SUM, 1), (dist.ReduceOp.AVG, size)):
        indices, values = ([[]], torch.zeros(0, 2)) if rank == 1 else ([[0, rank, 0]], [[1.0, 2], [3, 4], [1, 0]])
        own = torch.sparse_coo_tensor(indices, values, (5, 2), check_invariants=True)
        work = dist.all_reduce(own, op=op, async_op=True)
        assert work.get_future().wait()[0] is own and own.is_coalesced()
        same(own.to_dense(), wanted / divisor)
    raises(NotImplementedError, "SUM and AVG", lambda: dist.all_reduce(own, op=dist.ReduceOp.MAX))
    if size > 1:
        other = own if rank == 0 else own.to_dense()
        raises(hvd.HorovodMismatchError, "operation differs", lambda: dist.all_reduce(other))
        other = torch.sparse_coo_tensor([[0]], [1.0], (5 + rank,), check_invariants=True)
        raises(hvd.HorovodMismatchError, "rank 0 [5], rank 1 [6]", lambda: dist.all_reduce(other))


def check_scattered():
    rows = torch.arange(2.0 * size) + rank
    total = torch.arange(2.0 * size) * size + sum(range(size))
    mine = total[2 * rank : 2 * rank + 2]
    out = torch.empty(2)
    dist.reduce_scatter_tensor(out, rows)
    same(out, mine)
    dist.reduce_scatter(out.zero_(), list(rows.chunk(size)), op=dist.ReduceOp.AVG)
    torch.testing.assert_close(out, mine / size)
    uneven = [torch.ones(r + 1) for r in range(size)]
    out = torch.empty(rank + 1)
    dist.reduce_scatter(out, uneven)
    same(out, torch.full((rank + 1,), float(size)))


def check_gathered():
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int16):
        parts = [part(r, 3, dtype) for r in range(size)]
        found = [torch.empty(3, dtype=dtype) for _ in range(size)]
        dist.all_gather(found, parts[rank])
        for one, wanted in zip(found, parts):
            same(one, wanted)
        whole = torch.empty(size * 3, dtype=dtype)
        dist.all_gather_into_tensor(whole, parts[rank])
        same(whole, torch.cat(parts))
        whole[3 * rank : 3 * rank + 3] = parts[rank]
        dist.all_gather_into_tensor(whole, whole[3 * rank : 3 * rank + 3])  # in place
        same(whole, torch.cat(parts))
        root = parts[rank].clone()
        dist.broadcast(root, size - 1)
        same(root, parts[size - 1])
    uneven = [torch.empty(r + 1) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank)))
    for r, one in enumerate(uneven):
        same(one, torch.full((r + 1,), float(r)))
    found = [torch.empty(2) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.full((2,), float(rank)), found, dst=0)
    if rank == 0:
        same(torch.stack(found), torch.arange(float(size)).repeat(2, 1).t().contiguous())
    mine = torch.empty(2)
    dist.scatter(mine, [torch.full((2,), float(r)) for r in range(size)] if rank == size - 1 else None, src=size - 1)
    same(mine, torch.full((2,), float(rank)))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]


def check_alltoall():
    found = [torch.empty(r + 1) for r in range(size)]
    dist.all_to_all(found, [torch.full((rank + 1,), float(r)) for r in range(size)])
    for r, one in enumerate(found):
        same(one, torch.full((r + 1,), float(rank)))
    out = torch.empty(size, 2)
    dist.all_to_all_single(out, torch.arange(2.0 * size).view(size, 2) + 100 * rank)
    same(out, torch.stack([torch.tensor([2.0 * rank, 2.0 * rank + 1]) + 100 * r for r in range(size)]))
    splits = [r + 1 for r in range(size)]
    out = torch.empty(size * (rank + 1), 2)
    dist.all_to_all_single(out, torch.full((sum(splits), 2), float(rank)), [rank + 1] * size, splits)
    same(out, torch.cat([torch.full((rank + 1, 2), float(r)) for r in range(size)]))


def check_works():
    tensor = torch.ones(1000)
    work = dist.all_reduce(tensor, async_op=True)
    value = work.get_future().then(lambda future: future.value()[0] * 2).wait()
    same(value, torch.full((1000,), 2.0 * size))
    assert work.is_completed() and work.wait()
    work = dist.all_reduce(torch.ones(1), async_op=True)  # nobody but the work holds the tensor
    work.wait()
    same(work.result()[0], torch.full((1,), float(size)))
    tensors = [torch.full((3,), float(n)) for n in range(600)]  # more than the ring of names is long
    for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
        work.wait()
    for n, tensor in enumerate(tensors):
        same(tensor, torch.full((3,), float(n) * size))
    tensor = torch.ones(1)
    future = dist.all_reduce(tensor, async_op=True).get_future()  # nobody holds the work; the operation goes on
    future.wait()
    same(tensor, torch.full((1,), float(size)))


def check_kept():
    """Works that nobody holds live on where C++ could still wait for them; who has asked lets them go."""
    kept = dist.group.WORLD._kept
    if kept is None:
        return
    before = len(kept)
    reduced = torch.ones(1000)
    for _ in range(300):  # more than the ring of names is long
        dist.all_reduce(torch.ones(1), async_op=True)
        dist.all_reduce(reduced)
    assert len(kept) == before + 300, (len(kept), before)
    work = dist.all_reduce(reduced, async_op=True)
    assert len(kept) == before + 301
    work.get_future().wait()
    assert len(kept) == before + 300


def check_messages():
    if size == 1:
        raises(ValueError, "rank 0", lambda: dist.isend(torch.ones(1), 0))
        return
    following, previous = (rank + 1) % size, (rank - 1) % size
    for number in range(3):
        sent, received = torch.full((4,), float(rank + 10 * number)), torch.empty(4)
        works = [dist.isend(sent, following, tag=1), dist.irecv(received, previous, tag=1)]
        for work in works:
            work.wait()
        same(received, torch.full((4,), float(previous + 10 * number)))
    if rank == 0:
        dist.send(torch.tensor([1, 2]), 1)
    elif rank == 1:
        numbers = torch.empty(2, dtype=torch.int64)
        dist.recv(numbers, 0)
        same(numbers, torch.tensor([1, 2]))
        raises(NotImplementedError, "source", lambda: dist.recv(numbers))


def check_groups():
    everyone = dist.new_group(list(range(size)))
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=everyone)
    same(tensor, torch.full((2,), float(size)))
    for members in ([0], list(range(1, size)), [0, size - 1] if size > 2 else []):
        if not members:
            continue
        group = dist.new_group(members)  # non-members are told nothing
        if rank not in members:
            continue
        tensor = torch.full((2,), float(rank))
        dist.all_reduce(tensor, group=group)
        same(tensor, torch.full((2,), float(sum(members))))
        tensor = torch.full((2,), float(rank))
        dist.broadcast(tensor, members[-1], group=group)
        same(tensor, torch.full((2,), float(members[-1])))
        assert dist.get_backend(group) == "hvd" and dist.get_process_group_ranks(group) == members
        dist.destroy_process_group(group)
        # PyTorch does not know the group any more: 2.1 asserts, 2.4 has a TypeError, later ones a ValueError.
        raises((AssertionError, TypeError, ValueError), "", lambda: dist.all_reduce(tensor, group=group))
        raises(RuntimeError, "was destroyed", lambda: group.allreduce([tensor]))


def check_time_limit():
    """A group's timeout ends an operation that others never call; the group goes on."""
    if size == 1:
        return
    group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=3))
    if rank == 0:
        raises(hvd.HorovodTimeoutError, "missing ranks 1 of 2", lambda: dist.all_reduce(torch.ones(2), group=group))
    elif rank == 1:
        dist.recv(torch.empty(1), 0)
        # The call that rank 0 has given up.
        raises(hvd.HorovodTimeoutError, "missing ranks 1 of 2", lambda: dist.all_reduce(torch.ones(2), group=group))
        dist.send(torch.ones(1), 0)
    if rank == 0:
        dist.send(torch.ones(1), 1)
        dist.recv(torch.empty(1), 1)  # what both must do has the same limit, so they begin it together
    if rank < 2:
        tensor = torch.ones(2)
        dist.all_reduce(tensor, group=group)
        same(tensor, torch.full((2,), 2.0))
        dist.destroy_process_group(group)


def check_failures():
    numbers = torch.ones(1, dtype=torch.int64)
    raises(NotImplementedError, "BXOR of torch.int64", lambda: dist.all_reduce(numbers, op=dist.ReduceOp.BXOR))
    raises(NotImplementedError, "not reduced", lambda: dist.all_reduce(torch.empty(1, dtype=torch.float8_e4m3fn)))
    raises(ValueError, "3 elements", lambda: dist.reduce_scatter_tensor(torch.empty(2), torch.ones(3)))
    if size > 1:
        tensor = torch.ones(2 + rank)  # lengths differ: everybody hears which
        raises(hvd.HorovodMismatchError, "rank 1", lambda: dist.all_reduce(tensor))
        work = dist.all_reduce(tensor, async_op=True)
        raises(RuntimeError, "rank 1", work.get_future().wait)
        raises(hvd.HorovodMismatchError, "rank 1", work.wait)
        assert isinstance(work.exception(), hvd.HorovodMismatchError) and not work.is_success()
        dist.barrier()
        tensor = torch.ones(1)
        if rank == 0:
            work = dist.all_reduce(tensor, async_op=True)
            assert not work.is_completed()  # rank 1 has not called it yet
            raises(dist.DistBackendError, "still runs", lambda: work.wait(datetime.timedelta(milliseconds=20)))
            dist.send(tensor, 1)
            assert work.wait() and work.is_completed()
        else:
            if rank == 1:
                dist.recv(torch.empty(1), 0)
            dist.all_reduce(tensor)
    dist.barrier()


if "older" in sys.argv:
    _older.KeptWorks.needed = True
    _pairs.own_connection = _older.PolledStore
dist.init_process_group("hvd")
rank, size = dist.get_rank(), dist.get_world_size()
assert dist.get_backend() == "hvd"
check_reductions()
check_sparse()
check_scattered()
check_gathered()
check_alltoall()
check_works()
check_messages()
check_groups()
check_time_limit()
check_failures()
check_kept()
assert "mpi4py.MPI" not in sys.modules  # importing it starts MPI, which ends the process where it cannot
dist.barrier()
dist.destroy_process_group()
assert not dist.is_initialized() and not hvd.is_initialized()
print("torch_dist_ops: ok")
