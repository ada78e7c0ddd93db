# SPDX-License-Identifier: Apache-2.0
"""Errors, waiting, Ctrl-C, asyncio, fork, process sets and restarts, on any number of ranks."""

import asyncio
import gc
import os
import signal
import sys
import threading
import time

import numpy as np
from errors import raises

import horovod as hvd
from horovod._native import native
from horovod.common.process_sets import ByRegistration


def check_before_init():
    for function in (hvd.rank, hvd.size, hvd.barrier, hvd.metrics, lambda: hvd.allreduce(1.0)):
        raises(ValueError, "Horovod has not been initialized", function)
    assert not hvd.is_initialized()
    raises(ValueError, "process_sets", hvd.init, process_sets="static")
    hvd.init(comm=list(range(int(os.environ.get("HOROVOD_SIZE", "1")))))
    hvd.init()
    hvd.init(comm=[])
    assert hvd.is_initialized() and 0 <= hvd.rank() < hvd.size() and hvd.local_size() <= hvd.size()


def check_mismatch():
    if hvd.size() == 1:
        return
    own = np.float32 if hvd.rank() == 0 else np.float64
    error = raises(hvd.HorovodMismatchError, "float32", hvd.allreduce, np.ones(2, own), name="bad")
    assert "float64" in str(error) and error.status == -20 and error.status_name == "HVD_ERR_MISMATCH"
    assert error.operation == "bad" and isinstance(error, hvd.HorovodInternalError)
    raises(hvd.HorovodMismatchError, "shape", hvd.allreduce, np.ones(2 + hvd.rank()), name="shape")
    raises(hvd.HorovodMismatchError, "", hvd.broadcast, np.ones(2), min(hvd.rank(), 1), name="root")
    assert (hvd.allreduce(np.ones(2), op=hvd.Sum, name="bad") == hvd.size()).all()


def check_wrong_calls():
    raises(ValueError, "", hvd.broadcast, np.ones(2), hvd.size(), name="root")
    raises(ValueError, "numbers", hvd.alltoall, np.ones(4), splits=[1] * (hvd.size() + 1))
    raises(ValueError, "", hvd.alltoall, np.ones(1), splits=[2] * hvd.size())
    raises(ValueError, "integer", hvd.alltoall, np.ones(4), splits=[1.5] * hvd.size())
    raises(ValueError, "not registered", hvd.allreduce, 1.0, process_set=hvd.ProcessSet([0]))
    raises(ValueError, "both", hvd.allreduce, 1.0, average=True, op=hvd.Sum)
    if hvd.size() > 1:
        late = hvd.rank() == 0
        if late:
            hvd.barrier()
        first = hvd.allreduce_async(np.ones(2), name="twice", op=hvd.Sum)
        if not late:
            error = raises(ValueError, "twice", hvd.allreduce_async, np.ones(2), name="twice", op=hvd.Sum)
            assert error.status_name == "HVD_ERR_ALREADY_EXISTS"
            hvd.barrier()
        assert (first.wait() == hvd.size()).all()


def check_waiting():
    """While one thread waits others run, and a time limit leaves the operation alone."""
    if hvd.size() == 1:
        return
    if hvd.rank() == 0:
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1

        thread = threading.Thread(target=count)
        handle = hvd.allreduce_async(np.ones(2), op=hvd.Sum, name="late")
        thread.start()
        raises(TimeoutError, "still running", handle.wait, timeout=0.05)
        before = counted[0]
        raises(TimeoutError, "still running", handle.wait, timeout=0.3)
        assert counted[0] > before + 1000, "the wait kept the GIL"
        assert not handle.poll()
        stop.set()
        thread.join()
        hvd.broadcast_object("go", 0, name="go")
        assert (handle.wait() == hvd.size()).all()
    else:
        hvd.broadcast_object(None, 0, name="go")
        hvd.allreduce(np.ones(2), op=hvd.Sum, name="late")


def check_interrupt():
    """A real SIGINT ends the wait, not the operation."""
    if hvd.size() == 1:
        return
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(np.ones(2), op=hvd.Sum, name="interrupted")
        sent = []

        def interrupt():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.3, interrupt)
        start = time.monotonic()
        try:
            timer.start()
            handle.wait()
        except KeyboardInterrupt:
            ended = time.monotonic()
            assert ended - start > 0.2 and ended - sent[0] < 5, (start, sent, ended)
        else:
            raise AssertionError("no KeyboardInterrupt")
        timer.join()
        hvd.broadcast_object("go", 0, name="go")
        assert (handle.wait() == hvd.size()).all()
    else:
        hvd.broadcast_object(None, 0, name="go")
        hvd.allreduce(np.ones(2), op=hvd.Sum, name="interrupted")
    assert (hvd.allreduce(np.ones(2), op=hvd.Sum) == hvd.size()).all()


def check_dropped_handle():
    """An operation whose handle and array are gone still gives the other ranks the right numbers."""
    if hvd.size() == 1:
        return
    if hvd.rank() == 0:
        hvd.allreduce_async(np.full(100_000, 7.0), op=hvd.Sum, name="dropped")
        gc.collect()
        assert native().sweep() == 1
        junk = [np.full(100_000, -1.0) for _ in range(5)]
        hvd.broadcast_object(len(junk), 0, name="go")
    else:
        hvd.broadcast_object(None, 0, name="go")
        found = hvd.allreduce(np.zeros(100_000), op=hvd.Sum, name="dropped")
        assert (found == 7.0).all()
    hvd.barrier()
    deadline = time.monotonic() + 5
    while native().sweep():
        assert time.monotonic() < deadline, "a dropped operation kept its buffers"
        time.sleep(0.01)


def check_asyncio():
    before = hvd.allreduce_async(np.full(2, 1.0), op=hvd.Sum, name="before")

    async def one(name, value):
        found = await hvd.allreduce_async(np.full(2, value), op=hvd.Sum, name=name)
        assert (found == value * hvd.size()).all()

    async def many(tag):
        for turn in range(10):
            await asyncio.gather(*(one(f"{tag}.{turn}.{i}", float(i)) for i in range(10)))
        gathered = await hvd.allgather_async(np.array([hvd.rank()]), name=f"{tag}.gather")
        assert list(gathered) == list(range(hvd.size()))
        if hvd.size() > 1:
            try:
                await hvd.allreduce_async(np.ones(1 + hvd.rank()), name=f"{tag}.bad")
            except hvd.HorovodMismatchError:
                return
            raise AssertionError("no mismatch error")

    async def main():
        assert ((await before) == hvd.size()).all()
        ticks = [0]

        async def tick():
            while True:
                ticks[0] += 1
                await asyncio.sleep(0.01)

        ticker = asyncio.ensure_future(tick())
        slow = hvd.allreduce_async(np.ones(1), op=hvd.Sum, name="slow") if hvd.rank() == 0 else None
        while ticks[0] <= 5:
            await asyncio.sleep(0.01)
        if slow is None:
            slow = hvd.allreduce_async(np.ones(1), op=hvd.Sum, name="slow")
        assert (await slow)[0] == hvd.size()
        ticker.cancel()

    asyncio.run(main())
    failures = []

    def in_thread(tag):
        try:
            asyncio.run(many(tag))
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=in_thread, args=(f"loop{i}",)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures and not any(thread.is_alive() for thread in threads)
    for _ in range(50):  # nobody awaits these; the queue is emptied all the same
        hvd.allreduce(np.ones(4))


def check_fork():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            hvd.allreduce(np.ones(2))
            text = "no error"
        except ValueError as error:
            text = str(error)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    text = os.read(read, 1000).decode()
    assert os.waitpid(child, 0)[1] == 0
    assert "Horovod has not been initialized" in text and "fork" in text and str(os.getpid()) in text, text
    assert (hvd.allreduce(np.ones(2), op=hvd.Sum) == hvd.size()).all()


def check_process_sets():
    size, rank = hvd.size(), hvd.rank()
    assert hvd.global_process_set.ranks == list(range(size)) and hvd.global_process_set.process_set_id == 0
    raises(ValueError, "", hvd.add_process_set, range(size))
    if size == 1:
        return
    pair, rest = hvd.ProcessSet([1, 0]), None
    assert pair.ranks == [0, 1] and pair.size() is None and pair.included() is None
    if size > 2:
        hvd.add_process_set(pair)
        assert pair.process_set_id == 1 and pair.size() == 2 and pair.included() == (rank < 2)
        rest = hvd.add_process_set(range(2, size))
        raises(ValueError, "", hvd.add_process_set, [0, 1])
        mine = pair if rank < 2 else rest
        found = hvd.allreduce(np.array([rank]), op=hvd.Sum, process_set=mine, name="in.set")
        assert found[0] == sum(mine.ranks) and mine.rank() == mine.ranks.index(rank)
        root = mine.ranks[-1]
        assert hvd.broadcast(np.array([rank]), root, process_set=mine)[0] == root
        if rank >= 2:
            raises(ValueError, "", hvd.allreduce, np.ones(1), process_set=pair)
            raises(ValueError, "", pair.rank)
        again, kept = hvd.ProcessSet([0, 1]), ByRegistration(list)
        kept[pair].append("pair")
        kept[hvd.global_process_set].append("all")
        hvd.init(process_sets=[again])
        assert again.process_set_id == 1 and kept[again] == ["pair"] and kept[rest] == []
        assert hvd.remove_process_set(pair) and pair.process_set_id is None and again.process_set_id is None
        raises(ValueError, "not registered", hvd.allreduce, np.ones(1), process_set=pair)
        later = hvd.add_process_set([0, 1])
        assert later.process_set_id == 1 and kept[later] == kept[pair] == []  # the id is used again
        raises(ValueError, "process_sets[0]", hvd.init, process_sets=[range(size)])
        assert kept[hvd.global_process_set] == ["all"]
    assert not hvd.remove_process_set(hvd.global_process_set) and not hvd.remove_process_set(hvd.ProcessSet([0]))
    raises(ValueError, "process_sets[1]", hvd.init, process_sets=[[0], hvd.ProcessSet([0])])
    hvd.init(process_sets=[[0], [size - 1]])


def check_names():
    error = raises(ValueError, 'broadcast "wrong": root is', hvd.broadcast, np.ones(1), hvd.size(), name="wrong")
    assert error.operation == "wrong"
    # Each kind has names of its own, in whatever order ranks use them.
    calls = [
        lambda: hvd.allreduce_async(np.ones(2), op=hvd.Sum, name="both"),
        lambda: hvd.allgather_async(np.ones(2), name="both"),
        lambda: hvd.grouped_allreduce_async([np.ones(2), np.ones(3)], op=hvd.Sum, name="both"),
    ]
    handles = {}
    for index in range(3):
        kind = (index + hvd.rank()) % 3
        handles[kind] = calls[kind]()
    assert (handles[0].wait() == hvd.size()).all() and handles[1].wait().shape == (2 * hvd.size(),)
    assert all((part == hvd.size()).all() for part in handles[2].wait())
    raises(ValueError, r"'a\x00b' has a null character", hvd.allreduce, np.ones(1), name="a\0b")
    error = raises(ValueError, "root is", hvd.broadcast, np.ones(1), hvd.size(), name="two\nlines\x1b[31m")
    assert r'broadcast "two\nlines\x1b[31m": root is' in str(error), error
    error = raises(ValueError, "root is", hvd.broadcast, np.ones(1), hvd.size(), name="begin" + 3000 * "x" + "end")
    assert 'broadcast "begin' in str(error) and 'end": root is' in str(error) and len(str(error)) < 400, error


def check_restart():
    kept, size = hvd.ProcessSet([0]), hvd.size()
    for turn in range(5):
        hvd.shutdown()
        hvd.shutdown()
        assert not hvd.is_initialized() and kept.process_set_id is None
        hvd.init(process_sets=[kept] if size > 1 else None)
        assert hvd.allreduce(np.ones(1), op=hvd.Sum, name=f"turn{turn}")[0] == hvd.size()
    if hvd.size() > 1:
        # Nobody else submits this, so only the shutdown can end it.
        handle = hvd.allreduce_async(np.ones(1), name=f"never.{hvd.rank()}")
        hvd.barrier()
        hvd.shutdown()
        error = raises(hvd.HorovodShutDownError, "", handle.wait)
        assert error.status_name == "HVD_ERR_SHUT_DOWN" and handle.poll()


CHECKS = (
    check_before_init,
    check_mismatch,
    check_wrong_calls,
    check_waiting,
    check_interrupt,
    check_dropped_handle,
    check_asyncio,
    check_fork,
    check_process_sets,
    check_names,
    check_restart,
)
for check in CHECKS:
    check()
    print(f"{check.__name__}: ok", file=sys.stderr)
print("behaviour: ok")
