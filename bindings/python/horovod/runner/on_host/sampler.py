# SPDX-License-Identifier: Apache-2.0
"""What the kernel knows about the ranks of this host: where their processor time goes. Standard library only, see frames.py.

A rank's records (`hvd.records()`) say when it was late, but not why. The kernel says why: a thread that computes runs, a thread with
a busy neighbour is queued for a core, a thread that waits for data sleeps. A guardian takes a sample about twice a second:

    sampler = Sampler({rank: pid})
    for rank, sample in sampler.take().items():
        file.write(json.dumps(sample) + "\\n")

The first line of a file of samples is `header()`. A sample tells of the time since the one before, so the first call of `take` only
begins. Nothing here needs a privilege: the ranks belong to this user.
"""

import os
import time

import tcp_links

VERSION = 1
_THREADS = 6  # of each rank, besides the main thread, that a sample lists by themselves
_DISCOVER = 8  # samples from one look at which threads and sockets there are to the next
_TICKS = os.sysconf("SC_CLK_TCK")
_NS = 10**9


def header(rank, pid, host):
    """The first line of a file of samples, as a dict."""
    return {"hvd_samples": VERSION, "rank": rank, "pid": pid, "host": host}


class Sampler:
    """``pids``: the process of each rank that lives on this host, by rank: the process that called hvd.init()."""

    def __init__(self, pids):
        self._ranks = {rank: _Process(pid) for rank, pid in pids.items()}
        self._links = tcp_links.Links()
        self._number = 0

    def take(self):
        """{rank: sample} for the ranks that live; nothing at the first call, because a sample is a difference.

        All times are nanoseconds. `since` and `at` are of CLOCK_MONOTONIC, and the rest is what happened between them:
        `threads` begins with the main thread and goes on with the busiest others: `cpu` (of it `system` in the kernel), `queued` (ready to
        run, but no core was free), `slept` and `pushed` (how often the thread went to sleep, and was taken from its core), `minor` and
        `major` page faults. `others` is the processor time of all threads that are not listed. `links` are the TCP connections of
        the rank (tcp_links.py). `machine`: what all cores of the host were busy with.
        """
        look = self._number % _DISCOVER == 0
        self._number += 1
        machine = _machine()
        sockets = self._links.read()
        samples = {}
        for rank, process in list(self._ranks.items()):
            try:
                sample = process.take(look, machine, sockets)
            except OSError:
                del self._ranks[rank]  # has ended
                continue
            if sample is not None:
                samples[rank] = sample
        return samples


class _Process:
    def __init__(self, pid):
        self._pid = pid
        self._threads = {}  # by thread: its counters at the last sample
        self._sockets = set()  # inodes
        self._links = {}  # by (local, peer): counters at the last sample
        self._machine = None
        self._at = None

    def take(self, look, machine, sockets):
        folder = f"/proc/{self._pid}/task"
        if look:
            self._sockets = tcp_links.sockets_of(self._pid)
        now = time.monotonic_ns()
        listed = os.listdir(folder) if look or not self._threads else self._threads
        current = {}
        for thread in map(int, listed):
            try:
                current[thread] = _thread(f"{folder}/{thread}")
            except OSError:
                if thread == self._pid:
                    raise
        links = {link.key: link for link in sockets if link.inode in self._sockets}
        sample = None if self._at is None else self._difference(now, current, links, machine)
        self._at, self._threads, self._links, self._machine = now, current, links, machine
        return sample

    def _difference(self, now, current, links, machine):
        changes = {}
        for thread, (name, values) in current.items():
            before = self._threads.get(thread, (name, [0] * len(values)))[1]
            change = [value - old for value, old in zip(values, before)]
            # A thread that is seen for the first time may have run before the last sample.
            if thread in self._threads or change[0] <= now - self._at:
                changes[thread] = (name, change)
        main = changes.pop(self._pid, None)
        busiest = sorted(changes, key=lambda thread: -changes[thread][1][0])
        shown = [thread for thread in busiest[:_THREADS] if changes[thread][1][0] > 0]
        rows = [] if main is None else [_row(self._pid, *main)]
        rows += [_row(thread, *changes[thread]) for thread in shown]
        return {
            "since": self._at,
            "at": now,
            "threads": rows,
            "others": sum(changes[thread][1][0] for thread in busiest if thread not in shown),
            "links": [link.since(self._links[key]) for key, link in links.items() if key in self._links],
            "machine": {name: machine[name] - self._machine[name] for name in machine},
        }


_FIELDS = ("cpu", "queued", "user", "system", "slept", "pushed", "minor", "major")


def _row(thread, name, change):
    row = {"thread": thread, "name": name, **dict(zip(_FIELDS, change))}
    # The kernel knows how long a thread has run to the nanosecond, and divides that by looking once a tick.
    ticks = row.pop("user") + row["system"]
    row["system"] = round(row["cpu"] * row["system"] / ticks) if ticks > 0 else 0
    return row


def _thread(folder):
    """(name, counters in the order of _FIELDS) of a thread."""
    with open(f"{folder}/stat") as file:
        head, _, tail = file.read().rpartition(")")
    fields = tail.split()
    minor, major, user, system = int(fields[7]), int(fields[9]), int(fields[11]), int(fields[12])
    cpu, queued = (user + system) * _NS // _TICKS, 0
    try:
        with open(f"{folder}/schedstat") as file:
            cpu, queued = map(int, file.read().split()[:2])
    except (OSError, ValueError):
        pass  # a kernel without CONFIG_SCHED_INFO
    slept = pushed = 0
    with open(f"{folder}/status") as file:
        for line in file:
            if line.startswith("voluntary_ctxt_switches:"):
                slept = int(line.split()[1])
            elif line.startswith("nonvoluntary_ctxt_switches:"):
                pushed = int(line.split()[1])
    return head.partition("(")[2], [cpu, queued, user, system, slept, pushed, minor, major]


def _machine():
    """Nanoseconds of all cores of the host together: busy, stolen by other guests of the same machine, and idle."""
    try:
        with open("/proc/stat") as file:
            ticks = list(map(int, file.readline().split()[1:9]))
    except (OSError, ValueError):
        return {"busy": 0, "stolen": 0, "idle": 0}
    user, nice, system, idle, disk, interrupts, soft, stolen = ticks + [0] * (8 - len(ticks))
    found = {"busy": user + nice + system + interrupts + soft, "stolen": stolen, "idle": idle + disk}
    return {name: value * _NS // _TICKS for name, value in found.items()}
