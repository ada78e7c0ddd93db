# SPDX-License-Identifier: Apache-2.0
"""The last minutes of what the kernel knows about the ranks of this host (sampler.py), for the report of a job. Standard library only,
see frames.py.
"""

import collections
import json
import os
import zlib

import sampler

_EVERY = 0.5  # seconds from one sample to the next
_KEPT = 1200  # of a rank: ten minutes, which is some megabytes


class Samples:
    """Begins when ``take`` is called for the first time."""

    def __init__(self):
        self._pids = {}
        self._sampler = sampler.Sampler(self._pids)
        self._kept = {}  # rank: its last samples, as lines
        self._next = 0.0

    def take(self, now, pids):
        """Takes a sample if the time has come; returns the seconds until then. ``pids()``: the process of each rank, by rank."""
        if now < self._next:
            return self._next - now
        self._next = now + _EVERY
        living = pids()
        if living != self._pids:
            self._pids, self._sampler = living, sampler.Sampler(living)
        for rank, sample in self._sampler.take().items():
            self._kept.setdefault(rank, collections.deque(maxlen=_KEPT)).append(json.dumps(sample))
        return _EVERY

    def write(self, folder, hosts):
        """Writes a compressed file for each rank that was sampled; returns the names of the files. A full disk is no error, and leaves
        files out. ``hosts``: the name of each rank's host, by rank."""
        names = []
        for rank, lines in self._kept.items():
            head = json.dumps(sampler.header(rank, self._pids.get(rank, 0), hosts[rank]))
            path = os.path.join(folder, name(rank))
            try:
                with open(path, "wb") as file:
                    file.write(zlib.compress("".join(f"{line}\n" for line in (head, *lines)).encode(), 1))
            except OSError:
                if os.path.exists(path):
                    os.unlink(path)  # half a file
                continue
            names.append(name(rank))
        return names


def name(rank):
    """The name of the file in the job's folder."""
    return f"samples.{rank}.z"
