# SPDX-License-Identifier: Apache-2.0
"""A job that writes timelines; the first argument says what it does, the second one is a folder."""

import json
import os
import resource
import sys
import time

import numpy as np

import horovod as hvd

WHAT, FOLDER = sys.argv[1:3]


def every_kind():
    """One operation of each kind; leaves the records, and moments around one operation, for the test to compare."""
    hvd.init()
    size, rank = hvd.size(), hvd.rank()
    ones = np.ones((60 << 10, size), np.float32)
    hvd.barrier()
    before = time.monotonic_ns()
    hvd.allreduce(ones, name="large")
    after = time.monotonic_ns()
    hvd.allreduce(np.ones(3, np.float64), name='tiny "quoted"\n')
    hvd.allreduce(ones, name="adasum", op=hvd.Adasum)
    for handle in [hvd.allreduce_async(ones, name=f"fused.{i}", op=hvd.Sum) for i in range(4)]:
        hvd.synchronize(handle)
    hvd.allgather(ones[: rank + 1], name="gathered")
    hvd.broadcast(ones, 0, name="broadcast")
    hvd.alltoall(ones, name="exchanged")
    hvd.reducescatter(ones, name="scattered")
    if rank == size - 1:
        time.sleep(0.05)
    hvd.allreduce(ones, name="late")
    part = hvd.add_process_set([0])
    if part.included():
        hvd.allreduce(ones, name="large", process_set=part)
    hvd.barrier()
    with open(os.path.join(FOLDER, f"records.{rank}.json"), "w") as file:
        json.dump({"records": hvd.records(), "before": before, "after": after}, file)
    hvd.shutdown()


def dynamic():
    """Starts and stops as a program may."""
    expect(ValueError, "not been initialized", hvd.start_timeline, "t.json")
    expect(ValueError, "not been initialized", hvd.stop_timeline)
    hvd.init()
    paths = [os.path.join(FOLDER, name) for name in ("first.json", "second.json", "cycles.json")]
    hvd.stop_timeline()  # none is being written
    hvd.allreduce(np.ones(4), name="before")
    hvd.start_timeline(paths[0])
    hvd.allreduce(np.ones(4), name="one")
    hvd.start_timeline(paths[0])  # goes on
    hvd.allreduce(np.ones(4), name="two")
    hvd.start_timeline(paths[1])
    hvd.allreduce(np.ones(4), name="three")
    expect(ValueError, "/no/such/folder/t", hvd.start_timeline, "/no/such/folder/t.json")
    hvd.allreduce(np.ones(4), name="four")
    hvd.stop_timeline()
    hvd.stop_timeline()
    hvd.allreduce(np.ones(4), name="between")
    hvd.start_timeline(paths[2], mark_cycles=True)
    hvd.allreduce(np.ones(1 << 16), name="five")
    hvd.shutdown()
    print("timeline: ok")


def refused():
    """Without HOROVOD_TIMELINE, as in Horovod."""
    hvd.init()
    expect(ValueError, "HOROVOD_TIMELINE", hvd.start_timeline, os.path.join(FOLDER, "t.json"))
    print("timeline: ok")


def for_ever():
    """Trains until it is killed."""
    hvd.init()
    open(os.path.join(FOLDER, f"ready.{hvd.rank()}"), "w").close()
    tensors = [np.ones(1 << (4 + i), np.float32) for i in range(8)]
    for step in range(1 << 30):
        for handle in [hvd.allreduce_async(tensor, name=f"tensor.{i}") for i, tensor in enumerate(tensors)]:
            hvd.synchronize(handle)
        if step % 10 == 9:
            hvd.allreduce(tensors[0], name=f"step.{step}")


def full_disk():
    """The disk is full in the middle; with a third argument it gets room again."""
    operations = 12000
    hvd.init()
    again = len(sys.argv) > 3
    if again:
        size_limit(100_000)
    for i in range(operations):
        hvd.allreduce(np.ones(2, np.float32), name="x")
    if again:
        size_limit(resource.RLIM_INFINITY)
        time.sleep(0.2)
        hvd.allreduce(np.ones(2, np.float32), name="x")
    hvd.shutdown()
    print("timeline: ok")


def size_limit(size):
    """Files may have so many bytes from now on."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def expect(kind, text, function, *arguments):
    """The call raises that kind of error, with the text in it."""
    try:
        function(*arguments)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"{function} raised nothing")


{"every_kind": every_kind, "dynamic": dynamic, "refused": refused, "for_ever": for_ever, "full_disk": full_disk}[WHAT]()
