#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a job loses while strangers hold connections to a rank's port that say nothing: time and CPU of a 4 KB allreduce, without
them and with them in one job. The two ranks play two hosts of this machine; each connection that the rank closes is made again."""

from __future__ import annotations

import argparse
import os
import re
import resource
import select
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

CALLS, PAUSE_S = 300, 0.005  # of a round; the pause is where training would compute
SOURCES = 8  # addresses that the strangers come from


def parse() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--connections", type=int, default=500, help="default: 500")
    arguments.add_argument("--rounds", type=int, default=5, help="without strangers, and as many with them; default: 5")
    arguments.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--rendezvous", help=argparse.SUPPRESS)
    return arguments.parse_args()


def run_rank(options: argparse.Namespace) -> None:
    """A rank of the job: rank 0 prints `median in ms, share of a core` for each round."""
    import numpy as np

    import horovod as hvd

    host = f"127.0.0.{options.rank + 1}"
    hvd.init(rank=options.rank, size=2, rendezvous=options.rendezvous, hostname=host)
    data = np.ones(1024, np.float32)
    for _ in range(2 * options.rounds):
        took, begin, used = [], time.perf_counter(), time.process_time()
        for _ in range(CALLS):
            start = time.perf_counter()
            hvd.allreduce(data, name="x", op=hvd.Max)
            took.append(time.perf_counter() - start)
            time.sleep(PAUSE_S)
        share = (time.process_time() - used) / (time.perf_counter() - begin)
        if options.rank == 0:
            print(statistics.median(took) * 1e3, share, flush=True)
    hvd.shutdown()


def listening_at(process: int) -> tuple[str, int]:
    """Address and port that a process listens at, from what Linux says of its descriptors."""
    links = []
    for name in os.listdir(f"/proc/{process}/fd"):
        try:
            links.append(os.readlink(f"/proc/{process}/fd/{name}"))
        except OSError:
            continue  # closed meanwhile
    own = {found.group(1) for link in links if (found := re.match(r"socket:\[(\d+)\]", link))}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in own:
            address, port = words[1].split(":")
            return socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)
    sys.exit("rank 0 listens nowhere")


class Strangers(threading.Thread):
    """Holds silent connections until ``stop``; ``replaced`` of them were closed by the rank and made again."""

    def __init__(self, target: tuple[str, int], count: int):
        super().__init__(daemon=True)
        self.target, self.count = target, count
        self.replaced, self.stop = 0, False

    def connect(self, number: int) -> socket.socket:
        stranger = socket.socket()
        stranger.setblocking(False)
        stranger.bind((f"127.0.0.{10 + number % SOURCES}", 0))
        stranger.connect_ex(self.target)
        return stranger

    def run(self) -> None:
        closed = select.poll()
        held = {}
        for number in range(self.count):
            stranger = self.connect(number)
            held[stranger.fileno()] = stranger
            closed.register(stranger, select.POLLIN)
        while not self.stop:
            for descriptor, _events in closed.poll(200):
                closed.unregister(descriptor)
                held.pop(descriptor).close()
                self.replaced += 1
                stranger = self.connect(self.replaced)
                held[stranger.fileno()] = stranger
                closed.register(stranger, select.POLLIN)


def main() -> int:
    options = parse()
    if options.rank is not None:
        run_rank(options)
        return 0
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    job = [sys.executable, __file__, "--rounds", str(options.rounds), "--rendezvous", f"unix://flood.{os.getpid()}"]
    ranks = [subprocess.Popen(job + ["--rank", str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(2)]
    strangers = None
    for number in range(2 * options.rounds):
        if number == options.rounds:
            strangers = Strangers(listening_at(ranks[0].pid), options.connections)
            strangers.start()
        line = ranks[0].stdout.readline()
        if not line:
            break
        median_ms, share = map(float, line.split())
        with_them = f"{options.connections} strangers, {strangers.replaced:6} closed" if strangers else "without strangers"
        print(f"{with_them:34}  median {median_ms:.3f} ms, {share:4.0%} of a core", flush=True)
    if strangers:
        strangers.stop = True
    return max(rank.wait() for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
