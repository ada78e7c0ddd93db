# SPDX-License-Identifier: Apache-2.0
"""Writes a flight memory as libhvd does (core/engine/flight_layout.h), for tests of its readers."""

import os
import sys
import time

from horovod.runner import on_host

sys.path.insert(0, on_host.FOLDER)  # modules that travel to other hosts import each other by plain names
import flight  # noqa: E402

SLOTS = {"operations": 4096, "groups": 4096, "labels": 6144, "clocks": 8, "waits": 8, "stalls": 8}


def field(text, size):
    return text.encode()[:size].ljust(size, b"\0")


class Writer:
    """One tick is two nanoseconds. Times are given in ns."""

    def __init__(self, descriptor, rank=0, size=1, pid=None, slots=SLOTS):
        self.descriptor, self.submitted, self.slots = descriptor, 0, slots
        self.place = rank, size, os.getpid() if pid is None else pid
        self.newest = dict.fromkeys(flight.RINGS, 0)
        self.offsets, at = {}, flight.HEADER_BYTES
        for name in flight.RINGS:
            self.offsets[name] = at
            at += slots[name] * self.slot_bytes(name)
        self.bytes = at
        os.ftruncate(descriptor, at)
        self.clock(1000)
        self.clock(time.monotonic_ns())

    @staticmethod
    def slot_bytes(name):
        return flight.NUMBER.size + flight.VALUES[name].size

    def header(self, state=flight.WORKS, magic=flight.MAGIC):
        rank, size, pid = self.place
        data = bytearray(flight.HEADER.pack(magic, flight.HEADER_BYTES, flight.VERSION, rank, size, pid, state, 0, self.submitted,
                                            self.bytes, 0).ljust(flight.HEADER_BYTES, b"\0"))
        for number, name in enumerate(flight.RINGS):
            entry = self.offsets[name], self.slots[name], self.slot_bytes(name), self.newest[name]
            flight.RING.pack_into(data, flight.RINGS_AT + number * flight.RING.size, *entry)
        os.pwrite(self.descriptor, bytes(data), 0)

    def put(self, name, *value):
        self.newest[name] = number = self.newest[name] + 1
        data = flight.NUMBER.pack(number) + flight.VALUES[name].pack(*value)
        os.pwrite(self.descriptor, data, self.offsets[name] + number % self.slots[name] * self.slot_bytes(name))
        self.header()
        return number

    def clock(self, ns):
        self.put("clocks", ns // 2, ns)

    def operation(self, name, submitted, ended, status=0, kind=0, waited=0):
        label = self.put("labels", 0, field(name, 124))
        group = self.put("groups", submitted // 2 + 10, submitted // 2 + 20, waited // 2, 5, 6, 64, 1, 1)
        self.submitted += 1
        return self.put("operations", 7, submitted, ended // 2, 40, group, label, 3, 10, 1, 0, 0, 0xFFFF, status, kind, 7, 1, 2, 1)

    def wait(self, name, submitted, at, kind=0, planned=0, waited_for=-1):
        self.submitted += 1
        self.put("waits", at, submitted, 1, 0, kind, planned, waited_for, field(name, 96))

    def stall(self, name, submitted, at, missing, kind=0):
        ranks = [*missing, *[0] * 16][:16]
        self.put("stalls", at, submitted, 0, kind, len(missing), *ranks, field(name, 96), field(f'allreduce "{name}": stalled', 328))
