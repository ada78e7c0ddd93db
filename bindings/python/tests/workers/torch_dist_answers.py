# SPDX-License-Identifier: Apache-2.0
"""The backend hvd: what is chained to futures, batches of messages, what PyTorch asks a backend, every dtype."""

import datetime
import random
import time
import warnings

import torch
import torch.distributed as dist
from errors import raises

import horovod.torch as hvd  # registers the backend


def check_chains():
    """What is chained to a future waits for further operations, also for those whose future existed before."""

    def next_sum(future):
        return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]

    future = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(next_sum)
    for _ in range(5):
        future = future.then(lambda done: next_sum(done.then(lambda value: [value.value()])))
    assert future.wait().item() == size**7
    first, second = torch.ones(2), torch.ones(3)
    works = [dist.all_reduce(tensor, async_op=True) for tensor in (first, second)]
    later = works[1].get_future()
    both = works[0].get_future().then(lambda done: done.value()[0].sum() + later.wait()[0].sum())
    assert both.wait().item() == 5 * size
    works = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(20)]  # all of them wait for the last one
    futures = [work.get_future() for work in works]
    chained = [one.then(lambda _done: works[-1].wait() and futures[-1].wait()[0].item()) for one in futures[:-1]]
    assert torch.futures.wait_all(chained) == [size] * 19
    failed = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda _done: 1 / 0)
    raises(RuntimeError, "ZeroDivisionError", failed.wait)
    # The same on a thread that has waited itself: what is chained is not for it to run.
    work = dist.all_reduce(torch.ones(1), async_op=True)
    chained = work.get_future().then(next_sum)
    work.wait()
    assert chained.wait().item() == size * size


def check_chains_in_any_order():
    """What is chained starts operations at other times on every rank, between others that look alike."""
    hurry = random.Random(rank)

    def first(future):
        time.sleep(hurry.random() / 50)
        return dist.all_reduce(future.value()[0] + 1, async_op=True).get_future().wait()[0]

    def second(future):
        value = future.value()
        dist.broadcast(value, 0, async_op=True).wait()
        return dist.all_reduce(value, async_op=True).get_future().wait()[0].item()

    chained = []
    for number in range(30):
        own = torch.full((1,), float(number))
        chained.append(dist.all_reduce(own, async_op=True).get_future().then(first).then(second))
        time.sleep(hurry.random() / 100)
        dist.all_reduce(own.clone())
    assert torch.futures.wait_all(chained) == [(number * size + 1) * size * size for number in range(30)]


def check_chained_messages():
    """A message that waits for another one, which is sent only when a later one has arrived."""
    if size == 1 or rank > 1:
        return
    peer = 1 - rank
    if rank == 0:
        answer, first, last = torch.zeros(1), torch.zeros(1), torch.ones(1)
        late = dist.irecv(answer, 1, tag=1).get_future()
        early = dist.irecv(first, 1, tag=2).get_future()
        early.then(lambda _done: dist.send(last, 1, tag=3)).wait()
        late.wait()
        assert answer.item() == 2 and first.item() == 1
    else:
        dist.send(torch.ones(1), peer, tag=2)
        dist.recv(torch.empty(1), peer, tag=3)
        dist.send(torch.full((1,), 2.0), peer, tag=1)


def check_batches():
    if size == 1:
        return
    own, received = torch.tensor([float(rank)]), torch.zeros(1)
    following, previous = (rank + 1) % size, (rank - 1) % size
    messages = [dist.P2POp(dist.irecv, received, previous), dist.P2POp(dist.isend, own, following)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    assert received.item() == previous
    group = dist.new_group(list(range(size)), timeout=datetime.timedelta(minutes=7))
    received.zero_()
    messages = [
        dist.P2POp(dist.isend, own, following, group, tag=4),
        dist.P2POp(dist.irecv, received, previous, group, tag=4),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    assert received.item() == previous
    dist.destroy_process_group(group)


def check_coalescing():
    manager = getattr(dist, "_coalescing_manager", None) or dist.distributed_c10d._coalescing_manager
    tensors = [torch.ones(2), torch.ones(3)]
    with manager(async_ops=True) as coalesced:
        for tensor in tensors:
            dist.all_reduce(tensor)
    coalesced.wait()
    assert all(tensor.eq(size).all() for tensor in tensors)
    parts, wholes = [torch.full((2,), float(rank)), torch.ones(1)], [torch.empty(2 * size), torch.empty(size)]
    with manager():
        for whole, part in zip(wholes, parts):
            dist.all_gather_into_tensor(whole, part)
    assert wholes[0].tolist() == [float(r) for r in range(size) for _ in range(2)] and wholes[1].eq(1).all()
    with manager():
        dist.reduce_scatter_tensor(parts[1], wholes[1])
        dist.reduce_scatter_tensor(parts[0], wholes[0])
    assert parts[1].item() == size and parts[0].eq(size * rank).all()
    with manager(device=torch.device("cpu"), async_ops=True) as coalesced:  # one by one, as for messages
        works = [dist.group.WORLD.allreduce([tensor], dist.AllreduceOptions()) for tensor in tensors]
    coalesced.wait()
    assert all(work.is_completed() for work in works) and tensors[0].eq(size * size).all()
    group = dist.group.WORLD
    group._start_coalescing(torch.device("cpu"))
    group.allreduce([tensors[0]], dist.AllreduceOptions())
    group.barrier()
    work = group._end_coalescing(torch.device("cpu"))
    assert work.get_future().wait()[0] is tensors[0] and work.is_success() and work.exception() is None
    raises(RuntimeError, "no operations are being coalesced", lambda: group._end_coalescing(torch.device("cpu")))


def check_questions():
    group = dist.group.WORLD
    assert group._get_backend(torch.device("cpu")).name() == "hvd"
    raises(RuntimeError, "works on CPU tensors", lambda: group._get_backend(torch.device("cuda:0")))
    assert dist.get_backend() == "hvd" and dist.get_process_group_ranks(group) == list(range(size))
    if hasattr(dist, "get_backend_config"):
        assert dict([dist.get_backend_config().split(":")]) == {"cpu": "hvd"}
    module = dist.distributed_c10d
    for ask, answer in (("_device_capability", ["cpu"]), ("_get_object_coll_device", "cpu")):  # not in every version
        assert not hasattr(module, ask) or getattr(module, ask)() == answer, ask
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert module._get_pg_default_device() == torch.device("cpu")
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=60))
    if size > 1:
        limit = datetime.timedelta(seconds=1)
        if rank != 1:
            error = raises(RuntimeError, "waits for ranks [1", lambda: dist.monitored_barrier(group, limit))
            assert f"monitored_barrier: rank {rank} waits" in str(error)
            dist.send(torch.ones(1), 1)
        else:
            for other in range(size):
                if other != 1:
                    dist.recv(torch.ones(1), other)
            dist.monitored_barrier()  # the call that the others have given up
    dist.barrier(device_ids=[0])
    raises(NotImplementedError, "cannot change it", lambda: group.set_timeout(datetime.timedelta(seconds=1)))
    add_time = getattr(dist.distributed_c10d, "_add_ephemeral_timeout_for_all_pgs", None)  # what Inductor calls
    if add_time is not None:
        add_time(datetime.timedelta(seconds=1))


def check_objects():
    found = [rank, None] if rank == 0 else [None, None]
    dist.broadcast_object_list(found, 0)
    assert found == [0, None]
    own = [None]
    dist.scatter_object_list(own, [{"r": r} for r in range(size)] if rank == 0 else None, src=0)
    assert own == [{"r": rank}]
    found = [None] * size if rank == 0 else None
    dist.gather_object(rank, found, dst=0)
    assert rank != 0 or found == list(range(size))
    if size > 1 and hasattr(dist, "send_object_list") and rank < 2:
        found = [{"x": 1}] if rank == 0 else [None]
        dist.send_object_list(found, 1) if rank == 0 else dist.recv_object_list(found, 0)
        assert found == [{"x": 1}]


def check_more_groups():
    own, groups = dist.new_subgroups(group_size=1)
    assert dist.get_process_group_ranks(own) == [rank] and len(groups) == size
    dist.barrier(group=own)
    if size == 4:
        own, _groups = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
        number = torch.tensor([float(rank)])
        dist.all_reduce(number, group=own)
        assert number.item() == 3
    backwards = list(range(size))[::-1]
    if hasattr(dist, "split_group"):
        half = dist.split_group(split_ranks=[backwards[: size // 2 + 1]])
        if rank in backwards[: size // 2 + 1]:
            assert dist.get_rank(half) == size - 1 - rank and dist.get_process_group_ranks(half) == backwards[: size // 2 + 1]
            number = torch.tensor([float(rank)])
            dist.all_reduce(number, group=half)
            assert number.item() == sum(backwards[: size // 2 + 1])
            dist.destroy_process_group(half)
        else:
            assert half is dist.GroupMember.NON_GROUP_MEMBER


NAMES = (
    "uint16 uint32 uint64 complex32 complex64 complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu float4_e2m1fn_x2 bfloat16 bool"
).split()


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def check_dtypes():
    """Whatever is only moved may be of any dtype; complex numbers are added, by their parts."""
    for dtype in (getattr(torch, name) for name in NAMES if hasattr(torch, name)):
        octets = [r % 2 if dtype is torch.bool else 0x51 ^ r for r in range(size)]
        parts = [torch.full((3 * dtype.itemsize,), one, dtype=torch.uint8) for one in octets]
        own = parts[rank].view(dtype)
        found = [torch.empty_like(own) for _ in range(size)]
        dist.all_gather(found, own)
        assert all(torch.equal(bits(one), part) for one, part in zip(found, parts)), dtype
        whole = torch.empty(3 * size, dtype=dtype)
        dist.all_gather_into_tensor(whole, own)
        assert torch.equal(bits(whole), torch.cat(parts)), dtype
        root = own.clone()
        dist.broadcast(root, size - 1)
        assert torch.equal(bits(root), parts[-1]), dtype
        dist.all_to_all(found, [own] * size)
        assert all(torch.equal(bits(one), part) for one, part in zip(found, parts)), dtype
        dist.gather(own, found if rank == 0 else None, dst=0)
        dist.scatter(root, [part.view(dtype) for part in parts] if rank == 0 else None, src=0)
        assert torch.equal(bits(root), parts[rank]), dtype
        if size > 1 and rank < 2:
            dist.send(own, 1) if rank == 0 else dist.recv(root, 0)
            assert torch.equal(bits(root), parts[0 if rank == 1 else rank]), dtype
    numbers = torch.full((2,), 1 + 2j).conj()  # a mark, not yet other numbers in memory; PyTorch's functions refuse it
    whole = torch.empty(2 * size, dtype=torch.complex64)
    dist.group.WORLD.all_gather_single(whole, numbers).wait()
    assert whole.eq(1 - 2j).all()
    dist.group.WORLD.allreduce([numbers], dist.AllreduceOptions()).wait()
    assert numbers.eq(size * (1 - 2j)).all()
    numbers = numbers.resolve_conj()
    imaginary = torch.full((2,), 1 + 2j).conj().imag  # marked as negative
    dist.all_reduce(imaginary)
    assert imaginary.eq(-2 * size).all()
    whole = torch.full((size,), 3 + 1j, dtype=torch.complex128)
    dist.reduce_scatter_tensor(own := torch.empty(1, dtype=torch.complex128), whole, op=dist.ReduceOp.AVG)
    assert own.item() == 3 + 1j
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.PRODUCT
    raises(NotImplementedError, "SUM and AVG", lambda: dist.group.WORLD.allreduce([numbers], options))
    if hasattr(torch, "float8_e5m2"):
        raises(NotImplementedError, "not reduced", lambda: dist.all_reduce(torch.empty(1, dtype=torch.float8_e5m2)))
    if size > 1 and hasattr(torch, "uint32"):
        other = torch.zeros(2, dtype=torch.uint32 if rank == 0 else torch.float32)
        raises(hvd.HorovodMismatchError, "rank 0 uint32, rank 1 float32", lambda: dist.broadcast(other, 0))


dist.init_process_group("hvd")
rank, size = dist.get_rank(), dist.get_world_size()
check_chains()
check_chains_in_any_order()
check_chained_messages()
check_batches()
check_coalescing()
check_questions()
check_objects()
check_more_groups()
check_dtypes()
dist.barrier()
dist.destroy_process_group()
print("torch_dist_answers: ok")
