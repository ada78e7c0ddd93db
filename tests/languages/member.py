# SPDX-License-Identifier: Apache-2.0
"""The Python rank of a job whose ranks are of several languages. All languages have this program; this one is the reference.

Every rank runs the same operations and prints a line `rank=<r> <label> <crc32 of the result's bytes>` for each, and at the
end `rank=<r> done`. The label is also the operation's name; `again-<label>` runs the operation named <label> once more, so
that the ranks' agreement about it is used again. Element i of rank r's input is ((r + 1) * 7 + i * 3) % 251.

With HVD_TEST_DIE=<rank> that rank kills itself after the barrier `before-death`. The others then run an allreduce
`after-death` of ten float32. That fails, or the barrier does where it had not ended yet: they print
`rank=<r> error <message>` and end with exit code 0.
"""

import os
import signal
import zlib

import numpy as np

import horovod as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()


def values(count, dtype):
    """This rank's input."""
    return (((rank + 1) * 7 + np.arange(count) * 3) % 251).astype(dtype)


def show(label, result):
    """Prints the line of one result: an array, several one after another, or None."""
    checksum = 0
    for array in [] if result is None else result if isinstance(result, list) else [result]:
        checksum = zlib.crc32(np.ascontiguousarray(array).tobytes(), checksum)
    print(f"rank={rank} {label} {checksum:08x}", flush=True)


def scaled(name):
    options = {"prescale_factor": 0.5, "postscale_factor": 3.0}
    return hvd.allreduce(values(64, np.float32), op=hvd.Sum, name=name, **options)


def grouped(name):
    return hvd.grouped_allreduce([values(count, np.float32) for count in (1, 10, 100)], op=hvd.Sum, name=name)


def alltoall(name):
    splits = [(rank + j) % 3 for j in range(size)]
    received, _rows = hvd.alltoall(values(sum(splits), np.int32).reshape(-1, 1), splits=splits, name=name)
    return received


def allgather(name):
    return hvd.allgather(values(3 * (rank + 1), np.float32).reshape(rank + 1, 3), name=name)


def reducescatter(name):
    return hvd.reducescatter(values(2 * (2 * size + 1), np.float32).reshape(2 * size + 1, 2), op=hvd.Sum, name=name)


# In this order, because every rank waits for one before it begins the next.
OPERATIONS = {
    "allreduce-f32-sum": lambda name: hvd.allreduce(values(1000, np.float32) / np.float32(8), op=hvd.Sum, name=name),
    "allreduce-f64-avg": lambda name: hvd.allreduce(values(257, np.float64) / 3, op=hvd.Average, name=name),
    "allreduce-i64-max": lambda name: hvd.allreduce(values(33, np.int64), op=hvd.Max, name=name),
    "allreduce-i32-min": lambda name: hvd.allreduce(values(33, np.int32), op=hvd.Min, name=name),
    "allreduce-f32-product": lambda name: hvd.allreduce(
        (1 + (rank + np.arange(5)) % 3).astype(np.float32), op=hvd.Product, name=name
    ),
    "allreduce-f32-scaled": scaled,
    "grouped": grouped,
    "allgather-f32": allgather,
    "broadcast-u8": lambda name: hvd.broadcast(values(4096, np.uint8), root_rank=1, name=name),
    "alltoall-i32": alltoall,
    "reducescatter-f32": reducescatter,
    "barrier": lambda name: hvd.barrier(name=name),
}
AGAIN = ("allreduce-f32-sum", "allreduce-f64-avg", "allreduce-i64-max", "allgather-f32", "reducescatter-f32")


def set_of_even_ranks():
    even = hvd.add_process_set(range(0, size, 2))
    if even.included():
        label = "set-allreduce-f64"
        show(label, hvd.allreduce(values(100, np.float64), op=hvd.Sum, name=label, process_set=even))
    hvd.remove_process_set(even)


def out_of_order():
    handles = {}
    for label in ("async-b", "async-a") if rank % 2 else ("async-a", "async-b"):
        handles[label] = hvd.allreduce_async(values(10, np.float32), op=hvd.Sum, name=label)
    for label in ("async-a", "async-b"):
        show(label, handles[label].wait())


def die(victim):
    try:
        hvd.barrier(name="before-death")
        if rank == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(values(10, np.float32), op=hvd.Sum, name="after-death")
    except hvd.HorovodInternalError as error:
        print(f"rank={rank} error {error}", flush=True)


for own_label, operation in OPERATIONS.items():
    show(own_label, operation(own_label))
set_of_even_ranks()
out_of_order()
for own_label in AGAIN:
    show(f"again-{own_label}", OPERATIONS[own_label](own_label))
if "HVD_TEST_DIE" in os.environ:
    die(int(os.environ["HVD_TEST_DIE"]))
print(f"rank={rank} done", flush=True)
