# SPDX-License-Identifier: Apache-2.0
"""One rank of a trial: a small training that is slowed by a cause while `causes` says so. Started by run.py.

    worker.py FOLDER        FOLDER/plan.json: {"phases": [{"name", "steps", "cause", "rank", "cores"}, ...]}

Each phase is a training of its own length with its own records, in FOLDER/<name>/rank.N/records.jsonl as horovodrun writes them. A
worse network is run.py's: rank 0 asks for it and everybody waits for the answer.
"""

import contextlib
import json
import mmap
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import horovod as hvd

TENSORS = 6
ELEMENTS = 64 << 10
KERNELS = 4  # a step's work on an accelerator, which the program waits for
KERNEL = 0.003
WORK = 0.004  # seconds of a step's work on the processor
SLOW_WORK = 0.016
SLEEP = 0.018
FRESH = 24 << 20  # bytes
NEIGHBOURS = 3  # processes
STORM = 150  # objects, of two small operations each


class Training:
    """A step: load, compute, and reduce the gradients."""

    def __init__(self):
        self.rank = hvd.rank()
        self.gradients = [np.ones(ELEMENTS, np.float32) for _ in range(TENSORS)]
        self.matrix = np.ones((48, 48), np.float32)
        self.rounds = self._calibrated()
        self.alone = [hvd.add_process_set([rank]) for rank in range(hvd.size())][self.rank]

    def step(self, cause):
        time.sleep(SLEEP if cause == "sleeping data loader" else 0.001)
        if cause == "page faults":
            with mmap.mmap(-1, FRESH) as memory:  # fresh each time, and given back at once
                memory[:: mmap.PAGESIZE] = bytes(FRESH // mmap.PAGESIZE)
        if cause == "storm of small tensors":
            for number in range(STORM):
                hvd.allgather_object({"metric": number}, process_set=self.alone)
        for number in range(KERNELS):
            if number == self.rank % KERNELS:  # each rank at another time, because there may be fewer cores than ranks
                self.work(WORK + (SLOW_WORK if cause == "slow compute" else 0))
            time.sleep(KERNEL)
        handles = [hvd.allreduce_async(g, name=f"gradient.{number}") for number, g in enumerate(self.gradients)]
        for handle in handles:
            hvd.synchronize(handle)

    def work(self, seconds):
        """The same amount of work each time, however long the core takes for it."""
        for _ in range(round(self.rounds * seconds)):
            self.matrix @ self.matrix

    def _calibrated(self):
        """Rounds of work in a second of processor time."""
        begin = time.thread_time()
        for _ in range(4000):
            self.matrix @ self.matrix
        return 4000 / (time.thread_time() - begin)


class Hog:
    """A thread that never gives up the GIL of its own will."""

    def __enter__(self):
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="hog")
        self._thread.start()

    def __exit__(self, *_):
        self._ends = True
        self._thread.join()

    def _run(self):
        while not self._ends:
            for _ in range(1000):
                pass


class Neighbours:
    """Other processes that compute on this rank's core. They live in the rank's session: kernels that schedule sessions against one another
    (autogroup) let them disturb this rank, and not the machine's other work, which would go to the core of the other ranks."""

    def __enter__(self):
        command = [sys.executable, "-S", "-c", "print(flush=True)\nwhile True: pass"]
        self._processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(NEIGHBOURS)]
        for process in self._processes:
            process.stdout.readline()

    def __exit__(self, *_):
        for process in self._processes:
            process.kill()
            process.wait()
            process.stdout.close()


def run(training, folder, phase):
    """One phase; returns seconds."""
    cause = phase["cause"] if phase["rank"] == training.rank else None
    first = max((record["number"] for record in hvd.records()), default=0)
    around = {"GIL hog": Hog, "busy neighbour": Neighbours}.get(cause, contextlib.nullcontext)
    with around():
        hvd.barrier()
        begin = time.monotonic()
        for _ in range(phase["steps"]):
            training.step(cause)
        took = time.monotonic() - begin
    write_records(folder / phase["name"] / f"rank.{training.rank}", first)
    return took


def write_records(folder, after):
    """The operations after this number, as horovodrun writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {
        "hvd_records": 1,
        "rank": hvd.rank(),
        "size": hvd.size(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "clock_offset": 0,
        "clock_error": 0,
        "truncated": 0,
    }
    names = {"number": "n", "process_set": "set", "last_rank": "last"}
    with open(folder / "records.jsonl", "w") as file:
        print(json.dumps(head), file=file)
        for record in hvd.records(after):
            row = {names.get(name, name): value for name, value in record.items()}
            row["status"] = 0 if record["status"] == "HVD_OK" else 1
            print(json.dumps(row), file=file)


def agreed(folder, number):
    """Waits until run.py has done what phase `number` needs."""
    if hvd.rank() == 0:
        (folder / f"want.{number}").touch()
    while not (folder / f"go.{number}").exists():
        time.sleep(0.01)


def main():
    folder = Path(sys.argv[1])
    plan = json.loads((folder / "plan.json").read_text())
    hvd.init()
    samples = folder / f"samples.{hvd.rank()}.jsonl"
    watch = [sys.executable, str(Path(__file__).with_name("watch.py")), str(os.getpid()), str(hvd.rank()), str(samples)]
    with subprocess.Popen(watch, stdin=subprocess.PIPE) as watcher:
        training = Training()
        for _ in range(10):
            training.step(None)
        results = []
        for number, phase in enumerate(plan["phases"]):
            agreed(folder, number)
            os.sched_setaffinity(0, phase["cores"][training.rank])
            results.append(run(training, folder, phase))
        if training.rank == 0:
            (folder / "seconds.json").write_text(json.dumps(results))
        watcher.stdin.close()
    hvd.shutdown()


if __name__ == "__main__":
    main()
