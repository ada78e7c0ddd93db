# SPDX-License-Identifier: Apache-2.0
"""A rank's way through its operations: which of its time was its own, and for which it depended on others.

The library does not see when a program waits for an operation (`synchronize`), only when it submits and when data has come. What the
program does before an operation is the same in every step and on every rank, so it follows from all of them together:

- if nothing is in flight whenever the operation is submitted, the program waits for everything before: it has gone on since the last end;
- if another operation has ended shortly before each time, much closer than the last submission, the program waits for that one;
- otherwise the program does not wait: it has gone on since its last submission, whatever ended meanwhile.

Time after the last submission until everything has ended counts as waiting, though a program may compute in it.
"""

from bisect import bisect_right
from statistics import median
from typing import Dict, List, NamedTuple, Optional, Tuple

from .records import Job, Key, Operation, Rank


# A burst: at least this many operations, of which most follow within APART nanoseconds; a thread may lose its core for up to PAUSE.
MANY = 10
PAUSE, APART = 50_000_000, 500_000


_FLYING = 0.1  # part of the times in which something is in flight that is no accident
_OFTEN = 0.7  # part of the times in which another operation has ended between the last submission and this one
_CLOSER = 0.5  # an end is close if it is at most this part of the time since the last submission before
ALL, ONE, NONE = "all", "one", "none"  # what a program waits for before an operation


class Gap(NamedTuple):
    """The time for which a rank went on by itself before a submission. Nanoseconds."""

    begin: int
    length: int
    overlap: int  # the part of it in which something was in flight
    waits: str  # ALL: it counts from the end of all operations before, ONE: of the operation `after`, NONE: from the last submission
    after: Optional[Key] = None


class _Before(NamedTuple):
    """What was before a submission: the last submission, the last end of all operations before, and the last end that had come."""

    last: int
    idle: int
    ended: int
    key: Optional[Key]


class Way:
    """The shared operations of a rank in the order of submission, each with the gap before it. Made by `ways_of`."""

    def __init__(self, job: Job, rank: Rank):
        self.rank = rank.rank
        self.operations: List[Operation] = job.shared(rank)
        self.own: List[Operation] = job.own(rank)
        self.gaps: List[Gap] = []
        self.gap_of: Dict[Key, Gap] = {}

    def before(self) -> List[_Before]:
        """What was before each submission."""
        by_end = sorted(self.operations, key=lambda operation: operation.ended)
        ends = [operation.ended for operation in by_end]
        last = idle = self.operations[0].submitted if self.operations else 0
        found = []
        for operation in self.operations:
            number = bisect_right(ends, operation.submitted) - 1
            found.append(_Before(last, idle, ends[number], by_end[number].key) if number >= 0 else _Before(last, idle, 0, None))
            last, idle = operation.submitted, max(idle, operation.ended)
        return found

    def places(self) -> List[Tuple]:
        """Where in the program each operation is: after which other one. The same name may come twice in a step."""
        signatures = [operation.signature for operation in self.operations]
        return list(zip([(), *signatures], signatures))

    def find_gaps(self, habits: Dict[Tuple, str]) -> None:
        """``habits``: by place, what the program waits for."""
        for operation, place, (last, idle, ended, key) in zip(self.operations, self.places(), self.before()):
            waits, begin, after = habits.get(place, NONE), last, None
            if waits == ALL and idle <= operation.submitted:
                begin = max(last, idle)
            elif waits == ONE and ended > last:
                begin, after = ended, key
            else:
                waits = NONE
            flying = max(0, min(operation.submitted, idle) - begin)
            self.gaps.append(Gap(begin, operation.submitted - begin, flying, waits, after))
        self.gap_of = {operation.key: gap for operation, gap in zip(self.operations, self.gaps)}

    def starts(self) -> List[int]:
        """The times of submission, in order."""
        return [operation.submitted for operation in self.operations]


def ways_of(job: Job) -> Dict[int, Way]:
    """The ways of all ranks, by rank."""
    ways = {number: Way(job, rank) for number, rank in job.ranks.items()}
    seen: Dict[Tuple, List[Tuple[int, int, bool]]] = {}
    for way in ways.values():
        for operation, place, (last, idle, ended, _) in list(zip(way.operations, way.places(), way.before()))[1:]:
            since = operation.submitted - last
            behind = min(since, operation.submitted - ended)
            seen.setdefault(place, []).append((since, behind, idle > operation.submitted))
    habits = {place: _habit(rows) for place, rows in seen.items()}
    for way in ways.values():
        way.find_gaps(habits)
    return ways


def _habit(rows: List[Tuple[int, int, bool]]) -> str:
    """``rows``: (ns since the last submission, ns since the last end if that is less, whether something was in flight)."""
    if sum(flying for _, _, flying in rows) < _FLYING * len(rows):
        return ALL
    often = sum(since > behind for since, behind, _ in rows) >= _OFTEN * len(rows)
    close = median(behind for _, behind, _ in rows) <= _CLOSER * median(since for since, _, _ in rows)
    return ONE if often and close else NONE


def bursts(operations: List[Operation], breaks: List[int]) -> List[Tuple[int, int]]:
    """The spans of these operations; of a burst of them also what the program does between them, because that is their price.

    ``breaks``: when other operations were submitted, in order; no burst goes on after one.
    """
    spans = [(operation.submitted, operation.ended) for operation in operations]
    found, run = [], spans[:1]
    for span in [*spans[1:], (1 << 63, 1 << 63)] if spans else []:
        if span[0] - run[-1][1] <= PAUSE and bisect_right(breaks, span[0]) == bisect_right(breaks, run[-1][0]):
            run.append(span)
            continue
        dense = len(run) >= MANY and median(later[0] - sooner[0] for sooner, later in zip(run, run[1:])) <= APART
        found += [(run[0][0], max(end for _, end in run))] if dense else run
        run = [span]
    return union(found)


def union(spans: List[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """The spans of time that these cover, without overlaps, in order."""
    found: List[Tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif end > begin:
            found.append((begin, end))
    return found


class Cover:
    """How much of any span of time a set of spans covers, in a logarithm of their number."""

    def __init__(self, spans: List[Tuple[int, int]]):
        self._spans = union(spans)
        self._begins = [begin for begin, _ in self._spans]
        self._before = [0]
        for begin, end in self._spans:
            self._before.append(self._before[-1] + end - begin)

    def within(self, begin: int, end: int) -> int:
        """Nanoseconds of [begin, end] that are covered."""
        return max(0, self._until(end) - self._until(begin))

    def _until(self, time: int) -> int:
        number = bisect_right(self._begins, time)
        if number == 0:
            return 0
        begin, end = self._spans[number - 1]
        return self._before[number - 1] + min(time, end) - begin
