# SPDX-License-Identifier: Apache-2.0
"""Every operation of one rank, and after each what NCCL was asked for: it writes that into NCCL_DEBUG_FILE.

What is expected of NCCL is what docs/gpu.md says. Whether there are kernels of ours shows at the first operation that needs them.
"""

import collections
import itertools
import os
import re

import numpy as np
import torch
from common import DEVICE, ON_GPU, numbers, same, start, tensor

import horovod.torch as hvd

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
WHOLE = (torch.uint8, torch.int8, torch.int32, torch.int64)
NOT_NCCL = (torch.int16, torch.bool)  # no reductions of these
OPERATIONS = (hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product)
FACTORS = ((1.0, 1.0), (1.0, 0.5), (0.5, 1.0), (0.5, 2.0), (0.5, 4.0))  # before and after, exact in every floating type
KIB, MIB = 1 << 10, 1 << 20

_rank, size = start()
assert size == 1, "this is about one rank"
counts = itertools.count()


class Asked:
    """What NCCL has been asked for since the last time: {call: how often}."""

    LINE = re.compile(r"NCCL INFO (\w+): opCount \w+ .*?datatype (\w+) op (\w+) ")

    def __init__(self):
        self.path, self.read = os.environ.get("NCCL_DEBUG_FILE", ""), 0

    def since(self):
        if not ON_GPU or not os.path.exists(self.path):  # not before NCCL is there
            return collections.Counter()
        with open(self.path, errors="replace") as log:
            log.seek(self.read)
            text = log.read()
            self.read = log.tell()
        return collections.Counter(match[0] for match in self.LINE.findall(text))


asked = Asked()


def through(calls, function, *arguments, **options):
    """The result of the operation, for which NCCL must have been asked this; nothing: it went through host memory."""
    name = f"{function.__name__}.{next(counts)}"
    asked.since()
    result = function(*arguments, name=name, **options)
    found = asked.since()
    if ON_GPU:
        assert found == calls, f"{name} {options}: NCCL was asked for {dict(found)}, not for {dict(calls)}"
    return result


def find_kernels():
    """Whether integers are scaled on the device. Tensors of the first operation go through host memory in any case."""
    same(hvd.allreduce(tensor(np.arange(4)), op=hvd.Sum, name="meeting"), np.arange(4))
    asked.since()
    same(hvd.allreduce(tensor(np.arange(8), torch.int32), op=hvd.Sum, postscale_factor=0.5, name="probe"), np.arange(8) // 2)
    return bool(asked.since())


def is_nccls(dtype, operation, before, after, scatters):
    """Whether a reduction goes through NCCL."""
    if dtype in NOT_NCCL:
        return False
    if before == after == 1.0 or (operation in (hvd.Sum, hvd.Average) and dtype in FLOATS):
        return True
    return KERNELS and not (scatters and before != 1.0)


def reduced(of, dtype, before, after):
    """What a reduction among one rank makes of the numbers."""
    if dtype is torch.bool:
        return of  # scales have no effect
    scaled = of * before
    if dtype not in FLOATS:
        scaled = np.trunc(scaled)
    scaled = scaled * after
    return scaled if dtype in FLOATS else np.trunc(scaled)


def check_reductions():
    for dtype, operation, (before, after) in itertools.product((*FLOATS, *WHOLE, *NOT_NCCL), OPERATIONS, FACTORS):
        if dtype is torch.bool and operation is hvd.Average:
            continue  # is refused
        factors = {"op": operation, "prescale_factor": before, "postscale_factor": after}
        of = numbers(0, (103, 3), different=2 if dtype is torch.bool else 7)
        wanted = reduced(of, dtype, before, after)
        own = tensor(of, dtype)
        calls = {"AllReduce": 1} if is_nccls(dtype, operation, before, after, scatters=False) else {}
        same(through(calls, hvd.allreduce, own, **factors), wanted)
        same(own, of)
        assert through(calls, hvd.allreduce_, own, **factors) is own
        same(own, wanted)
        calls = {"ReduceScatter": 1} if is_nccls(dtype, operation, before, after, scatters=True) else {}
        same(through(calls, hvd.reducescatter, tensor(of, dtype), **factors), wanted)


def check_factors_of_halves():
    """A factor that float16 has not as a normal number is not NCCL's to multiply with."""
    of = numbers(0, (50,))
    calls = {"AllReduce": 1} if KERNELS else {}
    same(through(calls, hvd.allreduce, tensor(of, torch.float16), op=hvd.Sum, postscale_factor=2.0**-20), of * 2.0**-20)


def check_adasum():
    """Of one rank it is the rank's own vector, by all the steps of several."""
    calls = {"Send": 1, "Recv": 1, "AllReduce": 1, "AllGather": 1} if KERNELS else {}
    for dtype in FLOATS:
        of = numbers(0, (103, 3))
        same(through(calls, hvd.allreduce, tensor(of, dtype), op=hvd.Adasum), of)


def check_moves():
    for dtype in (*FLOATS, *WHOLE, *NOT_NCCL):
        of = numbers(0, (41, 3), different=2 if dtype is torch.bool else 7)
        same(through({"AllGather": 1}, hvd.allgather, tensor(of, dtype)), of)
        same(through({"Broadcast": 1}, hvd.broadcast, tensor(of, dtype), 0), of)
        own = tensor(of, dtype)
        assert through({"Broadcast": 1}, hvd.broadcast_, own, 0) is own
        same(own, of)
        rows, received = through({"Send": 1, "Recv": 1}, hvd.alltoall, tensor(of, dtype), splits=torch.tensor([41]))
        same(rows, of)
        assert received.tolist() == [41]


def check_groups():
    for dtype, shapes in itertools.product((torch.float32, torch.bfloat16, torch.int32), ([(5,), (), (40, 3)], [(5,), (MIB,), (7,)])):
        of = [numbers(0, shape) for shape in shapes]
        large = sum(array.size >= MIB for array in of)
        packed = {"AllReduce": 1 + large if KERNELS else len(shapes)}
        for found, wanted in zip(through(packed, hvd.grouped_allreduce, [tensor(one, dtype) for one in of], op=hvd.Max), of):
            same(found, wanted)
        own = [tensor(one, dtype) for one in of]
        calls = packed if is_nccls(dtype, hvd.Sum, 1.0, 0.5, scatters=False) else {}
        through(calls, hvd.grouped_allreduce_, own, op=hvd.Sum, postscale_factor=0.5)
        for found, wanted in zip(own, of):
            same(found, reduced(wanted, dtype, 1.0, 0.5))
    own = [tensor(numbers(0, (6, 2))), tensor(numbers(0, (3,)))]
    for function, call in ((hvd.grouped_allgather, "AllGather"), (hvd.grouped_reducescatter, "ReduceScatter")):
        options = {} if call == "AllGather" else {"op": hvd.Sum}
        for found, wanted in zip(through({call: 2}, function, own, **options), own):
            same(found, wanted.cpu().numpy())


def check_many():
    """More small tensors than the buffer holds, and more than one launch has room for."""
    for count, elements in ((300, KIB), (40, 255 * KIB)):
        own = [tensor(numbers(i, (elements,))) for i in range(count)]
        asked.since()
        hvd.grouped_allreduce_(own, op=hvd.Sum, name=f"many.{count}")
        calls = asked.since()["AllReduce"]
        assert not ON_GPU or (1 <= calls <= 4 if KERNELS else calls == count), calls
        for i, found in enumerate(own):
            same(found, numbers(i, (elements,)))


def pattern(count):
    """Bytes from 0 to 30."""
    return torch.arange(31, dtype=torch.int8, device=DEVICE).repeat(count // 31 + 1)[:count].clone()


def check_large():
    """More elements than 32 bits count, where there is room for them."""
    count = 2**31 + 5
    if not ON_GPU or torch.cuda.mem_get_info()[0] < 5 * count:
        return
    own = pattern(count)
    for name, options, factor in (("large", {}, 1), ("large, scaled", {"postscale_factor": 2.0}, 2)):
        hvd.allreduce_(own, op=hvd.Sum, name=name, **options)
        assert torch.equal(own, pattern(count).mul_(factor)), name


KERNELS = find_kernels()
for check in (check_reductions, check_factors_of_halves, check_adasum, check_moves, check_groups, check_many, check_large):
    check()
    print(f"{check.__name__}: done", flush=True)
hvd.shutdown()
print(f"through_nccl: ok, {next(counts)} operations, {'with' if KERNELS else 'without'} kernels of ours", flush=True)
