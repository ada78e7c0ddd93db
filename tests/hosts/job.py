# SPDX-License-Identifier: Apache-2.0
"""Ranks on the hosts of a test network, started without a launcher: the tests decide who is where."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

WORKER = str(Path(__file__).resolve().parent / "worker.py")


class Rank:
    """One rank and what it has said."""

    def __init__(self, number, host, process):
        self.number, self.host, self.process = number, host, process
        self.events, self.lines = [], []
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._said:
                self.lines.append(line.rstrip())
                if line.startswith("{"):
                    self.events.append(json.loads(line))
                self._said.notify_all()

    def wait_for(self, key, timeout=30.0):
        """The first event with this key; AssertionError with all output if it does not come."""
        deadline = time.monotonic() + timeout
        with self._said:
            while True:
                for event in self.events:
                    if key in event:
                        return event
                left = deadline - time.monotonic()
                assert left > 0 and self._said.wait(left), f"rank {self.number}: no {key!r} in {timeout} s:\n" + "\n".join(self.lines)


class Job:
    """`ranks_per_host` ranks on each host of the network running worker.py; all are killed at the end."""

    def __init__(self, net, ranks_per_host, mode, env=None, per_rank=None):
        self._net, self._folder = net, tempfile.TemporaryDirectory(prefix="hvd-job-")
        hosts = [host for host in range(len(net.host_names)) for _ in range(ranks_per_host)]
        self.ranks = []
        for number, host in enumerate(hosts):
            variables = {"HOROVOD_RANK": str(number), "HOROVOD_SIZE": str(len(hosts)), "OMP_NUM_THREADS": "1",
                         "HOROVOD_RENDEZVOUS": f"file://{self._folder.name}", "HOROVOD_HOSTNAME": net.host_names[host],
                         **(env or {}), **((per_rank or {}).get(number, {}))}
            process = net.popen(host, [sys.executable, WORKER, mode], variables, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
            self.ranks.append(Rank(number, host, process))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.process.kill()
            rank.process.wait()
        self._folder.cleanup()

    def wait_for_all(self, key, timeout=30.0, ranks=None):
        """The event of every rank, or of the given ones, in rank order."""
        return [self.ranks[number].wait_for(key, timeout) for number in ranks or range(len(self.ranks))]
