# SPDX-License-Identifier: Apache-2.0
"""What a rank's flight recorder holds, read from outside: also while the rank stands still, or after it was killed. Standard
library only, see frames.py.

core/engine/flight_layout.h says what lies where. The memory is a file without a name that the guardian makes for each rank, so
the kernel removes it with the guardian. It is read with pread, never mapped: a rank that cuts its file off cannot kill its reader.
Whatever the bytes are, reading them raises nothing and ends soon.
"""

import os
import struct
import time

VARIABLE = "HOROVOD_FLIGHT_FILE"
MAGIC, VERSION = b"hvdfly\0\1", 1
WORKS, LEFT, BROKEN = 1, 2, 3
HEADER = struct.Struct("<8sIIiiiiQQQQ")
HEADER_BYTES = 256
RING = struct.Struct("<QIIQ")
RINGS = ("operations", "groups", "labels", "clocks", "waits", "stalls")
RINGS_AT = 64
# The layouts of values. Each slot begins with the value's number, which these layouts leave out.
OPERATION = struct.Struct("<QqQQQII4qHbBBBBxIxxxx")
GROUP = struct.Struct("<QQQQQQQq")
LABEL = struct.Struct("<i124s")
CLOCK = struct.Struct("<Qq")
WAIT = struct.Struct("<qqQiBBh96s")
STALL = struct.Struct("<qqiBxH16i96s328s")
VALUES = dict(zip(RINGS, (OPERATION, GROUP, LABEL, CLOCK, WAIT, STALL)))
NUMBER = struct.Struct("<Q")
_MOST_SLOTS, _LONGEST_SLOT = 1 << 16, 1 << 12
_NOBODY = 0xFFFF

# By number, as hvd.h has them; a test compares these with the package's own tables.
KINDS = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "gather", "barrier", "join")
REDUCING = ("allreduce", "reducescatter")
REDUCTIONS = ("average", "sum", "adasum", "min", "max", "product")
DTYPES = ("uint8 int8 uint16 int16 int32 int64 float16 float32 float64 bool bfloat16 uint32 uint64 complex64 complex128 bytes "
          "complex32 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
          "float8_e8m0fnu float4_e2m1fn int2 uint2 int4 uint4").split()


class _Ring:
    def __init__(self, entry, size, value):
        self.offset, self.slots, self.slot_bytes, self.newest = entry
        self.value = value
        fits = 0 < self.slots <= _MOST_SLOTS and NUMBER.size + value.size <= self.slot_bytes <= _LONGEST_SLOT
        self.sane = fits and self.offset + self.slots * self.slot_bytes <= size

    def numbers(self, after=0):
        """The numbers of the values that may still be there."""
        return range(max(after, self.newest - self.slots) + 1, self.newest + 1) if self.sane else range(0)


class Flight:
    """The memory as it is at the moment; every call looks anew. ``descriptor`` stays open as long as this is used."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._rings = {}
        self._clocks = None

    def header(self):
        """``rank``, ``size``, ``pid``, ``state``, ``submitted`` and ``stalls`` (the number of the newest report); None while no rank
        uses the memory."""
        data = self._read(0, HEADER_BYTES)
        if len(data) < HEADER_BYTES:
            return None
        magic, header_bytes, version, rank, size, pid, state, _, submitted, total, _ = HEADER.unpack_from(data)
        if magic != MAGIC or version != VERSION or header_bytes != HEADER_BYTES or not 0 <= rank < size:
            return None
        self._rings = {name: _Ring(RING.unpack_from(data, RINGS_AT + number * RING.size), total, VALUES[name])
                       for number, name in enumerate(RINGS)}
        self._clocks = None
        return {"rank": rank, "size": size, "pid": pid, "state": state, "submitted": submitted, "stalls": self._rings["stalls"].newest}

    def facts(self):
        """The header's, with ``completed`` operations, the ``last`` one that has ended, and what the rank waits for ``now``; None while
        no rank uses the memory. Times are nanoseconds of CLOCK_MONOTONIC."""
        facts = self.header()
        if facts is None:
            return None
        facts["completed"] = self._rings["operations"].newest
        facts["last"], facts["failed"] = self._last()
        facts["now"] = self._now(facts)
        return facts

    def stalls(self, after=0):
        """The reports with higher numbers than that, oldest first. Call header() before."""
        found = []
        for number in self._rings["stalls"].numbers(after) if self._rings else ():
            value = self._value("stalls", number)
            if value is not None:
                at, submitted, process_set, kind, count, *missing, name, text = value
                found.append({"number": number, "at": at, "submitted": submitted, "set": process_set, "kind": _named(KINDS, kind),
                              "name": _text(name), "missing": missing[:min(count, len(missing))], "missing_count": count,
                              "text": _text(text)})
        return found

    def records(self):
        """Every operation that is known, oldest first, as the lines of a file of records have it; and how many were lost before."""
        if self.header() is None:
            return [], 0
        groups, labels, found = self._whole("groups"), self._whole("labels"), []
        numbers = self._rings["operations"].numbers()
        operations = self._whole("operations")
        for number in numbers:
            value = operations.get(number)
            if value is not None:
                found.append(self._record(number, value, groups.get(value[4]), labels.get(value[5])))
        return found, self._rings["operations"].newest - len(found) if self._rings["operations"].sane else 0

    def _record(self, number, value, group, label):
        use, submitted, ended, size, group_number, _, spread, *shape, last, status, kind, dtype, op, ndim, tensors = value
        agreed, begun, waited, reduced, copied, group_bytes, operations, waited_for = group or (0, 0, 0, 0, 0, 0, 0, -1)
        process_set, name = (label[0], _text(label[1])) if label else (0, "")
        rate, agreed, begun, ended = self._rate(), self._time(agreed), self._time(begun), self._time(ended)
        waited, reduced, copied = (int(ticks * rate) for ticks in (waited, reduced, copied))
        # What is reckoned from ticks may be wrong by a little; the order is known.
        agreed = agreed and max(agreed, submitted)
        begun = begun and max(begun, agreed)
        ended = max(ended, submitted, begun + waited + reduced + copied if begun else 0) if ended else 0
        return {
            "n": number, "set": process_set, "use": use, "kind": _named(KINDS, kind),
            "op": _named(REDUCTIONS, op) if _named(KINDS, kind) in REDUCING else None, "name": name, "status": status,
            "dtype": _named(DTYPES, dtype) if tensors else None, "shape": shape[:min(ndim, 4)], "tensors": tensors, "bytes": size,
            "submitted": submitted, "agreed": agreed, "begun": begun, "ended": ended, "waited": waited,
            "moved": ended - begun - waited - reduced - copied if begun and ended else 0, "reduced": reduced, "copied": copied,
            "group": group_number, "group_bytes": group_bytes, "group_operations": operations,
            # In a set of its own a member's number is no rank, and only the rank's own process knows which one it is.
            "last": -1 if last == _NOBODY or process_set != 0 else last, "spread": spread * 1000, "waited_for": waited_for,
        }

    def _last(self):
        """The last operation that succeeded, and the first of those after it, which failed."""
        failed = None
        numbers = self._rings["operations"].numbers()
        for number in reversed(numbers[-256:]):  # a rank that is told of an error has not many operations in flight
            value = self._value("operations", number)
            if value is None:
                continue
            _, submitted, ended, _, _, label_number, _, *_, status, kind, _, _, _, _ = value
            label = self._value("labels", label_number)
            found = {"kind": _named(KINDS, kind), "name": _text(label[1]) if label else "", "set": label[0] if label else 0,
                     "submitted": submitted, "ended": self._time(ended) or submitted}
            if status == 0:
                return found, failed
            failed = {**found, "status": status}
        return None, failed

    def _now(self, facts):
        """The wait that the driver saw last, unless an operation has ended since."""
        ring = self._rings["waits"]
        if facts["submitted"] <= facts["completed"] or not ring.sane:
            return None
        value = self._value("waits", ring.newest)
        if value is None:
            return None
        at, submitted, in_flight, process_set, kind, planned, waited_for, name = value
        ended = max((found["ended"] for found in (facts["last"], facts["failed"]) if found is not None), default=0)
        if ended > at:
            return None
        return {"kind": _named(KINDS, kind), "name": _text(name), "set": process_set, "submitted": submitted, "at": at,
                "in_flight": in_flight, "planned": bool(planned), "waited_for": waited_for}

    # ---- bytes

    def _read(self, offset, count):
        try:
            return os.pread(self._descriptor, count, offset)
        except (OSError, OverflowError, ValueError):
            return b""

    def _value(self, name, number):
        """One value, whole; None if it is not there any more."""
        ring = self._rings[name]
        if not ring.sane or number == 0:
            return None
        at = ring.offset + number % ring.slots * ring.slot_bytes
        size = NUMBER.size + ring.value.size
        data = self._read(at, size)
        if len(data) < size or NUMBER.unpack_from(data)[0] != number or self._read(at, NUMBER.size) != data[:NUMBER.size]:
            return None
        return ring.value.unpack_from(data, NUMBER.size)

    def _whole(self, name):
        """All values of a ring by number, without values that were written while they were read."""
        ring = self._rings[name]
        if not ring.sane:
            return {}
        size = ring.slots * ring.slot_bytes
        data, again = self._read(ring.offset, size), self._read(ring.offset, size)
        found = {}
        if len(data) == len(again) == size:
            for at in range(0, size, ring.slot_bytes):
                number = data[at:at + NUMBER.size]
                if number == again[at:at + NUMBER.size]:
                    found[NUMBER.unpack(number)[0]] = ring.value.unpack_from(data, at + NUMBER.size)
            found.pop(0, None)
        return found

    # ---- clocks

    def _times(self):
        """The oldest and the newest clock that are known, as (ticks, ns)."""
        if self._clocks is None:
            found = [value for number, value in sorted(self._whole("clocks").items())]
            self._clocks = (found[0], found[-1]) if found else ((0, 0), (0, 0))
        return self._clocks

    def _rate(self):
        """Nanoseconds per tick; 0 if one clock is not enough to tell."""
        first, last = self._times()
        return max(0.0, (last[1] - first[1]) / (last[0] - first[0])) if last[0] > first[0] else 0.0

    def _time(self, ticks):
        """The moment of so many ticks in ns; 0 if there was none, or nobody can tell."""
        rate, (_, last) = self._rate(), self._times()
        return last[1] + int((ticks - last[0]) * rate) if ticks and rate else 0


def with_ages(descriptor):
    """What the flight memory tells, with ages in seconds in place of times; None while no rank uses it."""
    facts = Flight(descriptor).facts()
    if facts is None:
        return None
    now = time.monotonic_ns()
    told = {name: facts[name] for name in ("rank", "size", "pid", "state", "submitted", "completed")}
    for name in ("last", "failed"):
        told[name] = facts[name] and {**_operation(facts[name]), "ago": _age(now, facts[name]["ended"]),
                                      "took": _age(facts[name]["ended"], facts[name]["submitted"])}
    if facts["failed"]:
        told["failed"]["status"] = facts["failed"]["status"]
    wait = facts["now"]
    told["now"] = wait and {**_operation(wait), "since": _age(now, wait["submitted"]), "seen": _age(now, wait["at"]),
                            "in_flight": wait["in_flight"], "planned": wait["planned"], "waited_for": wait["waited_for"]}
    return told


def _operation(found):
    return {name: found[name] for name in ("kind", "name", "set")}


def _age(now, then):
    return round((now - then) / 1e9, 3)


def new(rank):
    """A descriptor of new memory for a rank, which libhvd gives its size."""
    return os.memfd_create(f"hvd-flight-{rank}", os.MFD_CLOEXEC)


def path(guardian, descriptor):
    """Under which name a rank opens it."""
    return f"/proc/{guardian}/fd/{descriptor}"


def _named(names, number):
    return names[number] if number < len(names) else f"number {number}"


def _text(field):
    return field.partition(b"\0")[0].decode("utf-8", "replace")
