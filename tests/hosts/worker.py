# SPDX-License-Identifier: Apache-2.0
"""A rank for the tests of several hosts: checks what it computes until it is told to stop or hears of a failure.

Writes one JSON object per line: {"ready": …} once it has joined, {"ended": …} with the reason and CLOCK_MONOTONIC, which all
hosts of the test network share. With a failure comes when this process stood still, because others had the cores.
"""

import json
import os
import sys
import threading
import time

import numpy as np

import horovod as hvd


def say(**event):
    print(json.dumps({"rank": int(os.environ["HOROVOD_RANK"]), "time": time.monotonic(), **event}), flush=True)


class Stalls(threading.Thread):
    """Sleeps a little again and again, and notes the sleeps that were far too long: when they ended, and by how much."""

    PAUSE, NOTED = 0.01, 0.05

    def __init__(self):
        super().__init__(daemon=True)
        self.found, self.awake = [], time.monotonic()

    def run(self):
        while True:
            began = time.monotonic()
            time.sleep(self.PAUSE)
            ended = time.monotonic()
            if ended - began > self.PAUSE + self.NOTED:
                self.found.append([ended, ended - began - self.PAUSE])
            self.awake = ended

    def until(self, moment):
        while self.awake < moment:
            time.sleep(self.PAUSE)
        return self.found


def check_operations(elements):
    """Every kind of operation once, against values that follow from the ranks."""
    rank, size = hvd.rank(), hvd.size()
    base = np.arange(elements, dtype=np.float64) % 97
    total = hvd.allreduce(base + rank, op=hvd.Sum, name=f"sum.{elements}")
    assert (total == base * size + size * (size - 1) / 2).all(), total
    gathered = hvd.allgather(np.full((rank + 1, 3), rank), name=f"gather.{elements}")
    assert gathered.shape == (size * (size + 1) // 2, 3) and gathered[-1, 0] == size - 1, gathered
    sent = hvd.broadcast(base if rank == size - 1 else np.zeros_like(base), size - 1, name=f"cast.{elements}")
    assert (sent == base).all()
    received, splits = hvd.alltoall(np.repeat(np.arange(size), 2) * 10 + rank, np.full(size, 2), name=f"all.{elements}")
    assert (received == np.repeat(np.arange(size), 2) + rank * 10).all() and (np.asarray(splits) == 2).all(), received
    share = hvd.reducescatter(np.ones((size * 2, elements)), op=hvd.Sum, name=f"scatter.{elements}")
    assert share.shape == (2, elements) and (share == size).all()
    hvd.barrier()


def main():
    started = time.monotonic()
    stalls = Stalls()
    stalls.start()
    try:
        hvd.init()
    except Exception as error:
        say(ended=str(error), kind=type(error).__name__)
        return 1
    say(ready=True, pid=os.getpid(), seconds=time.monotonic() - started, local=[hvd.local_rank(), hvd.local_size()],
        cross=[hvd.cross_rank(), hvd.cross_size()])
    mode = sys.argv[1]
    try:
        if mode == "check":
            for elements in (1, 100, 5000, 300_000):
                check_operations(elements)
            reason = "done"
        elif mode == "payloads":  # that travel with the announcement
            for turn in range(10):
                for elements in (2048, 2049, 16384):
                    data = np.full(elements, turn + hvd.rank(), np.float32)
                    assert (hvd.allreduce(data, op=hvd.Sum, name=f"payload.{elements}") == 2 * turn + 1).all()
            reason = "done"
        elif mode == "idle":
            hvd.allreduce(np.ones(1), name="begin")
            hvd.barrier() if hvd.rank() == 0 else time.sleep(60)
            reason = "done"
        else:  # stream
            data = np.ones(200_000, np.float32)
            while True:
                assert hvd.allreduce(data, op=hvd.Sum, name="stream")[0] == hvd.size()
    except hvd.HorovodInternalError as error:
        told = time.monotonic()
        culprit = getattr(error, "rank", None)
        say(ended=str(error), kind=type(error).__name__, culprit=culprit, time=told, stood_still=stalls.until(told))
        hvd.shutdown()
        return 3
    say(ended=reason)
    hvd.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
