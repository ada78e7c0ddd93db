# SPDX-License-Identifier: Apache-2.0
"""Operations whose tensors are late: kernels that take long are queued before them, and nothing waits for the device before the end.

Every tensor holds nonsense until its stream has slept. `--host-goes-on`: also checks that the host has not waited for the stream.
"""

import sys

import torch
from common import DEVICE, delay, on, same, side_stream, start, tensor, wait_for_device

import horovod.torch as hvd

NONSENSE, MS = -1.0, 40
COUNT = 300_001
rank, size = start()
GOES_ON = "--host-goes-on" in sys.argv
LATER = []  # (result, number it must have everywhere), looked at when all has been queued


def late(number, count=COUNT):
    """A tensor that gets its number only after a while, and whether that is still to come."""
    made = torch.full((count,), NONSENSE, device=DEVICE)
    busy = delay(MS * (rank + 1))
    made.fill_(number)
    return made, busy


def total(number):
    return number * size + sum(range(size))


def expect(result, number):
    """Copies the result as the stream has it, as a user's kernel would read it."""
    LATER.append((result.detach().clone(), number))


def check_result(step):
    own, busy = late(step + rank)
    # In step 0 kernels are loaded, which may wait.
    assert busy() or step == 0, "the kernel that delays is too fast: nothing was checked"
    result = hvd.allreduce(own, op=hvd.Sum, name="new")
    if GOES_ON:
        assert busy() or step == 0, "the host has waited for the stream"
    own.fill_(NONSENSE)  # after the operation in the stream's order
    expect(result, total(step))


def check_in_place(step):
    own, _busy = late(step + rank)
    hvd.allreduce_(own, op=hvd.Sum, name="here")
    expect(own, total(step))
    own.fill_(NONSENSE)


def check_many(step):
    """Several in flight, of different sizes, each late by itself."""
    handles = [hvd.allreduce_async_(late(step + rank + i, COUNT // (i + 1))[0], op=hvd.Sum, name=f"many.{i}") for i in range(4)]
    for i, handle in enumerate(handles):
        expect(hvd.synchronize(handle), total(step + i))


def check_moves(step):
    own, _busy = late(step + rank, 4 * size)
    gathered = hvd.allgather(own, name="gather")
    for of in range(size):
        expect(gathered[4 * size * of : 4 * size * (of + 1)], step + of)
    del gathered  # gives back memory of the library that the copies above have yet to read
    expect(hvd.broadcast(own, size - 1, name="broadcast"), step + size - 1)
    received = hvd.alltoall(own, name="all")
    for of in range(size):
        expect(received[4 * of : 4 * (of + 1)], step + of)
    expect(hvd.reducescatter(own, op=hvd.Sum, name="scatter"), total(step))


def check_two_streams(step):
    """Started on one stream, awaited on another, as hooks of backward are."""
    other = side_stream()
    own, _busy = late(step + rank)
    handle = hvd.allreduce_async(own, op=hvd.Sum, name="hook")
    with on(other):
        delay(1)
        result = hvd.synchronize(handle)
        expect(result, total(step))
    del result  # used on the other stream: its memory may not be taken before that has read it
    torch.full((COUNT,), NONSENSE, device=DEVICE)
    if other is not None:
        torch.cuda.current_stream().wait_stream(other)


# Once without delays, so that kernels are loaded, memory is there, and the devices have met: these wait.
for warm_up in range(2):
    expect(hvd.allreduce(tensor([1.0] * COUNT), op=hvd.Sum, name="new"), size)
late(0.0)
wait_for_device()
for stream in (None, side_stream()):
    with on(stream):  # None is the current one, which is the default stream
        torch.empty(32 * 4 * COUNT, device=DEVICE)  # the allocator keeps it for what comes, and asks the driver no more
        for step in range(3):
            for check in (check_result, check_in_place, check_many, check_moves, check_two_streams):
                check(step)
wait_for_device()
for at, (result, number) in enumerate(LATER):
    try:
        same(result, torch.full(result.shape, float(number)))
    except AssertionError as error:
        raise AssertionError(f"result {at} of {len(LATER)}: {error}") from None
hvd.shutdown()
print(f"ordering: ok, {len(LATER)} results", flush=True)
